"""``zoo register``, ``unregister`` and ``check``: the user's encoders added, removed, and compared with their first
load.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ..cards.answers import make_table
from ..cards.schema import LAYOUT_NAMES, EncoderCard
from ..errors import CardError, MissingExtra, QueryError, ZooError, format_count
from .facts import select_cards
from .options import complete_encoder_names, yes_option
from .output import (
    NothingFound,
    add_json_option,
    announce,
    format_entry,
    format_size,
    print_json,
    print_notes,
    print_table,
    require_confirmation,
    wrap_text,
)

_INHERITABLE = ("pretraining", "licence", "paper")  # keys of zoo.registration.INHERITABLE, which needs torch

_REGISTER_EXAMPLES = """\b
Examples:
  zoo register runs/checkpoint.pth --like dino_vitS16 --id my_dino --facts runs/facts.toml
  zoo register runs/last.ckpt --like simclr_rn50 --id my_byol --checkpoint-key student_backbone
  zoo register runs/checkpoint.pth --like dino_vitS16 --id my_dino_ep100 \\
      --inherit pretraining --set pretraining.epochs=100 --set pretraining.dataset='"iNaturalist 2021"'

\b
A file of facts is written like a card, as TOML or JSON:
  [objective]
  name = "dino"
  mode = "clustering"
  [pretraining]
  dataset = "iNaturalist 2021"
  epochs = 100
