"""``zoo data``: how images are understood, before anything is computed of them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.answers import make_table
from ..errors import CorruptImage, DataError, escape_unprintable, format_count, format_list
from .measure_options import (
    DATA_OPTIONS,
    IMAGES_HELP,
    describe_images,
    describe_sources,
    open_labelled_images,
    require_images_exist,
    select_source_options,
)
from .options import FoldedCommand, add_options
from .output import add_json_option, print_json, print_notes, print_table, wrap_text

if TYPE_CHECKING:
    from ..datasets import ImageData

_MOST_CLASSES, _N_SAMPLED = 10, 32

_EXAMPLES = """\b
Examples:
  zoo data ./birds
  zoo data office31 --test-folder webcam --write office31.toml
  zoo evaluate dino_vitS16 --data office31.toml
"""


@click.command("data", cls=FoldedCommand, epilog=f"{IMAGES_HELP}\n\n{_EXAMPLES}")
@click.argument("images", metavar="IMAGES", callback=require_images_exist)
@(lambda command: add_options(command, DATA_OPTIONS))
@click.option(
    "--write",
    "file",
    metavar="FILE.toml",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep IMAGES, these options and how the images were understood in a file, which every verb takes as --data.",
)
@add_json_option
def data_command(images: str, file: Path | None, as_json: bool, **options: Any) -> None:
    """Show how your images are understood.

    Parts and where they come from, classes, groups, sizes, what is left out, duplicates, and what is likely to be
    misunderstood. The first lines are those that zoo evaluate begins with.
    """
    from ..datasets.labels import find_doubts

    if file is not None and file.suffix.lower() != ".toml":
        raise click.UsageError(f"Got --write {file}, expected a name that ends in .toml.")
    data = open_labelled_images(images, options, tells=False, takes_numbers=True)
    about, notes = describe_images(data, has_intervals=False)
    doubts, sizes = find_doubts(data), _sizes(data.train)
    counts = list(
        zip(data.train.classes, data.train.n_per_class().tolist(), data.val.n_per_class().tolist(), strict=True)
    )
    if file is not None:
        _write(file, images, select_source_options(options), _understood(data, sizes))
    if as_json:
        classes = [{"name": name, "train": n_train, "test": n_test} for name, n_train, n_test in counts]
        document = {"dataset": data.name, "layout": data.train.reading.layout, "is_split_here": data.is_split_here}
        document |= {"n_train": len(data.train), "n_test": len(data.val), "tags": data.train.tags, "sizes": sizes}
        print_json(document | about | {"doubts": doubts, "written": file and str(file), "classes": classes})
        return
    lines = describe_sources([data.train, data.val])
    for line in lines:
        click.echo(wrap_text(line))
    split = "split here" if data.is_split_here else "parts as the source has them"
    tested = format_count(len(data.val), "test image")
    click.echo(wrap_text(f"{data.name}: {len(data.train):,} training and {tested}, {split}; {sizes}") + "\n")
    largest = sorted(counts, key=lambda one: -one[1] - one[2])
    if data.train.target:
        ends = [f"{float(name):g}" for name in (data.train.classes[0], data.train.classes[-1])]
        click.echo(f"{data.train.target}: {len(counts):,} different numbers, from {' to '.join(ends)}")
        largest = []
    rows = [[name or "(none)", f"{n:,}", f"{m:,}"] for name, n, m in largest[:_MOST_CLASSES]]
    if rows:
        print_table(make_table(["class", "training", "test"], rows, numbers=(1, 2)))
    if others := largest[_MOST_CLASSES:]:
        smallest = format_count(sum(others[-1][1:]), "image")
        click.echo(f"and {len(others):,} more, the smallest {others[-1][0]!r} with {smallest}")
    for doubt in doubts:
        click.echo(wrap_text(f"Is this meant? {doubt}"))
    print_notes(note for note in notes if f"Note: {note}" not in lines)
    if file is not None:
        click.echo(f"Written: {file}")


def _sizes(images: Any) -> str:
    """Widths and heights of a sample of images, in words."""
    found = []
    for number in range(0, len(images), max(1, len(images) // _N_SAMPLED)):
        with suppress(CorruptImage):  # raised again when its features are computed
            found.append(images.images[number].size)
    ends = list(dict.fromkeys((min(found), max(found)))) if found else []
    return " to ".join(f"{width} x {height}" for width, height in ends) + " pixels"


def _understood(data: ImageData, sizes: str) -> list[str]:
    """How the images were understood, a line for each fact: parts, classes, groups, values and what was left out."""
    from ..datasets.image_files import describe_left_out_files

    read = [one.reading for one in (data.train, data.val)]
    split = "split here" if data.is_split_here else "parts as the source has them"
    n_per_class = zip(data.train.classes, data.train.n_per_class(), data.val.n_per_class(), strict=True)
    classes = [f"{name or '(none)'} ({n:,} + {m:,})" for name, n, m in n_per_class]
    groups = [None if one.groups is None else len(set(one.groups.tolist())) for one in (data.train, data.val)]
    values = sorted({one.values for part in read for one in part.stored.values() if one.values})
    n_transparent = sum(one.is_transparent for part in read for one in part.stored.values())
    facts = {
        "layout": read[0].layout,
        "parts": f"{len(data.train):,} training and {format_count(len(data.val), 'test image')}, {split}",
        "numbers" if data.train.target else "classes": f"{len(classes):,}: {format_list(classes, _MOST_CLASSES)}",
        "groups": "none" if None in groups else f"{groups[0]:,} of training and {groups[1]:,} of test images",
        "sizes": sizes,
        "scale": f"{read[0].scale or 'the usual one'} of {', '.join(values)}" if values else "8 bits per channel",
        "background": f"{read[0].background}, seen through {format_count(n_transparent, 'image')}"
        if n_transparent
        else "",
        "left out": describe_left_out_files(read[0].left_out) or "nothing",
    }
    return [f"# {name}: {' '.join(escape_unprintable(fact).split())}" for name, fact in facts.items() if fact]


def _write(file: Path, images: str, options: dict[str, Any], understood: Sequence[str]) -> None:
    """Images and the options that are not those by default as TOML, below how they were understood as comments."""
    from ..datasets.sources import get_option_defaults, place_images, read_data_options
    from ..files import replace_file

    images, kept = read_data_options(images)
    defaults, here = get_option_defaults(), os.getcwd()
    kept |= {name: value for name, value in options.items() if value != defaults[name]}
    lines = {"images": os.path.normpath(path) if os.path.exists(path := place_images(images, here)) else path} | kept
    if "image_folder" in lines:
        lines["image_folder"] = os.path.abspath(lines["image_folder"])
    # TOML has JSON's texts but for pairs of surrogates and a bare DEL
    texts = (json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") for value in lines.values())
    try:
        content = "".join(f"{line}\n" for line in (*understood, *map(" = ".join, zip(lines, texts, strict=True))))
        with replace_file(file) as written:
            written.write(content.encode())
    except OSError as error:
        raise DataError(f"{file} cannot be written ({error.strerror}); name another place.") from error
    except UnicodeEncodeError as error:
        raise DataError(f"{file} cannot name images whose names are no Unicode; rename them.") from error
