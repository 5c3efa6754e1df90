"""Image sets of libraries: data sets of torchvision that are on the disk already, and scikit-learn's digits."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CorruptImage, DataError, UnknownName
from ..optional import requires_extra
from .imagefiles import DECODING_ERRORS, Reading, as_shown, files_reading, read_image, reason_of
from .images import ImageData, ImageSet, LazyImages, array_images, contents_of_files, contents_of_pixels, fingerprint_of
from .labels import data_of
from .rgb import WHITE, Scale
from .subsets import stratified_split

with requires_extra("models", needed_for="Working with images"):
    import numpy as np

if TYPE_CHECKING:
    from types import ModuleType

    from PIL import Image

_PARTS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {  # values of the argument: to train on, to test on
    "train": ((True,), (False,)),
    "split": (("train", "trainval", "train-standard"), ("val", "valid", "test")),
}


def torchvision_data(
    kind: str,
    root: Path,
    *,
    name: str,
    scale: Scale | None = None,
    background: str = WHITE,
    fold_labels: bool = False,
) -> ImageData:
    """A data set of torchvision with an argument ``train`` or ``split``; nothing is downloaded.

    The second part is the first of "val", "valid" and "test" that the data set has. The fingerprint is over names,
    labels and classes, and the pixels where the data set holds them in memory, else the bytes of the files where it
    lists them; and over the orientations, kinds of values, scale and background of the images that are turned, scaled
    or transparent. Of the few others the contents of the images are not known. Torchvision itself turns no image, drops
    transparency and makes images of 16 bits white, so that these are read from their files.
    """
    torchvision_datasets = _torchvision_datasets()
    usable = dict(_arguments(torchvision_datasets))
    if kind not in torchvision_datasets.__all__:
        raise UnknownName("torchvision data set", kind, usable)
    if kind not in usable:
        raise DataError(
            f"The torchvision data set {kind} has no argument train= or split= that says which images are for "
            f"training; expected one of {', '.join(usable)}, or a folder with train/ and val/."
        )
    argument = usable[kind]
    opened = {
        part: _opened(kind, root, argument, values)
        for part, values in zip(("train", "val"), _PARTS[argument], strict=True)
    }
    labelled = {part: _labels(entry, kind) for part, entry in opened.items()}
    n_classes = 1 + max(int(labels.max(initial=-1)) for labels, _ in labelled.values())
    classes = _classes(opened["train"], n_classes)
    sets = {
        part: _torchvision_image_set(
            entry, *labelled[part], name=name, part=part, classes=classes, scale=scale, background=background
        )
        for part, entry in opened.items()
    }
    return data_of([sets["train"], sets["val"]], fold_labels=fold_labels)


def _torchvision_datasets() -> ModuleType:
    """The module of torchvision, with PyTorch, which the digits do without."""
    with requires_extra("models", needed_for="A data set of torchvision"):
        from torchvision import datasets
    module: ModuleType = datasets
    return module


def _arguments(torchvision_datasets: ModuleType) -> Iterator[tuple[str, str]]:
    """Data sets that need no more than ``root`` and one of the arguments ``train`` and ``split``, with the latter."""
    for kind in torchvision_datasets.__all__:
        constructor = getattr(torchvision_datasets, kind)
        if inspect.isclass(constructor):
            parameters = inspect.signature(constructor).parameters
            argument = next((candidate for candidate in _PARTS if candidate in parameters), None)
            needed = {
                key
                for key, entry in parameters.items()
                if entry.default is entry.empty and entry.kind not in (entry.VAR_POSITIONAL, entry.VAR_KEYWORD)
            }
            if argument is not None and needed <= {"root", argument}:
                yield kind, argument


def _classes(opened: Any, n_classes: int) -> tuple[str, ...]:
    named = getattr(opened, "classes", None)
    if isinstance(named, list | tuple) and len(named) >= n_classes:
        return tuple(entry[0] if isinstance(entry, tuple) else str(entry) for entry in named)  # ImageNet: synonyms
    return tuple(map(str, range(n_classes)))


def _torchvision_image_set(
    opened: Any,
    labels: np.ndarray,
    paths: list[str],
    *,
    name: str,
    part: str,
    classes: tuple[str, ...],
    scale: Scale | None,
    background: str,
) -> ImageSet:
    names = list(map(str, range(len(labels))))
    files = paths if len(paths) == len(labels) else _other_files(opened, len(labels))
    reading = Reading()
    if files:
        reading = files_reading(files, names, image_set=name, scale=scale, background=background)
    from_files = {int(number): files[int(number)] for number in reading.facts()}
    pixels = _pixels(opened)
    contents = None
    if pixels is not None:
        contents = contents_of_pixels(pixels)
    elif files:
        contents = contents_of_files(files)
    known = pixels if pixels is not None else np.zeros(0, "<u8") if contents is None else contents.astype("<u8")
    return ImageSet(
        name=name,
        split=part,
        images=LazyImages(
            partial(_read_torchvision, opened, name, from_files, reading.scale, reading.background),
            np.arange(len(labels)),
        ),
        labels=labels,
        classes=classes,
        names=names,
        fingerprint=fingerprint_of(["torchvision", *classes, *names, labels.astype("<i8"), known], reading),
        reading=reading,
        contents=contents,
    )


def _opened(kind: str, root: Path, argument: str, values: tuple[Any, ...]) -> Any:
    constructor = getattr(_torchvision_datasets(), kind)
    refused: Exception | None = None
    for value in values:
        try:
            with requires_extra("models", needed_for=f"The torchvision data set {kind}"):
                return constructor(str(root), **{argument: value})
        except ValueError as error:  # this data set has no part of that name
            refused = error
        except (OSError, RuntimeError) as error:
            raise DataError(
                f"The torchvision data set {kind} is not whole below {root} ({reason_of(error)}); put its files there "
                "first, for the zoo downloads no images."
            ) from error
    raise DataError(
        f"The torchvision data set {kind} has no part {' or '.join(map(repr, values))}"
        f"{f' ({reason_of(refused)})' if refused else ''}; give a folder with train/ and val/ instead."
    )


def _labels(opened: Any, kind: str) -> tuple[np.ndarray, list[str]]:
    """Labels int64 (n,), and the files of the images where the data set lists them."""
    n = len(opened)
    listed = [getattr(opened, key, None) for key in ("samples", "_samples", "imgs")]
    samples: list[Any] = next((entries for entries in listed if isinstance(entries, list) and entries), [])
    paired = len(samples) == n and all(isinstance(entry, tuple) and len(entry) == 2 for entry in samples)
    image_files = getattr(opened, "_image_files", None) or getattr(opened, "_images", [])
    files = [entry[0] for entry in samples] if paired else image_files
    paths = [str(file) for file in files] if all(isinstance(file, str | Path) for file in files) else []
    given = [getattr(opened, key, None) for key in ("targets", "labels", "_labels")]
    targets: Any = next((labels for labels in given if labels is not None and len(labels) == n), None)
    if targets is None:
        targets = [entry[1] for entry in samples] if paired else _targets(opened)
    whole = hasattr(targets, "__array__") or all(_is_label(label) for label in targets)
    labels = np.asarray(targets) if whole else np.empty(0)
    if labels.shape != (n,) or labels.dtype.kind not in "iu" or (n and labels.min() < 0):
        raise DataError(
            f"The torchvision data set {kind} does not give one whole number from 0 on as the label of each of its "
            f"{n:,} images; expected a data set for classification."
        )
    return labels.astype(np.int64), paths


def _targets(opened: Any) -> list[Any]:
    """The label of each image, which the data set decodes for that; [None] if the first one has none."""
    first = opened[0][1:] if len(opened) and isinstance(opened[0], tuple) else ()
    if len(first) != 1 or not _is_label(first[0]):
        return [None]
    return [opened[i][1] for i in range(len(opened))]


def _is_label(target: Any) -> bool:
    number = target.item() if getattr(target, "ndim", None) == 0 else target  # a tensor, or a number of numpy
    return isinstance(number, int) and not isinstance(number, bool)


def _pixels(opened: Any) -> np.ndarray | None:
    """Pixels of all images, if the data set holds them in memory."""
    data = getattr(opened, "data", None)
    if data is not None and hasattr(data, "__array__") and len(data) == len(opened):
        pixels = np.asarray(data)
        if pixels.dtype == np.uint8:
            return pixels
    return None


def _other_files(opened: Any, n: int) -> list[str]:
    """Files of the images where the data set lists them apart from its labels; empty if it does not."""
    listed = [getattr(opened, key, None) for key in ("_images", "data")]
    files: list[Any] = next((files for files in listed if isinstance(files, list) and len(files) == n), [])
    return [str(file) for file in files] if all(isinstance(file, str | Path) for file in files) else []


def _read_torchvision(
    opened: Any, image_set: str, from_files: Mapping[int, str], scale: Scale | None, background: str, index: int
) -> Image.Image:
    how: dict[str, Any] = {"image": str(index), "image_set": image_set, "scale": scale, "background": background}
    if index in from_files:
        upright = read_image(from_files[index], **how)
        return upright.convert("RGB")  # as torchvision would
    try:
        image = opened[index][0]
    except DECODING_ERRORS as error:
        raise CorruptImage.of(str(index), image_set=image_set, reason=reason_of(error)) from error
    return as_shown(image, **how)


DIGITS_VAL_SHARE = 0.25


def digits(*, n_images: int | None = None) -> ImageSet:
    """The handwritten digits that ship with scikit-learn: 1,797 images of 8 x 8 px in 10 classes.

    Parameters
    ----------
    n_images : int, optional
        Only the first so many; they come in a mixed order of classes.

    Raises
    ------
    MissingExtra
        If scikit-learn is not installed.
    DataError
        If ``n_images`` is not between 1 and 1,797.

    References
    ----------
    E. Alpaydin and C. Kaynak 1998, Optical Recognition of Handwritten Digits, UCI (its test part).
    """
    with requires_extra("evaluate", needed_for="The handwritten digits"):
        from sklearn.datasets import load_digits

    bunch = load_digits()
    n_all = len(bunch.target)
    if n_images is not None and not 1 <= n_images <= n_all:
        raise DataError(f"Asked for {n_images} digits; expected between 1 and {n_all:,}.")
    return array_images(
        np.rint(bunch.images[:n_images] * (255 / 16)).astype(np.uint8),  # (n, 8, 8), pixels come as 0 to 16
        bunch.target[:n_images].astype(np.int64),
        name="digits",
        split="all" if n_images is None else f"first {n_images}",
        classes=tuple(str(name) for name in bunch.target_names),
    )


def digits_data(*, val_share: float = DIGITS_VAL_SHARE, seed: int = 0) -> ImageData:
    """All the digits, split stratified by class: by default 1,346 for training and 451 for testing.

    Writers are not named in the data, so that both parts may have digits of the same hand.

    Parameters
    ----------
    val_share : float
        Between 0 and 1, of each class.
    seed : int
        Another seed is another split, and its numbers are not comparable.

    Raises
    ------
    DataError
        If the share is not between 0 and 1, or the seed is no whole number from 0 on.
    MissingExtra
        If scikit-learn is not installed.
    """
    return stratified_split(digits(), val_share=val_share, seed=seed)