"""


@click.command("register", epilog=_REGISTER_EXAMPLES)
@click.argument("weights", metavar="PATH")
@click.option(
    "--like", required=True, shell_complete=complete_encoder_names, help="Encoder with this architecture and layout."
)
@click.option("--id", "name", required=True, help="Id of the new encoder.")
@click.option(
    "--facts",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="What is known of it, in a TOML or JSON file that is written like a card.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FACT=VALUE",
    help="One fact, by its dotted name in the card; may be given many times, and counts more than --facts.",
)
@click.option(
    "--inherit",
    multiple=True,
    type=click.Choice(_INHERITABLE),
    help="True of it because it is true of --like: how it was trained (objective, projector, data, recipe, hardware), "
    "licence, or paper. May be given many times.",
)
@click.option(
    "--layout",
    type=click.Choice(LAYOUT_NAMES),
    help="How the file names its tensors. Without it that of --like is tried, then those of torchvision and timm, and "
    "'zoo', an encoder's own state dict; then all the others, of which the one that fits is taken.",
)
@click.option(
    "--checkpoint-key",
    metavar="KEY",
    help="Which encoder of the file, where several fit: student, state_dict_ema, model.backbone, ...",
)
@click.option(
    "--companion",
    "companions",
    multiple=True,
    metavar="PATH",
    help="A further file that the encoder needs, instead of the one that the card of --like names.",
)
@click.option(
    "--merge-lora",
    metavar="SCALE|FILE|DIR",
    default="",
    help="Merge LoRA matrices into the weights: by their scale (alpha / r), by peft's adapter_config.json, or by the "
    "folder of it with the matrices, if PATH has the weights alone. Those of loralib must be saved in training mode.",
)
@add_json_option
def register_command(
    weights: str,
    like: str,
    name: str,
    file: Path | None,
    settings: tuple[str, ...],
    inherit: tuple[str, ...],
    layout: str | None,
    checkpoint_key: str | None,
    companions: tuple[str, ...],
    merge_lora: str,
    as_json: bool,
) -> None:
    """Add a checkpoint of your own as an encoder.

    The file (a path or an address) is checked against the architecture and copied to your own folder (ZOO_HOME), with a
    card. From then on the encoder is listed, loaded and measured like any other. Architecture, features and
    preprocessing are those of --like; training, licence and paper are "not published" unless given. A registered
    encoder never changes: a new version is a new id.

    Read are checkpoints of training scripts, timm, lightly, solo-learn and Lightning: the average of the training
    (EMA) where there is one, and of student and teacher the one that the method publishes. What was read is printed.
    """
    from ..registration import find_registered_record, read_facts, register

    facts = (read_facts(file) if file is not None else {}) | dict(map(_setting, settings))
    try:
        card = register(
            [weights, *companions],
            like=like,
            name=name,
            facts=facts,
            inherit=inherit,
            layout=layout,
            checkpoint_key=checkpoint_key,
            merge_lora=merge_lora,
        )
    except CardError as error:  # a fact that was given here
        raise QueryError(str(error)) from error
    weight, record = card.weights, find_registered_record(card)
    reading = None if record is None else record.reading
    if as_json:
        known = {"encoder": card.id, "like": like, "sha256": weight.sha256, "size_bytes": weight.size_bytes}
        how = None if reading is None else {**asdict(reading), "sentence": str(reading)}
        print_json({**known, "reading": how})
        return
    click.echo(f"Registered {card.id} (sha256 {weight.sha256}).")
    if reading is not None:
        click.echo(str(reading))
    click.echo(f'Load it with zoo.load("{card.id}"), see its card with: zoo show {card.id}')


def _setting(text: str) -> tuple[str, Any]:
    """``pretraining.epochs=100`` as a name and a value; a value that is not TOML is text."""
    field, equals, value = text.partition("=")
    if not equals or not field.strip():
        raise QueryError(f"Found --set {text!r}, expected FACT=VALUE, such as pretraining.epochs=100.")
    try:
        return field.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return field.strip(), value.strip()


@click.command("unregister", epilog="\b\nExamples:\n  zoo unregister my_dino\n  zoo unregister my_dino --yes --json")
@click.argument("names", nargs=-1, required=True, metavar="ID...", shell_complete=complete_encoder_names)
@yes_option
@add_json_option
def unregister_command(names: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Take encoders that you have registered out of the zoo.

    Their cards go, and the weights that no other encoder reads. Their results are kept in your folder of results, in
    files that nothing reads; registering the same weights under the same id brings them back.
    """
    from ..registration import require_registered, unregister

    if not yes:
        amounts = {card.id: card.weights.size_bytes for card in require_registered(names)}
        lines = [f"{name}: {format_size(n) if isinstance(n, int) else 'no weights'}" for name, n in amounts.items()]
        require_confirmation(lines, "Remove these encoders and their weights?")
    done = unregister(names)
    if as_json:
        records = [
            {
                "encoder": one.encoder,
                "freed_bytes": one.freed_bytes,
                "n_rows_kept": one.n_rows,
                "kept_in": list(map(str, one.kept_rows)),
                "left_out_in": list(map(str, one.stray_rows)),
            }
            for one in done
        ]
        print_json({"freed_bytes": sum(one.freed_bytes for one in done), "encoders": records})
        return
    for one in done:
        text = f"Unregistered {one.encoder}; freed {format_size(one.freed_bytes)}."
        if one.kept_rows:
            rows = format_count(one.n_rows, "row of results is", "rows of results are")
            text += f" Its {rows} kept in {one.kept_rows[0]}, which nothing reads."
        if one.stray_rows:
            text += f" Rows that name it in {', '.join(map(str, one.stray_rows))} are left out from now on."
        click.echo(wrap_text(text))


_CHECK_EXAMPLES = """\b
Examples:
  zoo check dino_vitS16
  zoo check 'init_*' --device cuda --json
  zoo check dino_vitS16 --record
"""
_COLOURS = {"drifted": "red", "not checked": "red", "recorded": "yellow"}


