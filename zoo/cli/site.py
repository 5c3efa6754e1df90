"""``zoo site``: a static site of everything the zoo knows, written to a folder, and served for a look at it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import StoreError
from ..files import cache_folder
from .options import refuse_idle
from .output import json_option, print_json, print_notes
from .site_output import content_options, document_of, made_site, print_made

if TYPE_CHECKING:
    from ..site.serving import SiteServer

_EPILOG = """\b
Examples:
  zoo site --out site
  zoo site --serve
  zoo site --out lab --only 'dino*' --only mae_vitB16 --title 'Encoders of our lab' --with-mine
  zoo site --out site --no-studies --json
"""


@click.command("site", epilog=_EPILOG)
@click.option(
    "--out",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder to write: absent, empty, or an untouched earlier site; with --serve, by default in the cache.",
)
@content_options
@click.option("--serve", is_flag=True, help="Serve the site on this machine and open the browser.")
@click.option("--port", metavar="N", type=click.IntRange(1, 65_535), help="To serve it on; by default a free one.")
@click.option("--no-browser", is_flag=True, help="Serve it and print the address alone.")
@json_option
def site_command(
    folder: Path | None,
    with_mine: bool,
    only: tuple[str, ...],
    title: str | None,
    no_studies: bool,
    serve: bool,
    port: int | None,
    no_browser: bool,
    as_json: bool,
) -> None:
    """Write a static site of everything the zoo knows.

    A page for every encoder, tables and plots, the choice by labels and size, the studies, and all data as CSV and
    JSON. It opens from the disk and from any web server, and needs no network. Written again, only what has changed is
    rewritten; the earlier site stays until the new one is whole.
    """
    from ..site.serving import SiteServer

    if folder is None and not serve:
        raise click.UsageError(
            "Got neither --out nor --serve, expected --out DIR to write the site there, or --serve to look at it."
        )
    if not serve:
        refuse_idle(["port", "no_browser"], "nothing is served", remedy=", or add --serve")
    with ExitStack() as stack:
        server = stack.enter_context(SiteServer(port or 0)) if serve else None
        made = made_site(
            _cached() if folder is None else folder,
            with_mine=with_mine,
            only=only,
            title=title,
            no_studies=no_studies,
        )
        if as_json:
            print_json(document_of(made) | ({"address": server.address} if server else {}))
        else:
            print_made(made)
            if server is None:
                print_notes([f"open {made.index} in a browser; the same command with --serve serves it"])
        if server is not None:
            _serve(server, made.written.folder, no_browser=no_browser, as_json=as_json)


def _cached() -> Path:
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"The cache {folder} cannot be made ({error.strerror}), where the site would be kept; name a folder with "
            "--out DIR, or set ZOO_CACHE."
        ) from error
    return folder / "site"


def _serve(server: SiteServer, folder: Path, *, no_browser: bool, as_json: bool) -> None:
    """Until it is interrupted, which is how it ends well."""
    from ..site.serving import open_browser

    opened = not no_browser and open_browser(server.address)
    click.echo(f"Serving it at {server.address}{' and in the browser' if opened else ''} until Ctrl-C.", err=as_json)
    try:
        server.serve(folder)
    except KeyboardInterrupt:
        click.echo(err=True)
