"""Which files in a folder are images that can be read here, and what users are told of those that are left out.

What Pillow reads differs from machine to machine, so that no message and no page lists :data:`SUFFIXES`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress

from ..optional import requires_extra

with requires_extra("models", needed_for="Working with images"):
    from PIL import Image

with suppress(ImportError):  # the extra heif
    from pillow_heif import register_heif_opener

    register_heif_opener()

# Documents and videos, of which Pillow knows the head alone; stubs for data that other libraries read; and EPS, which
# is a program that Ghostscript runs.
_NO_PICTURES = ("BUFR", "EPS", "GRIB", "HDF5", "IPTC", "MPEG", "WMF")

DICOM_SUFFIXES = (".dcm", ".dicom")
SUFFIXES = tuple(
    sorted(
        {*DICOM_SUFFIXES, ".mpo"}  # which the reader of JPEG opens
        | {
            ending
            for ending, kind in Image.registered_extensions().items()
            if kind in Image.OPEN and kind not in _NO_PICTURES
        }
    )
)
"""Endings of files that are taken for images, in lower case."""

USUAL = "such as .jpg, .png, .tif, .webp or .dcm"  # for messages

_REMEDIES = {  # for images that cannot be read unless their ending is among the suffixes
    **dict.fromkeys((".heic", ".heif", ".hif"), "pip install pillow-heif"),
    ".avif": "pip install --upgrade pillow",
    **dict.fromkeys(
        (".arw", ".cr2", ".cr3", ".dng", ".emf", ".eps", ".exr", ".hdr", ".jxl", ".nef", ".orf", ".ps", ".raf", ".rw2"),
        "convert to PNG",
    ),
    **dict.fromkeys((".svg", ".wmf", ".xcf"), "convert to PNG"),
}

_OF_SYSTEMS = {  # names in lower case of what file servers, archives, systems and tools put beside images
    *("@eadir", "@recycle", "@recently-snapshot", "@tmp", "#recycle", "#snapshot", "lost+found"),
    *("__macosx", ".ds_store", ".trashes", ".spotlight-v100", ".fseventsd", "icon\r"),
    *("$recycle.bin", "system volume information", "thumbs.db", "ehthumbs.db", "desktop.ini"),
    *(".git", ".ipynb_checkpoints", "__pycache__"),
}
_MOST_SAID = 8  # kinds of files in a sentence


def skipped_as(name: str, *, is_folder: bool) -> str:
    """As what a hidden file or folder, or one of a system, is counted; "" if it is neither."""
    slash = "/" * is_folder
    if name.lower() in _OF_SYSTEMS:
        return f"{name.strip()}{slash}"
    if name.startswith("._"):  # what macOS keeps beside a file
        return f"._*{slash}"
    return f"hidden{slash}" if name.startswith(".") else ""


def images_among(names: Iterable[str], left_out: Counter[str]) -> list[str]:
    """Names of files that end like an image; the others are counted by their endings."""
    found = []
    for name in names:
        if name.lower().endswith(SUFFIXES):
            found.append(name)
        else:
            ending = os.path.splitext(name)[1].lower()
            is_usual = ending.isascii() and ending[1:].isalnum() and not ending[1:].isdecimal()
            left_out[ending if is_usual else "other"] += 1
    return found


def remedy_for(path: str) -> str:
    """What helps against an image that cannot be read here; "" where that is not known."""
    ending = f".{path.lower().rpartition('.')[2]}"
    return "" if ending in SUFFIXES else _REMEDIES.get(ending, "")


def left_out_note(left_out: Mapping[str, int]) -> str:
    """A sentence on files that were left out, images first; "" if there are none.

    >>> left_out_note({".txt": 2, ".svg": 3, "@eaDir/": 1})
    '5 files and 1 folder were left out: 3 .svg (convert to PNG), 2 .txt, 1 @eaDir/'
    """
    if not left_out:
        return ""
    n_folders = sum(n for kind, n in left_out.items() if kind.endswith("/"))
    n_files = sum(left_out.values()) - n_folders
    counts = [f"{n:,} {what}{'s' * (n > 1)}" for n, what in ((n_files, "file"), (n_folders, "folder")) if n]
    kinds = sorted(left_out, key=lambda kind: (not remedy_for(kind), -left_out[kind], kind))
    said = [f"{left_out[kind]:,} {kind}" + f" ({remedy_for(kind)})" * bool(remedy_for(kind)) for kind in kinds]
    if len(said) > _MOST_SAID:
        said[_MOST_SAID:] = [f"{sum(left_out[kind] for kind in kinds[_MOST_SAID:]):,} more"]
    verb = "was" if n_files + n_folders == 1 else "were"
    return f"{' and '.join(counts)} {verb} left out: {', '.join(said)}"
