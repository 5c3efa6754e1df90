"""One page of what encoders see, and its parts as PNG files, in a folder."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import QueryError, StoreError
from ..evaluation.drawing import style
from ..files import replaced
from ..optional import requires_extra
from ..version import __version__
from .figures import OTHER, SIDE, class_colours, class_places, figures_of, heat, heat_ends
from .looking import Look
from .neighbourhood import standing_apart
from .pages import MOST_BYTES, data_address, rendered, thumbnails

with requires_extra("models", needed_for="A page of images"):
    import numpy as np
    from PIL import Image

_FILES = ("index.html", "layout.png", "neighbours.png", "similarity.png", "components.png")


def require_folder(folder: Path) -> None:
    """Refuses a folder that holds something else than an earlier look, before any work; StoreError."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is no folder, expected one for the pictures; name another one.")
    others = sorted(one.name for one in folder.iterdir() if one.name not in _FILES) if folder.exists() else []
    if others:
        raise StoreError(
            f"The folder {folder} holds other things than pictures of an earlier look, such as {others[0]!r}; name "
            "another one."
        )


def write_look(found: Look, folder: Path, *, command: str = "") -> tuple[list[Path], list[str]]:
    """Writes ``index.html`` and a PNG for each part in place of an earlier look; ``command`` stands on the page.

    Returns the paths, the page first, and notes on what is smaller than asked so that the page stays below 3 MB.
    StoreError if the folder holds other things, or cannot be written.
    """
    require_folder(folder)
    text, notes = page_of(found, command=command)
    files = {"index.html": text.encode()}
    with style():
        for name, drawing in figures_of(found).items():
            file = io.BytesIO()
            drawing.savefig(file, format="png", metadata={"Software": None})
            files[f"{name}.png"] = file.getvalue()
    try:
        for name in reversed(_FILES):  # the page when everything else is there
            if name in files:
                with replaced(folder / name) as target:
                    target.write(files[name])
            else:
                (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"The pictures cannot be written to {folder} ({error.strerror or error}).") from error
    return [folder / name for name in _FILES if name in files], notes


def page_of(found: Look, *, command: str = "") -> tuple[str, list[str]]:
    """The page as a text of 3 MB at most, and notes on what is smaller than asked because of that.

    QueryError if the neighbours alone do not fit.
    """
    notes: list[str] = []
    mapped = [view for view in found.views if view.patches]
    among = [view for view in found.views if view.among]
    pixels = [(view.patches.colours, heat(view.patches.similarity)) for view in mapped if view.patches]
    every = [[[data_address(Image.fromarray(one)) for one in each] for each in both] for both in pixels]
    n_shown = _fitting(len(found.shown), lambda n: [one for both in every for each in both for one in each[:n]], 0.2)
    if n_shown < len(found.shown):
        notes.append(f"the page has the maps of {n_shown} of {len(found.shown)} images, so that it stays below 3 MB")
    shown = found.shown[:n_shown]
    large = thumbnails(list(map(found.image, shown)), 512 if n_shown <= 4 else 256, most_bytes=int(0.25 * MOST_BYTES))
    pictures = dict(zip(shown, large, strict=True))
    apart = {view.encoder: standing_apart(view.among.places, SIDE) for view in among if view.among}
    near = {(view.encoder, at): found.near(view.among, at) for view in among if view.among for at in found.queries}
    beside = {at for one in near.values() for at, _, _ in one} | {*(found.queries if among else ())}
    others = sorted((beside | {at for one in apart.values() for at in one}) - {*shown})
    small = dict(zip(others, thumbnails([found.image(at) for at in others], 96, most_bytes=1 << 30), strict=True))

    def needed(n: int) -> list[str]:
        return [small[at] for at in (beside | {at for one in apart.values() for at in one[:n]}) - {*shown}]

    n_apart = _fitting(most := max(map(len, apart.values()), default=0), needed, 0.45)
    if n_apart < most:
        notes.append(f"the layouts have {n_apart} pictures each, so that the page stays below 3 MB")
        apart = {encoder: one[:n_apart] for encoder, one in apart.items()}
    pictures |= {at: address for at, address in small.items() if address in {*needed(n_apart)}}
    text = rendered(
        "looking/look.html.jinja",
        found=found,
        command=command,
        version=__version__,
        mapped=mapped,
        maps=every,
        shown=shown,
        among=among,
        apart=apart,
        near=near,
        pictures=pictures,
        colours=class_colours(found),
        other=OTHER,
        class_places={view.encoder: class_places(found, view.among.places) for view in among if view.among},
        heat_ends=[heat_ends(view.patches.similarity) for view in mapped if view.patches],
        ramp=heat(np.linspace(0, 1, 9)).tolist(),
        side=100 * SIDE,
        notes=[*found.notes, *notes],
    )
    return text, notes


def _fitting(n: int, made: Callable[[int], Sequence[str]], share: float) -> int:
    """How many of ``n`` things have addresses that take so much of a page at most; QueryError if none has."""
    while n and sum(map(len, made(n))) > share * MOST_BYTES:
        n = 3 * n // 4
    if not n and sum(map(len, made(0))) > share * MOST_BYTES:
        raise QueryError("The neighbours of so many queries do not fit on a page of 3 MB; ask for fewer (--queries).")
    return n
