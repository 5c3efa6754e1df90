"""``zoo register``: a checkpoint of the user's own becomes an encoder like any other."""

from __future__ import annotations

import tomllib
from typing import Any

import click

from ..errors import QueryError
from .options import encoder_names
from .output import json_option, print_json

_EPILOG = """\b
Examples:
  zoo register runs/checkpoint.pth --like dino_vitS16 --id my_dino
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
@click.option("--layout", help="Layout of the file, if it is not that of --like; 'zoo' for an encoder's state dict.")
@json_option
def command(weights: str, like: str, name: str, settings: tuple[str, ...], layout: str | None, as_json: bool) -> None:
    """Add a checkpoint of your own as an encoder.

    The file (a path or an address) is checked against the architecture and kept by its content in your own folder
    (ZOO_HOME), with a card. From then on the encoder is listed, loaded and measured like any other. What is registered
    is never changed: a new version is a new id.
    """
    from ..registration import register

    card = register(weights, like=like, name=name, facts=dict(map(_setting, settings)), layout=layout)
    weight = card.weights
    if as_json:
        print_json({"encoder": card.id, "like": like, "sha256": weight.sha256, "size_bytes": weight.size_bytes})
        return
    click.echo(f"Registered {card.id} (sha256 {weight.sha256}).")
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
