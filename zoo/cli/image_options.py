"""Options of the verbs that take images: which, and how their features are computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ..errors import QueryError
from .options import refuse_idle
from .probe_options import say

if TYPE_CHECKING:
    from ..datasets import ImageData
    from ..evaluation.featurising import Featurising

IMAGE_KINDS = """\
  digits                   scikit-learn's handwritten digits
  shapes                   rendered images; shapes:classes=20,train=5000,val=1000,size_px=32,seed=0
  FOLDER                   a folder a class, below train/ and val/, or split by hash
  FILE.npz                 arrays x and y, or x_train, y_train, x_val and y_val
  torchvision:NAME:ROOT    a data set of torchvision on the disk
  huggingface:PATH         what save_to_disk of the library datasets wrote
"""
IMAGES_HELP = f"\b\nIMAGES is one of\n{IMAGE_KINDS}"


def scale_of(ctx: click.Context, parameter: click.Parameter, text: str | None) -> tuple[float, float] | None:
    """Two numbers from LOW,HIGH.

    Raises
    ------
    QueryError
        If it is something else.
    """
    if text is None:
        return None
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low, high = math.nan, math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise QueryError(f"Got --scale {text!r}, expected LOW,HIGH, two numbers with the smaller one first, as 0,4095.")
    return low, high


DATA_OPTIONS = (
    click.option("--dataset", metavar="NAME", help="Name of the data set in the results, if not its own."),
    click.option("--val-share", type=click.FloatRange(0, 1, min_open=True, max_open=True),
                 help="Share of the images to test on, where the source does not say.  [default: 0.2]"),
    click.option("--split-seed", type=click.IntRange(0, 2**31 - 1), default=0, help="Of that split.  [default: 0]"),
    click.option("--image-column", help="Of a Hugging Face data set that has several."),
    click.option("--label-column", help="Of a Hugging Face data set that has several."),
    click.option("--scale", metavar="LOW,HIGH", callback=scale_of,
                 help="Values that are black and white, of images with more than 8 bits a channel.  [default: 0,65535 "
                      "of 16-bit integers, 0,1 of floating point, the window of DICOM]"),
)  # fmt: skip
_OPTIONS = (
    *DATA_OPTIONS,
    click.option("--batch-size", type=click.IntRange(1), default=64, show_default=True, help="Images a forward pass."),
    click.option("--workers", "n_workers", type=click.IntRange(0, 1024), default=0, help="Processes that decode."),
    click.option("--device", metavar="DEVICE", help="Where to compute.  [default: a GPU if there is one]"),
    click.option("--precision", type=click.Choice(["float32", "bfloat16", "float16"]), default="float32",
                 show_default=True, help="Of the encoder's forward pass."),
    click.option("--skip-corrupt", is_flag=True, help="Go on without images that cannot be read, and name them."),
)  # fmt: skip
IMAGE_OPTIONS = ("dataset", "val_share", "split_seed", "image_column", "label_column")
SPLIT_OPTIONS, COLUMN_OPTIONS = ("val_share", "split_seed"), ("image_column", "label_column")
FEATURE_OPTIONS = ("batch_size", "n_workers", "device", "precision", "skip_corrupt")


def image_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All options of images and features, passed on by their names."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def opened(images: str, options: dict[str, Any]) -> ImageData:
    """The image set that the arguments name.

    Raises
    ------
    UnknownName, QueryError, DataError, MissingExtra
        As :func:`zoo.datasets.open_images`; and if an option would do nothing to this set.
    """
    from ..datasets import open_images

    if not images.startswith("huggingface:"):
        refuse_idle(COLUMN_OPTIONS, f"{images!r} is no Hugging Face data set, and has no columns")
    say(f"looking at {images}")
    data = open_images(
        images,
        name=options["dataset"],
        val_share=options["val_share"],
        seed=options["split_seed"],
        image_column=options["image_column"],
        label_column=options["label_column"],
        scale=options["scale"],
    )
    if not data.is_split_here:
        refuse_idle(SPLIT_OPTIONS, f"{images!r} says itself which images are to be tested on")
    return data


def refuse_other_images(data: ImageData) -> None:
    """Refuses images that are others than those recorded under their name, before anything is computed.

    Raises
    ------
    ResultsError
    """
    from ..recording import require_same_images

    require_same_images(data.name, {"images": {"train": data.train.fingerprint, "val": data.val.fingerprint}})


def images_document(data: ImageData) -> dict[str, Any]:
    """How the images of both parts are read, as JSON has it."""
    return {"train": data.train.reading.as_dict(), "val": data.val.reading.as_dict()}


def featurising(options: dict[str, Any]) -> Featurising:
    """How features are to be computed."""
    from ..evaluation.featurising import Featurising

    return Featurising(**{name: options[name] for name in FEATURE_OPTIONS})
