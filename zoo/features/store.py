"""``Features``: saved to a folder, loaded from it, verified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError
from ..optional import requires_extra
from .index import (
    INDEX,
    RUN,
    Index,
    decoded,
    encoded,
    listed_shards,
    read_index,
    require_intact,
    require_same_origin,
    surplus,
    write_index,
)
from .origin import Origin, run_hash
from .rows import Names, Rows, labels_of
from .shards import Listed, Skipped, write_shard

with requires_extra("models", needed_for="Working with features"):
    import numpy as np

__all__ = ["Features", "Skipped", "load_features", "verify"]

SHARD_SIZE = 1024
"""Images a shard, which is what a kill may cost: 8 MB at 2,048 dimensions, and a multiple of usual sizes of a batch."""


@dataclass(frozen=True, eq=False)
class Features:
    """Features of one image set under one encoder.

    Attributes
    ----------
    x : float32 array or Rows, shape (n_images, dim)
        One row an image; :class:`Rows` where they stay on the disk, whose slices are arrays.
    y : int64 array, shape (n_images,)
        The labels.
    origin : Origin
    names : sequence of str
        Of the images; empty if nobody gave any.
    classes : tuple of str
        What the labels mean; empty if nobody said.
    skipped : tuple of Skipped
        Images of the set that could not be read and have no row.
    folder : Path or None
        From where they were loaded.
    contents : uint64 array, shape (n_images,), or None
        A hash of what is in each image, as :class:`~zoo.datasets.ImageSet` has it; copies have the same one. None
        where it is not known.
    """

    x: np.ndarray | Rows
    y: np.ndarray
    origin: Origin
    names: Sequence[str] = ()
    classes: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    folder: Path | None = None
    contents: np.ndarray | None = None

    def __post_init__(self) -> None:
        x, y = self.x, self.y
        if x.dtype != np.float32 or x.ndim != 2 or y.dtype != np.int64 or y.shape != x.shape[:1]:
            raise DataError(
                f"The features of {self.origin.dataset!r} have x as {x.dtype} {x.shape} and y as {y.dtype} {y.shape}; "
                "expected float32 (n, dim) and int64 (n,)."
            )
        if len(self.names) not in (0, len(y)):
            raise DataError(
                f"The features of {self.origin.dataset!r} have {len(y):,} rows and {len(self.names):,} names of "
                "images; expected one a row."
            )
        if self.contents is not None and (self.contents.dtype, self.contents.shape) != (np.dtype(np.uint64), y.shape):
            raise DataError(
                f"The features of {self.origin.dataset!r} have {len(y):,} rows and contents of images as "
                f"{self.contents.dtype} {self.contents.shape}; expected uint64, one a row."
            )

    def __len__(self) -> int:
        return len(self.y)

    @property
    def dim(self) -> int:
        """Dimensions."""
        return int(self.x.shape[1])

    def batches(self, n_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows and labels in order, ``n_rows`` at a time: float32 (n_rows, dim) and int64 (n_rows,)."""
        for start in range(0, len(self), n_rows):
            yield self.x[start : start + n_rows], self.y[start : start + n_rows]

    def save(self, folder: str | Path, *, replace: bool = False, shard_size: int = SHARD_SIZE) -> Path:
        """Writes a features folder; it is complete at its end or not at all.

        Parameters
        ----------
        folder : path
            Made if it does not exist. If it holds the same features, nothing is written.
        replace : bool
            Put these in place of other features that are there, which are readable until these are complete.
        shard_size : int
            Rows a shard.

        Raises
        ------
        DataError
            If it cannot be written, or holds other features; says why.
        """
        target = Path(folder)
        before = None if replace else read_index(target)
        if before is not None:
            require_same_origin(target, before.origin, self.origin)
            shard_size = before.shard_size
        elif not replace and (target / RUN).exists():
            raise DataError(f"A run that did not end has its shards in {target}; end it, or name another folder.")
        written: list[Path] = []  # that were not there before
        try:
            try:
                index = self._written(target, shard_size, written)
                if before is not None and (before.shards, before.origin) != (index.shards, index.origin):
                    raise DataError(
                        f"The folder {target} holds features of the same origin but with other numbers, as another "
                        "machine or library rounds them; name another folder."
                    )
            except BaseException:
                for path in written:
                    path.unlink(missing_ok=True)
                raise
            if before is None and not write_index(target, index, replacing=replace):
                raise DataError(f"Another process has just written features to {target}; name another folder.")
            if replace:
                tidy(target, index)
        except OSError as error:
            raise DataError(
                f"The features could not be written to {target} ({error.strerror or error}); nothing was changed, make "
                "room or make it writable."
            ) from error
        return target

    def _written(self, target: Path, shard_size: int, written: list[Path]) -> Index:
        """Writes the shards, and tells which files were not there before."""
        run = run_hash(self.origin, shard_size=shard_size)
        there = set(target.glob("shard-*.safetensors"))
        listed: list[Listed] = []
        for number, start in enumerate(range(0, len(self), shard_size)):
            rows = slice(start, start + shard_size)
            listed.append(write_shard(target, self.x[rows], self.y[rows], self.names[rows], run=run, number=number))
            if target / listed[-1].file not in there:
                written.append(target / listed[-1].file)
        return Index(
            origin=self.origin,
            classes=self.classes,
            dim=self.dim,
            shard_size=shard_size,
            shards=tuple(listed),
            skipped=self.skipped,
            contents=encoded(self.contents),
        )


def load_features(folder: str | Path) -> Features:
    """The features of a complete folder; the rows stay on the disk and are read as they are asked for.

    Sizes of all files and the hash of the origin are checked; :func:`verify` reads every byte.

    Raises
    ------
    DataError
        If the folder is absent, unfinished, damaged, or holds no features; says which.
    """
    source = Path(folder)
    index = read_index(source)
    if index is None:
        raise DataError(_why_none(source))
    shards = listed_shards(source, index)
    n_names = sum(shard.arrays["names"].shape[0] for shard in shards)
    return Features(
        x=Rows(shards, dim=index.dim),
        y=labels_of(shards),
        origin=index.origin,
        names=Names(shards) if n_names else (),
        classes=index.classes,
        skipped=index.skipped,
        folder=source,
        contents=decoded(index.contents),
    )


def verify(folder: str | Path) -> Features:
    """Reads every byte of a features folder again, and gives its features.

    Raises
    ------
    DataError
        If it is not what was written; names the file.
    """
    features = load_features(folder)
    index = read_index(Path(folder))
    assert index is not None  # or there were no features
    require_intact(Path(folder), index)
    return features


def tidy(folder: Path, index: Index) -> None:
    """Takes away what a complete folder does not need: the notes of the run, and shards that the index does not list.

    Raises
    ------
    OSError
        If a file cannot be removed.
    """
    for path in [folder / RUN, *surplus(folder, index.shards)]:
        path.unlink(missing_ok=True)


def _why_none(folder: Path) -> str:
    if (folder / RUN).exists():
        return f"The features in {folder} are unfinished; run the same command again to go on where it was."
    if folder.is_file():
        return f"{folder} is a file and holds no features of this version; expected a folder with {INDEX}."
    if folder.is_dir():
        return f"The folder {folder} holds no features of this zoo ({INDEX} is missing)."
    return f"There is no features folder {folder}; write one with Features.save or zoo features."
