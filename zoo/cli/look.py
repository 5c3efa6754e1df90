"""``zoo look``: what encoders see in images, as a page and PNG files."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import QueryError
from .measure_options import (
    DATA_OPTIONS,
    IMAGES_HELP,
    RUN_OPTIONS,
    SIDES,
    images_of_files,
    opened,
    skipped_notes,
    there,
)
from .options import ARGUMENTS, encoder_names, refuse_idle, seed_option, with_options
from .output import json_option, print_json, print_notes, print_table, say

if TYPE_CHECKING:
    from ..datasets import ImageSet

_FOLDER, _N = click.Path(file_okay=False, path_type=Path), click.IntRange(1, 20_000)
_LOOKING = (  # arguments of look
    "per_class", "queries", "at", "layer", "layout", "seed", "batch_size", "n_workers", "device", "skip_corrupt",
)  # fmt: skip
_MOST_QUERIES = 24  # of which a page has room
_EXAMPLES = """\b
Examples:
  zoo look dino_vitS16 ./birds
  zoo look dino_vitS16 mae_vitB16 holiday.jpg --at 5,7 --px 448
  zoo look sup_rn50 dino_rn50 ./unsorted-photos --queries dog.jpg,cat.jpg --out dogs
"""


def _patch(ctx: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, int] | None:
    match = re.fullmatch(r"([0-9]{1,6}), ?([0-9]{1,6})", text or "0,0")
    if match is None:
        raise QueryError(f"Got --at {text!r}, expected ROW,COLUMN of a patch, from 0 at the top left, as 4,7.")
    return None if text is None else (int(match[1]), int(match[2]))


def _queries(ctx: click.Context, parameter: click.Parameter, text: str) -> int | tuple[str, ...]:
    names = tuple(filter(None, (name.strip() for name in text.split(","))))
    if not 1 <= (int(text) if text.isdecimal() else len(names)) <= _MOST_QUERIES:
        raise QueryError(f"Got --queries {text!r}, expected 1 to {_MOST_QUERIES} images, or their names by comma.")
    return int(text) if text.isdecimal() else names


@click.command(
    "look", epilog=f"{IMAGES_HELP}  a folder or files of images without labels\n\n{_EXAMPLES}", no_args_is_help=True
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=encoder_names)
@click.argument("images", metavar="IMAGES", callback=there)
@click.option("--out", metavar="DIR", type=_FOLDER, help="Where everything goes.  [default: look-IMAGES]")
@click.option("--split", "part", type=click.Choice([*SIDES]), default="val", show_default=True, help="Of image sets.")
@click.option("--images", "n_images", type=_N, default=500, show_default=True, help="Of more a sample is seen.")
@click.option("--per-class", type=_N, help="Images with maps, of each class.  [default: about 12 in all]")
@click.option(
    "--queries",
    metavar="N|NAMES",
    default="4",
    show_default=True,
    callback=_queries,
    help="Images whose neighbours are shown: how many, or which ones, by comma.",
)
@click.option(
    "--at",
    metavar="ROW,COLUMN",
    callback=_patch,
    help="Patch of the first query that others are compared with, from 0 at the top left, of the grid of the first "
    "encoder; of the others, the one in the same place of the image.  [default: in the middle]",
)
@click.option("--layer", type=int, help="Block with the maps, from 0, or from the end as -3.  [default: the features']")
@click.option("--px", type=_N, help="Side of the images, if not the card's: more pixels, more patches.")
@click.option("--layout", type=click.Choice(["pca", "umap"]), default="pca", show_default=True, help="Of all images.")
@seed_option("Of the sample, and of umap.")
@(lambda command: with_options(command, [*DATA_OPTIONS[1:], *RUN_OPTIONS]))  # without --dataset
@click.option("--skip-corrupt", is_flag=True, help="Go on without images that cannot be read, and name them.")
@json_option
def look_command(
    names: tuple[str, ...],
    images: str,
    out: Path | None,
    part: str,
    n_images: int,
    px: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """See what encoders see in images.

    Writes one page, which stands alone, and PNG files: patches with their principal components as colours, patches that
    are similar to one of them, nearest neighbours of some images, and all images laid out in two dimensions.
    Images in folders of classes have labels, and so have image sets. The layout umap needs umap-learn.
    """
    from ..cards.catalogue import catalogue
    from ..datasets.notes import notes_on
    from ..loading import load
    from ..looking.looking import look, named, sample_of
    from ..looking.neighbourhood import require_layout
    from ..looking.showing import require_folder, write_look
    from ..progress import Bar

    paths = [images]
    while len(names) > 1 and os.path.isfile(names[-1]):  # several files
        names, paths = names[:-1], [names[-1], *paths]
    ids = list(dict.fromkeys(catalogue().id_of(name) for name in names))
    require_layout(options["layout"])
    asked = {name: options.pop(name) for name in _LOOKING}
    everything, is_labelled = _asked(paths, options, part)
    called = Path(images).stem if os.path.isfile(images) else everything.name
    folder = out or Path("look-" + re.sub(r"[^\w.+-]+", "-", called).strip("-"))
    if os.path.isdir(images) and folder.resolve().is_relative_to(Path(images).resolve()):
        raise QueryError(f"The pictures would be among the images, in {folder}; name a folder elsewhere (--out).")
    require_folder(folder)
    also = [] if isinstance(asked["queries"], int) else named(everything, asked["queries"])
    sample = sample_of(everything, n_images, seed=asked["seed"], also=also)
    asked |= {"is_labelled": is_labelled, "tell": say, "progress": lambda: Bar("images")}
    found = look(ids, sample, partial(load, px=px), **asked)
    if len(sample) < len(everything):
        drawn = f"{len(sample):,} of {len(everything):,} images were drawn (--images, --seed)"
        found.notes.insert(0, f"{drawn}, about the same number of each class" if is_labelled else drawn)
    say("drawing")
    command = shlex.join(["zoo", *click.get_current_context().meta.get(ARGUMENTS, ())])
    written, notes = write_look(found, folder, command=command)
    notes = [*found.notes, *notes, *skipped_notes(found.skipped), *notes_on([sample])]
    if as_json:
        print_json(found.as_dict() | {"written": list(map(str, written)), "notes": notes})
        return
    rows = []
    for view in found.views:
        grid, share = "", ""
        if view.patches:
            grid, share = " x ".join(map(str, view.patches.grid)), f"{100 * view.patches.explained.sum():.0f}"
        agreement = "" if view.agreement is None else f"{view.agreement:.1f}"
        rows.append([view.encoder, str(view.px), grid, share, agreement])
    print_table(["encoder", "px", "patches", "colours %", "neighbour %"], rows, right=[1, 3, 4])
    how_to_read = (
        "colours: variance of the patches that three colours show; neighbour: images whose nearest has their class"
    )
    print_notes([f"Written: {written[0]}, and {len(written) - 1} PNG files", *notes], [how_to_read])


def _asked(arguments: Sequence[str], options: dict[str, Any], part: str) -> tuple[ImageSet, bool]:
    """The images, and whether they have labels: files, and folders with images directly in them, have none."""
    from ..datasets.folders import entries_of, joined
    from ..datasets.imagefiles import images_among
    from ..datasets.images import contents_of_files

    first, found = arguments[0], None
    beside = entries_of(Path(first), Counter())[1] if os.path.isdir(first) else None
    if beside is None or images_among([one.name for one in beside], Counter()):
        found = images_of_files(arguments, options)
    if found is None:
        data = opened(first, {"dataset": None, **options})
        return joined([getattr(data, one) for one in SIDES[part]]), True
    refuse_idle(("fold_labels",), "these images have no labels")
    return replace(found[0], contents=contents_of_files(found[1])), False
