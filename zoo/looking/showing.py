"""One page of what encoders see, and its parts as PNG files, in a folder."""

from __future__ import annotations

import io
import math
import warnings
from pathlib import Path
from typing import Any

from ..errors import QueryError, StoreError
from ..evaluation.drawing import style
from ..files import replaced
from ..optional import requires_extra
from ..version import __version__
from .figures import SIDE, class_colours, class_places, figures_of, heat, heat_ends, inks_of
from .looking import Look
from .neighbourhood import standing_apart
from .pages import MOST_BYTES, data_address, rendered, thumbnail

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
    with style(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # boxes stand for letters that the font does not have
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

    QueryError if what cannot be left out does not fit.
    """
    mapped = [(view, view.patches) for view in found.views if view.patches]
    among = [(view, view.among) for view in found.views if view.among]
    near = {(view.encoder, at): found.near(one, at) for view, one in among for at in found.queries}
    beside = {at for one in near.values() for at, _, _ in one} | {*(found.queries if among else ())}
    stand = {view.encoder: standing_apart(one.places, SIDE) for view, one in among}
    values: dict[str, Any] = {
        "found": found,
        "command": command,
        "version": __version__,
        "mapped": [view for view, _ in mapped],
        "among": [view for view, _ in among],
        "near": near,
        "colours": class_colours(found),
        "inks": inks_of(found),
        "class_places": {view.encoder: class_places(found, one.places) for view, one in among},
        "heat_ends": [heat_ends(one.similarity) for _, one in mapped],
        "ramp": heat(np.linspace(0, 1, 9)).tolist(),
        "side": 100 * SIDE,
    }
    for share in (1, 0.7, 0.5, 0.35, 0.25, 0.15, 0.08, 0.04, 0):
        shown = found.shown[: math.ceil(share * len(found.shown)) or 1]
        apart = {name: some[: math.ceil(share * len(some))] for name, some in stand.items()}
        px, small = (max(32, round(share * one)) for one in (512 if len(shown) <= 4 else 256, 96))
        others = (beside | {at for some in apart.values() for at in some}) - {*shown}
        sides = dict.fromkeys(sorted(others), small) | dict.fromkeys(shown, px)
        fewer = (
            f"the maps of {len(shown)} of {len(found.shown)} images, and {100 * share:.0f} % of the layouts' pictures"
        )
        notes = [f"the page has {fewer}, so that it stays below 3 MB"] * (share < 1)
        text = rendered(
            "looking/look.html.jinja",
            **values,
            shown=shown,
            apart=apart,
            maps=[
                [[data_address(Image.fromarray(one)) for one in part[: len(shown)]] for part in both]
                for both in [(one.colours, heat(one.similarity)) for _, one in mapped]
            ],
            pictures={at: data_address(thumbnail(found.image(at), side)) for at, side in sides.items()},
            notes=[*found.notes, *notes],
        )
        if len(text.encode()) <= MOST_BYTES:
            return text, notes
    shown_of = f"{len(found.queries)} queries and {len(found.images):,} images under {len(among)} encoders"
    raise QueryError(
        f"What is shown of {shown_of} does not fit on a page of 3 MB; ask for fewer (--queries, --images)."
    )