@click.command("check", epilog=_CHECK_EXAMPLES)
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_encoder_names)
@click.option("--device", default="cpu", show_default=True, help="Where the features are computed.")
@click.option("--record", is_flag=True, help="Put these features in place of those recorded, once they were compared.")
@add_json_option
def check_command(names: tuple[str, ...], device: str, record: bool, as_json: bool) -> None:
    """Compare features with those of the first load.

    Computes the features of four bundled images and compares them with those recorded at the first load of the
    weights, which shows changes of weights, preprocessing or libraries. Where nothing was recorded yet, it is now;
    --record accepts differences. Untrained encoders are checked with their random weights of seed 0. NAME is an encoder
    or a glob such as 'dino_*'. Exit code 1 if any has drifted or could not be checked.
    """
    from torch import nn

    from ..features.computing import choose_device
    from ..regression_check import TOLERANCE

    cards = select_cards(names, None)
    choose_device(nn.Identity(), device)
    checked = []
    for number, card in enumerate(cards, start=1):
        announce(number, len(cards), card.id)
        checked.append(_checked(card, device=device, record=record))
        if not as_json:
            _print(checked[-1])
    n_drifted, n_not_checked = (sum(one["state"] == state for one in checked) for state in ("drifted", "not checked"))
    if as_json:
        counts = {"tolerance": TOLERANCE, "n_drifted": n_drifted, "n_not_checked": n_not_checked}
        print_json({**counts, "encoders": checked})
    elif any(one["compared_with"] and one["state"] != "same" for one in checked):
        print_notes([f"relative: length of the difference over that of the features; rounding is up to {TOLERANCE:g}"])
    bad = [one for one in checked if one["state"] == "not checked" or (one["state"] == "drifted" and not record)]
    if bad:
        named = ", ".join(f"{one['encoder']} {one['state']}" for one in bad)
        raise NothingFound(f"{len(bad)} of {len(checked)}: {named}.")


def _checked(card: EncoderCard, *, device: str, record: bool) -> dict[str, Any]:
    """The result for one encoder as JSON; a difference that is not finite is null."""
    import torch

    from ..encoders import build_encoder
    from ..encoders.preprocess import build_preprocess
    from ..loading import load_trained_encoder
    from ..regression_check import compare_features

    drift, state, reason = None, "not checked", None
    try:
        encoder, found = (build_encoder(card, device="cpu"), None) if card.is_untrained else load_trained_encoder(card)
        preprocess = build_preprocess(card.preprocess)
        drift = compare_features(card, found, encoder.to(device), preprocess, record=record)
        state = "recorded" if drift is None else drift.verdict
    except MissingExtra:
        raise
    except ZooError as error:
        reason = str(error)
    except torch.cuda.OutOfMemoryError as error:
        reason = f"{device} has too little memory for it ({str(error).partition('.')[0]}); use --device cpu."
    images = [asdict(image) for image in drift.images] if drift else []
    return {
        "encoder": card.id,
        "state": state,
        "reason": reason,
        "compared_with": drift.day if drift else None,
        "is_recorded": state == "recorded" or (record and drift is not None),
        "images": [
            {name: None if value in (math.inf, -math.inf) else value for name, value in image.items()}
            for image in images
        ],
        "changes": [asdict(change) for change in drift.changes] if drift else [],
    }


def _print(one: dict[str, Any]) -> None:
    state, day = one["state"], one["compared_with"]
    said = f"{state}, recorded on {day}" if day else state
    click.echo(click.style(one["encoder"], bold=True) + ": " + click.style(said, fg=_COLOURS.get(state)))
    if one["reason"]:
        click.echo("\n".join(format_entry("reason", one["reason"])))
    if one["images"] and state != "same":
        rows = []
        for image in one["images"]:
            forms = {"absolute": ".2g", "relative": ".1e", "cosine": ".7f"}
            numbers = [math.inf if image[name] is None else image[name] for name in forms]
            rows.append([f"  {image['image']}", *map(format, numbers, forms.values())])
        print_table(make_table(["  image", "largest difference", "relative", "cosine"], rows, numbers=[1, 2, 3]))
    for change in one["changes"]:
        click.echo("\n".join(format_entry(f"{change['what']} changed", f"{change['then']} -> {change['now']}")))
    if day and not one["changes"] and state != "same":
        click.echo("  Weights, preprocessing, kind of machine and libraries are those of the recording.")
    if day and one["is_recorded"]:
        click.echo("  Recorded anew.")
