"""Which image of a folder goes with which map."""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import DataError
from .folders import VAL_FOLDERS
from .imagefiles import SUFFIXES
from .mapfiles import MAP_SUFFIXES

IMAGE_FOLDERS = ("images", "rgb")
MAP_FOLDERS = {"depth": ("depth", "depth_zbuffer", "depth_euclidean"), "normals": ("normals", "normal")}

Seen = dict[tuple[int, int], str]  # device and inode of each folder: the part and kind that it was first read for

_TASK_OF = {word: task for task, words in MAP_FOLDERS.items() for word in words}
_ENDINGS = tuple(f"_domain_{word}" for word in (*IMAGE_FOLDERS, *_TASK_OF))  # of Taskonomy's names
_OTHER_MAPS = (*SUFFIXES, ".exr", ".hdr", ".mat", ".pfm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Paths below the folder of the part, with / between, and the size of the map."""

    image: str
    map: str
    map_bytes: int


def pairs_of(root: Path, *, task: str, split: str, seen: Seen) -> tuple[list[Pair], str]:
    """Images with their maps, sorted by what their paths share, and the name of the folder of the maps.

    Parameters
    ----------
    root : Path
        Of one part.
    task : str
        "depth" or "normals".
    split : str
        Name of the part.
    seen : dict
        Folders that were read for any part so far; grows.

    Raises
    ------
    DataError
        If the folder cannot be read, or images and maps do not fit each other; says where.
    """
    walk = _Walk(root, task, split, seen)
    walk.enter(root, below="", key="", word=None)
    walk.require_both()
    walk.require_pairs()
    paired = [
        Pair(image=image, map=found, map_bytes=walk.sizes[found])
        for image, found in ((walk.images[key], walk.maps[key]) for key in sorted(walk.images))
    ]
    return paired, next(word for word in MAP_FOLDERS[task] if word in walk.words)


@dataclass
class _Walk:
    """A walk through the folders of a part, and what it found."""

    root: Path
    task: str
    split: str
    seen: Seen
    words: set[str] = field(default_factory=set)  # names of folders of images or maps of any task
    images: dict[str, str] = field(default_factory=dict)  # what an image and its map share: path
    maps: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)  # path: bytes

    def enter(self, folder: Path, *, below: str, key: str, word: str | None) -> None:
        """Read a folder at the path ``below``; ``word`` says what is in it, and ``key`` is the path without it."""
        owner = f"{self.split} {word}" if word else self.split
        try:
            status = folder.stat()
            with os.scandir(folder) as entries:
                shown = sorted((e for e in entries if not e.name.startswith(".")), key=lambda entry: entry.name)
        except OSError as error:
            raise DataError(f"The folder {folder} cannot be read ({error.strerror}); check it.") from error
        place = (status.st_dev, status.st_ino)
        if self.seen.get(place) == owner:
            return  # a loop of links
        first = self.seen.setdefault(place, owner)
        if first != owner:
            raise DataError(
                f"The folder {folder} is one with a folder of {first!r}, by a link; expected images and maps apart, "
                "and each in one part only: remove the link."
            )
        for entry in shown:
            inner, path = f"{below}{entry.name}", Path(entry.path)
            if not entry.is_dir():
                if word is not None:
                    self.add(entry, path=inner, key=key, word=word)
            elif word is not None or not (entry.name in IMAGE_FOLDERS or entry.name in _TASK_OF):
                self.enter(path, below=f"{inner}/", key=f"{key}{entry.name}/", word=word)
            elif self.is_wanted(path):
                self.enter(path, below=f"{inner}/", key=key, word=entry.name)

    def is_wanted(self, folder: Path) -> bool:
        """Whether a folder of images or maps is one to read; notes that it is there."""
        self.words.add(folder.name)
        if _TASK_OF.get(folder.name, self.task) != self.task:
            return False
        words = [word for word in MAP_FOLDERS[self.task] if word in self.words]
        if len(words) > 1:
            raise DataError(
                f"{self.root} holds {self.task} in {' and in '.join(f'{word}/' for word in words)}; expected one of "
                "them: move the other elsewhere."
            )
        if (folder / "train").is_dir() and any((folder / part).is_dir() for part in VAL_FOLDERS):
            raise DataError(
                f"{folder} holds train/ and a part to test on, which would be mixed; expected these above it, as "
                f"train/{folder.name}/."
            )
        return True

    def add(self, file: os.DirEntry[str], *, path: str, key: str, word: str) -> None:
        """Note an image or a map."""
        is_map, lowered = word in _TASK_OF, file.name.lower()
        if not lowered.endswith(MAP_SUFFIXES if is_map else SUFFIXES):
            if is_map and lowered.endswith(_OTHER_MAPS):
                raise DataError(
                    f"The map {file.path} ends in {os.path.splitext(file.name)[1]}; expected one of "
                    f"{', '.join(MAP_SUFFIXES)}: convert it without loss."
                )
            return
        stem = os.path.splitext(file.name)[0]
        stem = next((stem.removesuffix(ending) for ending in _ENDINGS if stem.endswith(ending)), stem)
        shared = unicodedata.normalize("NFC", f"{key}{stem}")
        there = self.maps if is_map else self.images
        if shared in there:
            raise DataError(
                f"{there[shared]!r} and {path!r} in {self.root} would both be the {'map' if is_map else 'image'} of "
                f"{shared!r}; expected one: rename or remove the other."
            )
        try:
            self.sizes[path] = file.stat().st_size
        except OSError as error:
            raise DataError(f"The file {file.path} cannot be read ({error.strerror}); restore or remove it.") from error
        there[shared] = path

    def require_both(self) -> None:
        """There are images and maps."""
        words = MAP_FOLDERS[self.task]
        if not self.images:
            raise DataError(
                f"{self.root} holds no image in a folder images/ or rgb/; expected images/NAME with one of "
                f"{', '.join(SUFFIXES)}, and {words[0]}/NAME with one of {', '.join(MAP_SUFFIXES)}."
            )
        if not self.maps:
            others = sorted(word for word in self.words if _TASK_OF.get(word, self.task) != self.task)
            there = f"maps of {_TASK_OF[others[0]]} in {others[0]}/" if others else "images without any map"
            wanted = " or ".join(f"{word}/" for word in words)
            raise DataError(
                f"{self.root} holds no maps of {self.task}, but {there}; expected {wanted} with a map an image: add "
                "them, or take another task."
            )

    def require_pairs(self) -> None:
        """Every image has a map, every map an image, and their names are distinct on every disk."""
        for what, have, lack, wanted in (
            ("images", self.images, self.maps, f"map of {self.task}"),
            (f"maps of {self.task}", self.maps, self.images, "image"),
        ):
            alone = sorted(have[key] for key in have.keys() - lack.keys())
            if alone:
                raise DataError(
                    f"{len(alone):,} of {len(have):,} {what} in {self.root} have no {wanted} of the same name, such as "
                    f"{', '.join(map(repr, alone[:3]))}; add what is missing, or remove them."
                )
        by_folded: dict[str, str] = {}
        for key, path in self.images.items():
            first = by_folded.setdefault(key.casefold(), path)
            if first != path:
                raise DataError(
                    f"The images {first!r} and {path!r} in {self.root} have names that differ only by case, which many "
                    "disks take for one; rename one of them."
                )
