"""An image set from one text, whatever its source."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ..errors import QueryError, UnknownName
from .folders import folder_data, npz_data
from .images import ImageData, ImageSet
from .libraries import DIGITS_VAL_SHARE, digits_data
from .rgb import Scale, checked_scale
from .shapes import shapes
from .subsets import renamed

KINDS = {
    "digits": "scikit-learn's handwritten digits",
    "shapes": "rendered images; shapes:classes=20,train=5000,val=1000,size_px=32,seed=0",
    "FOLDER": "a folder a class, below train/ and val/, or split by hash",
    "FILE.npz": "arrays x and y, or x_train, y_train, x_val and y_val",
    "torchvision:NAME:ROOT": "a data set of torchvision on the disk",
    "huggingface:PATH": "what save_to_disk of the library datasets wrote",
}
"""What :func:`open_images` takes, and what it is."""

VAL_SHARE = 0.2
_SHAPES_OPTIONS = ("classes", "train", "val", "size_px", "seed")


def open_images(
    spec: str | os.PathLike[str],
    *,
    name: str | None = None,
    val_share: float | None = None,
    seed: int = 0,
    image_column: str | None = None,
    label_column: str | None = None,
    scale: Scale | None = None,
) -> ImageData:
    """A training and a validation set of labelled images.

    Parameters
    ----------
    spec : str or path
        One of :data:`KINDS`. A folder that has the name of another kind is given as "./NAME".
    name : str, optional
        Of the data set, as it goes into results; by default that of the kind, folder, file or torchvision's class.
    val_share : float, optional
        Share of the images for validation where the source does not say: 0.2, and 0.25 of the digits. A folder is
        split by the hash of each path, anything else stratified by class.
    seed : int
        Of that split; the rendered set has its own.
    image_column, label_column : str, optional
        Of a Hugging Face data set that has several.
    scale : (float, float), optional
        The values that are black and white, of images with more than 8 bits a channel; by default the ends of their
        range, 0 and 65535 or 0 and 1. Other values than integers of 16 bits and shares of 1 need it.

    Raises
    ------
    UnknownName
        If it is none of them; lists what would be.
    QueryError
        If it is one of them, wrongly written, or no image has a use for the scale.
    DataError
        If the images or labels are not what a probe needs; says what and where.
    MissingExtra
        If a library for the source is not installed.

    >>> data = open_images("shapes:classes=4,train=8,val=4,size_px=8")
    >>> len(data.train), len(data.val), data.train.classes[3]
    (8, 4, 'checks cube')
    """
    text = os.fspath(spec)
    kind, _, rest = text.partition(":")
    share = VAL_SHARE if val_share is None else val_share
    if text == "digits":
        data = digits_data(val_share=DIGITS_VAL_SHARE if val_share is None else val_share, seed=seed)
    elif kind == "shapes":
        data = shapes(**_shapes_options(text, rest))
    elif kind == "torchvision":
        dataset, _, root = rest.partition(":")
        if not dataset or not root:
            raise QueryError(f"The image set {text!r} is not complete; expected torchvision:NAME:ROOT.")
        from .libraries import torchvision_data  # torch is imported for these only

        data = torchvision_data(dataset, Path(root), name=dataset.lower(), scale=scale)
    elif kind == "huggingface":
        if not rest:
            raise QueryError(f"The image set {text!r} is not complete; expected huggingface:PATH.")
        from .huggingface_sets import huggingface_data  # and so are pyarrow and the rest

        columns = {"image_column": image_column, "label_column": label_column}
        data = huggingface_data(Path(rest), name=_named(Path(rest)), val_share=share, seed=seed, scale=scale, **columns)
    elif text.lower().endswith(".npz") and not os.path.isdir(text):
        data = npz_data(Path(text), name=name or Path(text).stem, val_share=share, seed=seed, scale=scale)
    elif os.path.isdir(text):
        data = folder_data(Path(text), name=name or _named(Path(text)), val_share=share, seed=seed, scale=scale)
    else:
        known = "; ".join(f"{key} ({meaning})" for key, meaning in KINDS.items())
        kinds = ("digits", "shapes", "torchvision", "huggingface")
        raise UnknownName("image set", text, kinds, hint=f"Expected {known}.")
    if scale is not None:
        require_use([data.train, data.val], scale)
    return data if name is None else renamed(data, name)


def require_use(image_sets: Iterable[ImageSet], scale: Scale) -> None:
    """Refuses a scale that shows no image of some sets otherwise.

    Raises
    ------
    QueryError
        If all of them have 8 bits a channel, or the scale is none.
    """
    low, high = checked_scale(scale)
    sets = list(image_sets)
    if not any(one.values for images in sets for one in images.reading.stored.values()):
        raise QueryError(
            f"The scale {low:g},{high:g} shows no image of {sets[0].name!r} otherwise, for all have 8 bits a channel; "
            "leave it out."
        )


def _named(folder: Path) -> str:
    return folder.resolve().name or "images"  # the root of a disk has no name


def _shapes_options(text: str, rest: str) -> dict[str, int]:
    options: dict[str, int] = {}
    if text == "shapes":
        return options
    for entry in rest.split(","):
        key, _, value = entry.partition("=")
        if key.strip() not in _SHAPES_OPTIONS or key.strip() in options or not value.strip().isdecimal():
            raise QueryError(
                f"The image set {text!r} has {entry!r}; expected OPTION=NUMBER, each once, of "
                f"{', '.join(_SHAPES_OPTIONS)}, with commas between them."
            )
        options[key.strip()] = int(value)
    return options
