"""``zoo register`` and ``zoo unregister``: encoders of the user's own, and the end of them."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import CardError, QueryError
from ..metadata import LAYOUT_NAMES, EncoderCard
from .cache import size
from .options import encoder_names
from .output import NothingFound, json_option, print_json, wrapped

if TYPE_CHECKING:
    from ..registration import Unregistered

_INHERITABLE = ("pretraining", "licence", "paper")  # keys of zoo.registration.INHERITABLE, which needs torch

_EPILOG = """\b
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


@click.command("register", epilog=_EPILOG)
@click.argument("weights", metavar="PATH")
@click.option("--like", required=True, shell_complete=encoder_names, help="Encoder with this architecture and layout.")
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
    "'zoo', an encoder's own state dict.",
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
@json_option
def command(
    weights: str,
    like: str,
    name: str,
    file: Path | None,
    settings: tuple[str, ...],
    inherit: tuple[str, ...],
    layout: str | None,
    checkpoint_key: str | None,
    companions: tuple[str, ...],
    as_json: bool,
) -> None:
    """Add a checkpoint of your own as an encoder.

    The file (a path or an address) is checked against the architecture and kept by its content in your own folder
    (ZOO_HOME), with a card. From then on the encoder is listed, loaded and measured like any other. Architecture,
    features and preprocessing are those of --like; how it was trained, its licence and its paper are "not published"
    unless you say so. What is registered is never changed: a new version is a new id.

    The encoder is looked for in what training scripts, timm, lightly, solo-learn and Lightning save, half precision is
    widened, and what was taken is said: the average of the training (EMA) where there is one, and of student and
    teacher the one that the method publishes.
    """
    from dataclasses import asdict

    from ..registration import facts_of_file, record_of, register

    facts = (facts_of_file(file) if file is not None else {}) | dict(map(_setting, settings))
    try:
        card = register(
            [weights, *companions], like=like, name=name, facts=facts, inherit=inherit, layout=layout,
            checkpoint_key=checkpoint_key,
        )  # fmt: skip
    except CardError as error:  # a fact that was given here
        raise QueryError(str(error)) from error
    weight, record = card.weights, record_of(card)
    reading = None if record is None else record.reading
    if as_json:
        entry = {"encoder": card.id, "like": like, "sha256": weight.sha256, "size_bytes": weight.size_bytes}
        how = None if reading is None else {**asdict(reading), "sentence": str(reading)}
        print_json({**entry, "reading": how})
        return
    click.echo(f"Registered {card.id} (sha256 {weight.sha256}).")
    if reading is not None:
        click.echo(str(reading))
    click.echo(f'Load it with zoo.load("{card.id}"), see its card with: zoo show {card.id}')


def _setting(text: str) -> tuple[str, Any]:
    """``pretraining.epochs=100`` as a name and a value; what is no TOML value is a text."""
    field, equals, value = text.partition("=")
    if not equals or not field.strip():
        raise QueryError(f"Found --set {text!r}, expected FACT=VALUE, such as pretraining.epochs=100.")
    try:
        return field.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return field.strip(), value.strip()


@click.command("unregister", epilog="\b\nExamples:\n  zoo unregister my_dino\n  zoo unregister my_dino --yes --json")
@click.argument("names", nargs=-1, required=True, metavar="ID...", shell_complete=encoder_names)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def unregister_command(names: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Take encoders that you have registered out of the zoo.

    Their cards go, and the weights that no other encoder reads. Their results are kept in your folder of results, in
    files that nothing reads; registering the same weights under the same id brings them back. No line of zoo.lock
    speaks of registered weights.
    """
    from ..registration import require_registered, unregister

    if not yes and not _agrees(require_registered(names)):
        raise NothingFound("Nothing was removed.")
    done = unregister(names)
    if as_json:
        print_json({"freed_bytes": sum(one.freed_bytes for one in done), "encoders": list(map(_record, done))})
        return
    for one in done:
        click.echo(wrapped(_sentence(one)))


def _agrees(cards: Sequence[EncoderCard]) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("Got no --yes, expected it where nobody can be asked.")
    for card in cards:
        amount = card.weights.size_bytes
        click.echo(wrapped(f"{card.id}: {size(amount) if isinstance(amount, int) else 'no weights'}"), err=True)
    return click.confirm("Remove these encoders and their weights?", err=True)


def _record(one: Unregistered) -> dict[str, Any]:
    return {
        "encoder": one.encoder,
        "freed_bytes": one.freed_bytes,
        "n_rows_kept": one.n_rows,
        "kept_in": list(map(str, one.kept_rows)),
        "left_out_in": list(map(str, one.stray_rows)),
    }


def _sentence(one: Unregistered) -> str:
    text = f"Unregistered {one.encoder}; {size(one.freed_bytes)} are free again."
    if one.kept_rows:
        text += f" Its {one.n_rows:,} rows of results are kept in {one.kept_rows[0]}, which nothing reads."
    if one.stray_rows:
        text += f" Rows that name it in {', '.join(map(str, one.stray_rows))} are left out from now on."
    return text
