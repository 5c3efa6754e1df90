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

from ..cards.answers import AnswerColumn, AnswerTable, make_table
from ..errors import QueryError, UnknownName, format_count
from .measure_options import (
    DATA_OPTIONS,
    IMAGES_HELP,
    RUN_OPTIONS,
    SIDES,
    list_skipped_notes,
    open_any_labelled,
    open_labelled_images,
    open_unlabelled_files,
    require_images_exist,
)
from .options import (
    ARGUMENTS,
    FoldedCommand,
    add_options,
    complete_encoder_names,
    get_given_options,
    make_seed_option,
    reject_unused_options,
)
from .output import add_json_option, log_progress, print_json, print_notes, print_table

if TYPE_CHECKING:
    from ..datasets import ImageSet
    from ..looking.visualization import Look

_FOLDER, _N = click.Path(file_okay=False, path_type=Path), click.IntRange(1, 20_000)
_LOOKING = (  # arguments of look
    "per_class", "queries", "k", "at", "layer", "layout", "seed", "batch_size", "n_workers", "device", "skip_corrupt",
)  # fmt: skip
_OF_SAMPLES = ("per_class", "at", "layer", "layout", "n_images", "seed")  # do nothing where all images are compared
_MOST_LINES = 60  # of a table of pairs or neighbours
_MOST_QUERIES, _N_NEAREST = 24, 6  # of which a page has room; neighbours if nobody says how many
_EXAMPLES = """\b
Examples:
  zoo look dino_vitS16 ./birds
  zoo look dino_vitS16 mae_vitB16 holiday.jpg --at 5,7 --px 448
  zoo look sup_rn50 dino_rn50 ./unsorted-photos --queries dog.jpg,cat.jpg --out dogs
  zoo look dino_vitS16 ./birds --queries ./new-photos --nearest 10
  zoo look dino_vitS16 ./birds --duplicates
"""


def _patch(ctx: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, int] | None:
    match = re.fullmatch(r"([0-9]{1,6}), ?([0-9]{1,6})", text or "0,0")
    if match is None:
        raise QueryError(f"Got --at {text!r}, expected ROW,COLUMN of a patch, from 0 at the top left, as 4,7.")
    return None if text is None else (int(match[1]), int(match[2]))


