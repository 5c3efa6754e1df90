"""``zoo site`` and ``zoo export``: a static site of everything the zoo knows, and folders for the Hugging Face Hub."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.catalogue import load_catalogue
from ..errors import format_count
from ..files import get_cache_folder
from .facts import fetch_converted_weights
from .options import add_options, complete_encoder_names, reject_unused_options
from .output import add_json_option, format_size, print_command, print_json, print_notes, show_steps, wrap_text

if TYPE_CHECKING:
    from ..site.contents import Contents
    from ..site.rendering import File

_CONTENT = ("with_mine", "only", "title", "no_studies")  # names of the options on what a site shows


def _content_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--with-mine", is_flag=True, help="With your own encoders and measurements, which are marked."),
        click.option(
            "--only",
            metavar="PATTERN",
            multiple=True,
            shell_complete=complete_encoder_names,
            help="These encoders: an id or a glob such as 'dino_*'; repeatable.",
        ),
        click.option("--title", metavar="TEXT", help="Of the site, instead of SSL Zoo."),
        click.option("--no-studies", is_flag=True, help="Without the pages of the studies, which take longest."),
    )
    return add_options(command, options)


_SITE_EXAMPLES = """\b
Examples:
  zoo site --out site
  zoo site --serve
  zoo site --out lab --only 'dino*' --only mae_vitB16 --title 'Encoders of our lab' --with-mine
  zoo site --out site --no-studies --json
"""


@click.command("site", epilog=_SITE_EXAMPLES)
@click.option(
    "--out",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder to write: absent, empty, or an untouched earlier site; with --serve, by default in the cache.",
)
@_content_options
@click.option("--serve", is_flag=True, help="Serve the site on this machine and open the browser.")
@click.option("--port", metavar="N", type=click.IntRange(1, 65_535), help="To serve it on; by default a free one.")
@click.option("--no-browser", is_flag=True, help="With --serve, do not open the browser.")
@add_json_option
def site_command(
    folder: Path | None, serve: bool, port: int | None, no_browser: bool, as_json: bool, **content: Any
) -> None:
    """Write a static site of everything the zoo knows.

    A page for every encoder, tables and plots, the choice by labels and size, the studies, and all data as CSV and
    JSON. It opens from the disk and from any web server, and needs no network. Only what has changed is rewritten; the
    earlier site stays until the new one is complete.
    """
    from ..site.serving import SiteServer, open_browser

    if folder is None and not serve:
        raise click.UsageError("Got neither --out nor --serve, expected --out DIR to write the site, or --serve.")
    if not serve:
        reject_unused_options(["port", "no_browser"], "nothing is served", remedy=", or add --serve")
    if folder is None:
        folder = get_cache_folder() / "site"
        folder.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        server = stack.enter_context(SiteServer(port or 0)) if serve else None
        document, sentence, note = _made_site(folder, **content)
        if as_json:
            print_json(document | ({"address": server.address} if server else {}))
        else:
            click.echo(wrap_text(sentence))
            hint = f"open {document['index']} in a browser, or add --serve"
            print_notes([note] * bool(note) + [hint] * (not serve))
        if server is not None:
            opened = not no_browser and open_browser(server.address)
            where = f"{server.address}{' and in the browser' if opened else ''}"
            click.echo(f"Serving it at {where} until Ctrl-C.", err=as_json)
            with suppress(KeyboardInterrupt):  # which is how serving ends well
                server.serve(folder)


def _made_site(
    folder: Path,
    *,
    with_mine: bool,
    only: tuple[str, ...],
    title: str | None,
    no_studies: bool,
    more: Callable[[Contents], Iterator[File]] = lambda contents: iter(()),
) -> tuple[dict[str, Any], str, str]:
    """Makes the site and writes it: as JSON, as a sentence, and a note on what is the user's own.

    ``more`` makes files in addition to those of every site.
    """
    from ..site.building import require_libraries, require_site_folder, site_files, write_site
    from ..site.contents import TITLE, gather

    start = time.monotonic()
    require_site_folder(folder)  # it and the libraries first: a refusal shows before any work
    require_libraries(with_studies=not no_studies)
    with show_steps("reading cards and results") as progress:
        gathered = gather(only=only, with_mine=with_mine, title=(title or "").strip() or TITLE)
        contents = replace(gathered, with_studies=not no_studies)
        done = write_site(chain(more(contents), site_files(contents, progress)), folder, title=contents.title)
    seconds = time.monotonic() - start
    document = {
        "folder": str(done.folder),
        "index": str(done.folder / "index.html"),
        "title": contents.title,
        "encoders": len(contents.entries),
        "pages": done.n_pages,
        "files": done.n_files,
        "written": done.n_written,
        "unchanged": done.n_unchanged,
        "removed": done.n_removed,
        "size_bytes": done.n_bytes,
        "seconds": round(seconds, 3),
    }
    what = f"{format_count(done.n_pages, 'page')} ({format_count(done.n_files, 'file')}, {format_size(done.n_bytes)})"
    changes = f"{format_count(done.n_written, 'file')} new or changed, {done.n_removed:,} removed"
    sentence = f"Wrote {what} to {done.folder} in {max(seconds, 1):.0f} s: {changes}."
    entries = contents.entries.values()
    own, measured = sum(entry.is_mine for entry in entries), sum(bool(entry.own_means) for entry in entries)
    added = f"{format_count(own, 'encoder')} of yours, and your measurements of {format_count(measured, 'encoder')}"
    return document, sentence, f"--with-mine added {added}" if with_mine else ""


# --- export ----------------------------------------------------------------------------------------------------------

_EXPORT_EXAMPLES = """\b
Examples:
  zoo export dino_vitS16 --hub exports/dino_vitS16
  hf upload OWNER/dino_vitS16 exports/dino_vitS16
  zoo export --space space --title 'Encoders of our lab' --only 'dino*' --with-mine
