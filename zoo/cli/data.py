"""``zoo data``: how images are understood, before anything is computed of them."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from ..errors import CorruptImage, DataError, format_count
from .measure_options import (
    DATA_OPTIONS,
    IMAGES_HELP,
    describe_images,
    describe_sources,
    open_labelled_images,
    require_images_exist,
    select_source_options,
)
from .options import add_options
from .output import add_json_option, print_json, print_notes, print_table, wrap_text

_MOST_CLASSES, _N_SAMPLED = 10, 32

_EXAMPLES = """\b
Examples:
  zoo data ./birds
  zoo data office31 --test-folder webcam --write office31.toml
  zoo evaluate dino_vitS16 office31.toml
"""


@click.command("data", epilog=f"{IMAGES_HELP}\n\n{_EXAMPLES}")
@click.argument("images", metavar="IMAGES", callback=require_images_exist)
@(lambda command: add_options(command, DATA_OPTIONS))
@click.option(
    "--write",
    "file",
    metavar="FILE.toml",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep IMAGES and these options in a file, which every verb takes as IMAGES.",
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
        _write(file, images, select_source_options(options))
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
    click.echo(f"{data.name}: {len(data.train):,} training and {tested}, {split}; {sizes}\n")
    largest = sorted(counts, key=lambda one: -one[1] - one[2])
    if data.train.target:
        ends = [f"{float(name):g}" for name in (data.train.classes[0], data.train.classes[-1])]
        click.echo(f"{data.train.target}: {len(counts):,} different numbers, from {' to '.join(ends)}")
        largest = []
    rows = [[name or "(none)", f"{n:,}", f"{m:,}"] for name, n, m in largest[:_MOST_CLASSES]]
    if rows:
        print_table(["class", "training", "test"], rows, right=(1, 2))
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


def _write(file: Path, images: str, options: dict[str, Any]) -> None:
    """Images and the options that are not those by default, as TOML, of whose values JSON's are some."""
    from ..datasets.sources import get_option_defaults, read_data_options
    from ..files import replace_file

    images, kept = read_data_options(images)
    defaults = get_option_defaults()
    kept |= {name: value for name, value in options.items() if value != defaults[name]}
    lines = {"images": images} | kept
    lines |= {
        one: os.path.abspath(lines[one]) for one in ("images", "image_folder") if os.path.exists(lines.get(one, ""))
    }
    try:
        with replace_file(file) as written:
            written.write("".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items()).encode())
    except OSError as error:
        raise DataError(f"{file} cannot be written ({error.strerror}); name another place.") from error