def _queries(ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> int | tuple[str, ...]:
    if len(texts) == 1 and texts[0].isdecimal() and 1 <= int(texts[0]) <= _MOST_QUERIES:
        return int(texts[0])
    names = [[text] if os.path.exists(text) else [*filter(None, map(str.strip, text.split(",")))] for text in texts]
    found = tuple(dict.fromkeys(name for some in names for name in some))
    if not found or found[0].isdecimal():
        given = " ".join(texts)
        raise QueryError(f"Got --queries {given!r}, expected 1 to {_MOST_QUERIES} images, or their names by comma.")
    return found


@click.command(
    "look",
    cls=FoldedCommand,
    epilog=f"{IMAGES_HELP}  a folder or files of images without labels\n\n{_EXAMPLES}",
    no_args_is_help=True,
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_encoder_names)
@click.argument("images", metavar="IMAGES", callback=require_images_exist)
@click.option("--out", metavar="DIR", type=_FOLDER, help="Where everything goes.  [default: look-IMAGES]")
@click.option("--split", "part", type=click.Choice([*SIDES]), default="val", show_default=True, help="Of image sets.")
@click.option("--images", "n_images", type=_N, default=500, show_default=True, help="Of more a sample is seen.")
@click.option("--per-class", type=_N, help="Images with maps, of each class.  [default: about 12 in all]")
@click.option(
    "--queries",
    metavar="N|NAMES|PATHS",
    multiple=True,
    default=["4"],
    callback=_queries,
    help="Images whose neighbours are shown: how many, or which ones, by comma; or files or folders of others, which "
    "are compared with all images, of both parts without --split. Repeatable.  [default: 4]",
)
@click.option("--nearest", "k", metavar="K", type=click.IntRange(1), help="Neighbours of each query.  [default: 6]")
@click.option("--duplicates", "finds_duplicates", is_flag=True, help="Near duplicates and copies among all images.")
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
@make_seed_option("Of the sample, and of umap.")
@(lambda command: add_options(command, [*DATA_OPTIONS[1:], *RUN_OPTIONS]))  # without --dataset
@click.option("--skip-corrupt", is_flag=True, help="Go on without images that cannot be read, and name them.")
@add_json_option
def look_command(
    names: tuple[str, ...],
    images: str,
    out: Path | None,
    part: str,
    n_images: int,
    px: int | None,
    as_json: bool,
    finds_duplicates: bool,
    **options: Any,
) -> None:
    """See what encoders see in images.

    Writes one page, which stands alone, and PNG files: patches with their principal components as colours, patches that
    are similar to one of them, nearest neighbours of some images, and all images laid out in two dimensions.
    Images in folders of classes have labels, and so have image sets. The layout umap needs umap-learn.

    With queries from outside, or --duplicates, the page has neighbours or pairs alone, and a table is printed.
    """
    from ..cards.catalogue import load_catalogue
    from ..datasets.folders import join_parts
    from ..datasets.notes import describe_decoding
    from ..loading import load
    from ..looking.neighbourhood import require_layout
    from ..looking.showing import require_folder, write_look
    from ..looking.visualization import draw_image_sample, find_images, look
    from ..progress import ProgressBar

    paths = [images]
    while len(names) > 1 and os.path.isfile(names[-1]):  # several files
        names, paths = names[:-1], [names[-1], *paths]
    ids = list(dict.fromkeys(load_catalogue().id_of(name) for name in names))
    require_layout(options["layout"])
    asked = {name: options.pop(name) for name in _LOOKING}
    if finds_duplicates:
        reject_unused_options(("queries", "k", *_OF_SAMPLES), "--duplicates compares all images with each other")
    needs_no_labels = finds_duplicates or not isinstance(asked["queries"], int)
    sides, is_labelled = _open_parts(paths, options, needs_no_labels=needs_no_labels)
    everything = join_parts([one for name, one in sides.items() if name in ("", *SIDES[part])])
    queries = None
    if not isinstance(asked["queries"], int):
        queries = _from_outside(asked["queries"], everything, options | {"skip_corrupt": asked["skip_corrupt"]})
    if (compares_all := finds_duplicates or queries is not None) and "part" not in get_given_options():
        everything = join_parts([*sides.values()])
    called = Path(images).stem if os.path.isfile(images) else everything.name
    folder = out or Path("look-" + re.sub(r"[^\w.+-]+", "-", called).strip("-"))
    if os.path.isdir(images) and folder.resolve().is_relative_to(Path(images).resolve()):
        raise QueryError(f"The pictures would be among the images, in {folder}; name a folder elsewhere (--out).")
    require_folder(folder)
    if compares_all:
        _show_similar(ids, everything, queries, folder, asked | {"px": px, "is_labelled": is_labelled}, as_json)
        return
    k, most = asked["k"], min(_MOST_QUERIES, min(len(everything), n_images) - 1)
    if k is None:
        del asked["k"]
    elif k > most:
        raise QueryError(f"Got --nearest {k}, expected at most {most} of the other images that are shown.")
    also = [] if isinstance(asked["queries"], int) else find_images(everything, asked["queries"])
    sample = draw_image_sample(everything, n_images, seed=asked["seed"], also=also)
    asked |= {"is_labelled": is_labelled, "tell": log_progress, "progress": lambda: ProgressBar("images")}
    found = look(ids, sample, partial(load, px=px), **asked)
    if len(sample) < len(everything):
        drawn = f"{len(sample):,} of {len(everything):,} images were drawn (--images, --seed)"
        found.notes.insert(0, f"{drawn}, about the same number of each class" if is_labelled else drawn)
    log_progress("drawing")
    command = shlex.join(["zoo", *click.get_current_context().meta.get(ARGUMENTS, ())])
    written, notes = write_look(found, folder, command=command)
    notes = [*found.notes, *notes, *list_skipped_notes(found.skipped), *describe_decoding([sample])]
    if as_json:
        print_json(found.as_dict() | {"written": list(map(str, written)), "notes": notes})
    else:
        _print_views(found, [f"Written: {written[0]}, and {len(written) - 1} PNG files", *notes])


def _print_views(found: Look, notes: Sequence[str]) -> None:
    """A line for what each encoder sees."""
    views = found.views
    patches = [view.patches for view in views]
    columns = [
        AnswerColumn("encoder", [view.encoder for view in views]),
        AnswerColumn("px", [view.px for view in views], form=str),
        AnswerColumn("patches", [one and " x ".join(map(str, one.grid)) for one in patches]),
        AnswerColumn("colours %", [one and 100 * float(one.explained.sum()) for one in patches], form="{:.0f}".format),
        AnswerColumn("neighbour %", [view.agreement for view in views], form="{:.1f}".format),
    ]
    print_table(AnswerTable(columns=columns))
    how_to_read = "colours: variance of the patches that three colours show"
    if any(view.agreement is not None for view in views):
        how_to_read += f"; neighbour: images whose nearest has their class, by chance {found.chance:.1f} %"
    print_notes(notes, [how_to_read])


def _from_outside(names: Sequence[str], images: ImageSet, options: dict[str, Any]) -> ImageSet | None:
    """Queries that are files or folders, or None if all are names of images of the set."""
    from ..datasets.images import hash_image_files

    others = [name for name in names if not any(f"/{one}".endswith(f"/{name}") for one in images.names)]
    if not others and len(names) <= _MOST_QUERIES:
        return None
    if not others:
        raise QueryError(f"Got {len(names)} --queries, expected 1 to {_MOST_QUERIES} images of {images.name!r}.")
    reject_unused_options(_OF_SAMPLES, "queries from outside are compared with all images")
    for name in (*others, *names):
        if not os.path.exists(name):
            hint = f"Queries are to be images of {images.name!r}, or all of them files or folders that are there."
            raise UnknownName("image", name, images.names if name in others else (), hint=hint)
    found = open_unlabelled_files(names, options, refuses=False)
    if found is None:
        raise QueryError(f"Got --queries {names[0]!r}, which is no image; expected image files, or folders of them.")
    queries = replace(found[0], contents=hash_image_files(found[1]))
    for at in range(0 if options["skip_corrupt"] else len(queries)):
        queries.images[at]  # CorruptImage before anything is computed
    return queries


def _show_similar(
    ids: Sequence[str], gallery: ImageSet, queries: ImageSet | None, folder: Path, asked: dict[str, Any], as_json: bool
) -> None:
    """Near duplicates in a gallery, or the images nearest to queries, as a page and a table."""
    from ..datasets.notes import describe_decoding
    from ..loading import load
    from ..looking.showing import write_files
    from ..looking.similar import find_similar, render_similar_page
    from ..progress import ProgressBar

    how = {name: asked[name] for name in ("batch_size", "n_workers", "device", "skip_corrupt")}
    how |= {"load": partial(load, px=asked["px"]), "tell": log_progress, "progress": lambda: ProgressBar("images")}
    found, skipped = find_similar(ids, gallery, queries, k=asked["k"] or min(_N_NEAREST, len(gallery)), **how)
    notes = [f"{name}: {note}" for name, one in found.items() for note in one.notes]
    notes += [*list_skipped_notes(skipped), *describe_decoding([gallery] if queries is None else [gallery, queries])]
    facts = f"{shlex.join(['zoo', *click.get_current_context().meta.get(ARGUMENTS, ())])}."
    shown = {"is_labelled": asked["is_labelled"], "notes": notes, "facts": facts}
    written = write_files({"index.html": render_similar_page(found, gallery, queries, **shown).encode()}, folder)
    lines = [(name, pair) for name, one in found.items() for pair in (*one.pairs, *one.copies)]
    if as_json:
        records = []
        for name, pair in lines:
            record = {"encoder": name, "image": pair.test, "nearest": pair.train, "distance": pair.distance}
            labels = {"label": pair.test_label if queries is None else None, "nearest_label": pair.train_label}
            record |= {"false_share": pair.false_share, "is_copy": pair.is_copy}
            records.append(record | (labels if asked["is_labelled"] else dict.fromkeys(labels)))
        document = {"images": gallery.name, "split": gallery.split, "n_images": len(gallery), "pairs": records}
        print_json(document | {"skipped": skipped, "written": list(map(str, written)), "notes": notes})
        return
    rows = []
    for name, pair in lines[:_MOST_LINES]:
        share = "" if pair.false_share is None else f"{100 * pair.false_share:.2g}"
        rows.append([name, pair.test, pair.train, f"{pair.distance:.3g}", "copy" if pair.is_copy else share])
    more = f"{format_count(len(lines), 'pair')}; --json has all of them"
    if rows:
        print_table(make_table(["encoder", "image", "nearest", "distance", "false %"], rows, numbers=[3, 4]))
    else:
        more = "No near duplicates and no copies"
    how_to_read = "distance: 1 - cosine of the features; false: estimated share of false pairs up to this one"
    print_notes([more, f"Written: {written[0]}", *notes], [how_to_read])


def _open_parts(
    arguments: Sequence[str], options: dict[str, Any], *, needs_no_labels: bool = False
) -> tuple[dict[str, ImageSet], bool]:
    """Parts of the images, and whether they have labels: files, and folders with images directly in them, have none."""
    from ..datasets.folders import list_entries
    from ..datasets.image_files import select_image_names
    from ..datasets.images import hash_image_files

    first, found = arguments[0], None
    beside = list_entries(Path(first), Counter())[1] if os.path.isdir(first) else None
    if beside is None or select_image_names([one.name for one in beside], Counter()):
        found = open_unlabelled_files(arguments, options)
    if found is None:
        asked = {"dataset": None, **options}
        data = (
            open_any_labelled([first], asked, is_new=False) if needs_no_labels else open_labelled_images(first, asked)
        )
        if data.is_whole:
            return {"": data.train}, False
        return {one: getattr(data, one) for one in SIDES["both"]}, True
    reject_unused_options(("fold_labels",), "these images have no labels")
    return {"": replace(found[0], contents=hash_image_files(found[1]))}, False