"""


@click.command("export", epilog=_EXPORT_EXAMPLES)
@click.argument("name", required=False, shell_complete=complete_encoder_names)
@click.option(
    "--hub",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write an encoder to: absent, empty, or an untouched earlier export of the same encoder.",
)
@click.option(
    "--space",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder to write a site to, as a static Space: absent, empty, or an untouched earlier one.",
)
@_content_options
@add_json_option
def export_command(name: str | None, folder: Path | None, space: Path | None, as_json: bool, **content: Any) -> None:
    """Write a folder for the Hugging Face Hub: an encoder, or the site as a Space.

    With NAME and --hub: the converted weights, config.json with the facts needed to build and use the encoder and the
    source of the weights, and a model card with the measured results. The weights are fetched if they are not stored.

    With --space: the pages of zoo site, and a README.md that makes them a static Space. Nothing is uploaded; in
    commands that upload, OWNER is your account at the Hub.
    """
    if (name is None) != (folder is None) or (space is None) == (folder is None):
        raise click.UsageError("Expected NAME --hub DIR for an encoder, or --space DIR alone for the site.")
    if space is not None:
        from ..hub.space import UPLOAD, iterate_space_files

        document, sentence, added = _made_site(space, more=iterate_space_files, **content)
        upload = UPLOAD.format(folder=shlex.quote(str(space)))
        if as_json:
            print_json(document | {"upload": upload})
        else:
            click.echo(wrap_text(sentence))
            print_notes([added] * bool(added))
            print_command("with your account for OWNER and a name for NAME, to upload it", upload)
        return
    assert name is not None and folder is not None
    reject_unused_options(_CONTENT, "they say what a site shows and an encoder is written", remedy=", or name --space")
    from ..hub.export import export_to_hub_folder, require_exportable
    from ..hub.modelcard import describe_redistribution

    card = load_catalogue()[name]
    require_exportable(card, folder)
    found = fetch_converted_weights(card)
    sizes = {path.name: path.stat().st_size for path in export_to_hub_folder(card, found, folder)}
    note = describe_redistribution(card)
    if as_json:
        files = [{"file": file, "size_bytes": n_bytes} for file, n_bytes in sizes.items()]
        facts = {"encoder": card.id, "folder": str(folder), "sha256": found.record.sha256, "note": note}
        print_json({**facts, "files": files})
        return
    written = ", ".join(f"{file} ({format_size(n_bytes)})" for file, n_bytes in sizes.items())
    click.echo(wrap_text(f"Wrote {card.id} to {folder}: {written}."))
    if note:
        click.secho(wrap_text(note), fg="yellow", err=True)
