"""``zoo register``: a checkpoint of the user's own becomes an encoder like any other."""

from __future__ import annotations

import tomllib
from typing import Any

import click

from ..errors import QueryError
from ..metadata import LAYOUT_NAMES
from .options import encoder_names
from .output import json_option, print_json

_EPILOG = """\b
Examples:
  zoo register runs/checkpoint.pth --like dino_vitS16 --id my_dino
  zoo register runs/last.ckpt --like simclr_rn50 --id my_byol --checkpoint-key student_backbone
  zoo register runs/checkpoint.pth --like dino_vitS16 --id my_dino_ep100 \\
      --set pretraining.epochs=100 --set pretraining.dataset='"iNaturalist 2021"'
"""


@click.command("register", epilog=_EPILOG)
@click.argument("weights", metavar="PATH")
@click.option("--like", required=True, shell_complete=encoder_names, help="Encoder with this architecture and layout.")
@click.option("--id", "name", required=True, help="Id of the new encoder.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FACT=VALUE",
    help="A fact that differs, by its dotted name in the card; may be given many times.",
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
    settings: tuple[str, ...],
    layout: str | None,
    checkpoint_key: str | None,
    companions: tuple[str, ...],
    as_json: bool,
) -> None:
    """Add a checkpoint of your own as an encoder.

    The file (a path or an address) is checked against the architecture and kept by its content in your own folder
    (ZOO_HOME), with a card. From then on the encoder is listed, loaded and measured like any other. What is registered
    is never changed: a new version is a new id.

    The encoder is looked for in what training scripts, timm, lightly, solo-learn and Lightning save, half precision is
    widened, and what was taken is said: the average of the training (EMA) where there is one, and of student and
    teacher the one that the method of --like publishes.
    """
    from dataclasses import asdict

    from ..registration import record_of, register

    card = register(
        [weights, *companions],
        like=like,
        name=name,
        facts=dict(map(_setting, settings)),
        layout=layout,
        checkpoint_key=checkpoint_key,
    )
    weight, record = card.weights, record_of(card)
    reading = None if record is None else record.reading
    if as_json:
        facts = {"encoder": card.id, "like": like, "sha256": weight.sha256, "size_bytes": weight.size_bytes}
        how = None if reading is None else {**asdict(reading), "sentence": str(reading)}
        print_json({**facts, "reading": how})
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
