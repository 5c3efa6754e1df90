"""``zoo export``: an encoder as a folder for the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path

import click

from ..cards import catalogue
from .cache import size
from .get import obtained
from .options import encoder_names
from .output import json_option, print_json, wrapped

_EPILOG = """\b
Examples:
  zoo export dino_vitS16 --hub exports/dino_vitS16
  hf upload OWNER/dino_vitS16 exports/dino_vitS16
"""


@click.command("export", epilog=_EPILOG)
@click.argument("name", shell_complete=encoder_names)
@click.option(
    "--hub",
    "folder",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write: absent, empty, or an untouched earlier export of the same encoder.",
)
@json_option
def command(name: str, folder: Path, as_json: bool) -> None:
    """Write a folder for the Hugging Face Hub.

    It gets the converted weights, byte for byte; config.json with the facts that are needed to build and to use the
    encoder, and the source of the weights; and a model card with the measured results. The weights are fetched first if
    they are not there. Nothing is uploaded.
    """
    from ..export import export_to_hub_folder, redistribution_note, require_exportable

    card = catalogue()[name]
    require_exportable(card, folder)
    _, found = obtained(card)
    paths = export_to_hub_folder(card, found, folder)
    note = redistribution_note(card)
    sizes = {path.name: path.stat().st_size for path in paths}
    if as_json:
        files = [{"file": file, "size_bytes": n_bytes} for file, n_bytes in sizes.items()]
        print_json(
            {"encoder": card.id, "folder": str(folder), "sha256": found.record.sha256, "note": note, "files": files}
        )
        return
    listed = ", ".join(f"{file} ({size(n_bytes)})" for file, n_bytes in sizes.items())
    click.echo(wrapped(f"Wrote {card.id} to {folder}: {listed}."))
    if note:
        click.secho(wrapped(note), fg="yellow", err=True)
