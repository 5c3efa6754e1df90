"""One page of what encoders see, and its parts as PNG files, in a folder."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import StoreError
from ..evaluation.drawing import style
from ..files import replaced
from ..optional import requires_extra
from ..version import __version__
from .figures import OTHER, SIDE, class_colours, class_places, figures_of, heat, heat_ends
from .looking import Look
from .neighbourhood import standing_apart
from .pages import MOST_BYTES, data_address, rendered, thumbnail, thumbnails

with requires_extra("models", needed_for="A page of images"):
    import numpy as np
    from PIL import Image

if TYPE_CHECKING:
    from ..evaluation.arrays import Array

_SHOWN_PX, _FEW_PX, _OTHERS_PX = 256, 512, 112
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
    """The page as a text of 3 MB at most, and notes on what is smaller than asked because of that."""
    notes: list[str] = []
    mapped = [view for view in found.views if view.patches]
    among = [view for view in found.views if view.among]
    pixels = [(view.patches.colours, heat(view.patches.similarity)) for view in mapped if view.patches]
    n_shown, n_bytes = len(found.shown), MOST_BYTES
    while n_bytes > MOST_BYTES // 5 and n_shown:
        maps = [[_addresses(one[:n_shown]) for one in both] for both in pixels]
        n_bytes = sum(len(one) for both in maps for several in both for one in several)
        n_shown = n_shown if n_bytes <= MOST_BYTES // 5 else n_shown * 3 // 4
    shown = found.shown[:n_shown]
    if n_shown < len(found.shown):
        notes.append(f"the page has the maps of {n_shown} of {len(found.shown)} images, so that it stays below 3 MB")
    apart = {view.encoder: standing_apart(view.among.places, SIDE) for view in among if view.among}
    near = {(view.encoder, at): found.near(view.among, at) for view in among if view.among for at in found.queries}
    others = {at for several in apart.values() for at in several} | {at for one in near.values() for at, _, _ in one}
    smaller = sorted((others | set(found.queries if among else ())) - set(shown))
    text = rendered(
        "looking/look.html.jinja",
        found=found,
        command=command,
        version=__version__,
        mapped=mapped,
        maps=maps,
        shown=shown,
        among=among,
        apart=apart,
        near=near,
        thumbnails=_thumbnails(found, shown, _FEW_PX if n_shown <= 4 else _SHOWN_PX, notes)
        | _thumbnails(found, smaller, _OTHERS_PX, notes),
        colours=class_colours(found),
        other=OTHER,
        class_places={view.encoder: class_places(found, view.among.places) for view in among if view.among},
        heat_ends=[heat_ends(view.patches.similarity) for view in mapped if view.patches],
        ramp=heat(np.linspace(0, 1, 9)).tolist(),
        side=100 * SIDE,
        notes=[*found.notes, *notes],
    )
    return text, notes


def _addresses(pixels: Array) -> list[str]:
    return [data_address(Image.fromarray(one)) for one in pixels]


def _thumbnails(found: Look, positions: Sequence[int], px: int, notes: list[str]) -> dict[int, str]:
    """Addresses of what the first encoder sees of images, by their positions."""
    images, most = [thumbnail(found.image(at), px) for at in positions], 3 * MOST_BYTES // 8
    made = list(map(data_address, images))
    if sum(map(len, made)) > most:
        notes.append(f"thumbnails have fewer than {px} pixels, so that the page stays below 3 MB")
        made = thumbnails(images, px, most_bytes=most)
    return dict(zip(positions, made, strict=True))
