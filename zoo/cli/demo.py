"""``zoo demo``: the main job on real input, without a network."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards import catalogue
from ..content import content_folder
from ..errors import MissingExtra
from ..results import SETTINGS, Summary, summaries
from .facts import points, short_number
from .output import json_option, print_json, print_table

if TYPE_CHECKING:
    import numpy as np
    import torch

    from ..datasets import ImageSet

_ENCODER = "init_vitS16"
_LIBRARIES = {  # distributions by the module that is imported
    "numpy": "numpy",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "torch": "torch",
    "torchvision": "torchvision",
    "timm": "timm",
    "safetensors": "safetensors",
}
_SMALL = 30_000_000
_RECOMMEND = ["--labels", "10k", "--max-parameters", "100M", "--licence", "permissive", "--top", "5"]
_COMPARE = ["dino_vitS16", "msn_vits16_ep800"]


@click.command("demo")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-output"),
    show_default=True,
    help="Where the features go.",
)
@click.option(
    "--images", "n_images", type=click.IntRange(20, 1797), default=256, show_default=True, help="Digits to featurise."
)
@json_option
def command(out: Path, n_images: int, as_json: bool) -> None:
    """Run the main job on real input: rank, recommend, compare, load, featurise, save and read back.

    Needs no network: the numbers are the published ones, and the images are scikit-learn's handwritten digits.
    """
    if as_json:
        print_json({"best": _best(), **_featurise(out, n_images, show=False)})
        return
    _heading("The best encoders by number of labels: lowest error of a linear probe on ImageNet-1K, percent")
    small = f"best up to {short_number(_SMALL)} parameters"
    rows = [
        [best["setting"], best["encoder"], points(best["error"]), best["small_encoder"], points(best["small_error"])]
        for best in _best()
    ]
    print_table(["labels", "best of all", "error", small, "error"], rows, right=[2, 4])
    for verb, arguments in (("recommend", _RECOMMEND), ("compare", _COMPARE)):
        _heading(f"$ zoo {verb} {' '.join(arguments)}")
        _run(verb, arguments)
    _heading(f"Features of {n_images} handwritten digits under {_ENCODER}, an untrained encoder")
    found = _featurise(out, n_images, show=True)
    click.echo(f"loaded through {found['loaded_through']}")
    click.echo(f"{found['n_images']} images, features of {found['dim']} dimensions")
    click.echo(f"saved to {found['folder']} and read back: {'equal' if found['read_back_equal'] else 'DIFFERENT'}")
    click.echo(
        f"nearest-neighbour accuracy, each image against all others: {found['accuracy']:.1%} "
        f"(raw pixels {found['pixel_accuracy']:.1%}, always the most frequent digit {found['majority_accuracy']:.1%})"
    )
    if not found["read_back_equal"]:
        raise click.ClickException(
            f"The features in {found['folder']} are not those that were written; check the disk."
        )


def _heading(text: str) -> None:
    click.echo(f"\n{click.style(text, bold=True)}\n")


def _run(verb: str, arguments: list[str]) -> None:
    from . import zoo

    command = zoo.get_command(click.get_current_context(), verb)
    assert command is not None, verb
    command.main(arguments, prog_name=f"zoo {verb}", standalone_mode=False)
    sys.stdout.flush()


def _best() -> list[dict[str, Any]]:
    """The encoders with the lowest error in each setting, of all and of the small ones; wrong rows left out."""
    cards = catalogue()
    measured = [
        summary for summary in summaries(exclude_wrong=True).values()
        if cards[summary.encoder].objective.mode not in ("supervised", "initialized")
    ]  # fmt: skip
    small = [summary for summary in measured if cards[summary.encoder].architecture.n_parameters <= _SMALL]
    found = []
    for setting in SETTINGS:
        best, best_small = (_lowest(group, setting.name) for group in (measured, small))
        found.append(
            {
                "setting": setting.name,
                "encoder": best.encoder,
                "error": best.errors[setting.name],
                "small_encoder": best_small.encoder,
                "small_error": best_small.errors[setting.name],
            }
        )
    return found


def _lowest(group: list[Summary], setting: str) -> Summary:
    return min((summary for summary in group if setting in summary.errors), key=lambda summary: summary.errors[setting])


def _featurise(out: Path, n_images: int, *, show: bool) -> dict[str, Any]:
    _require_libraries()
    import numpy as np

    from ..datasets import digits
    from ..features import Bar, featurise, load_features

    images = digits(n_images=n_images)
    encoder, preprocess, through = _load()
    progress = Bar() if show else None
    features = featurise(encoder, preprocess, images, name=_ENCODER, batch_size=32, progress=progress)
    folder = features.save(out / f"digits-{_ENCODER}", replace=True)
    read = load_features(folder)
    x = np.asarray(read.x)
    equal = np.array_equal(x, features.x) and np.array_equal(read.y, features.y) and read.origin == features.origin
    return {
        "encoder": _ENCODER,
        "loaded_through": through,
        "folder": str(folder),
        "n_images": len(read),
        "dim": read.dim,
        "read_back_equal": equal,
        "accuracy": _nearest_neighbour_accuracy(x, read.y),
        "pixel_accuracy": _nearest_neighbour_accuracy(_pixels(images), read.y),
        "majority_accuracy": float(np.bincount(read.y).max() / len(read.y)),
    }


def _require_libraries() -> None:
    """Say which library is missing before anything is computed."""
    for module, distribution in _LIBRARIES.items():
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            raise MissingExtra(distribution, extra="demo", needed_for="The demo") from error


def _load() -> tuple[torch.nn.Module, Any, str]:
    """Through torch.hub where there is a checkout, as a user of the hub would; else through zoo.load."""
    repository = content_folder("metadata").parent
    if (repository / "hubconf.py").is_file():
        import torch

        encoder, preprocess = torch.hub.load(str(repository), _ENCODER, source="local")  # type: ignore[no-untyped-call]
        return encoder, preprocess, f'torch.hub.load(..., "{_ENCODER}", source="local")'
    from ..loading import load

    return *load(_ENCODER), f'zoo.load("{_ENCODER}")'


def _pixels(images: ImageSet) -> np.ndarray:
    import numpy as np

    return np.stack([np.asarray(image, dtype=np.float32).ravel() for image in images.images])  # (n, 64)


def _nearest_neighbour_accuracy(x: np.ndarray, y: np.ndarray) -> float:
    """Share of images whose nearest other image, by Euclidean distance, has the same label."""
    import numpy as np

    centred = x.astype(np.float64) - x.mean(axis=0)
    squares = (centred**2).sum(axis=1)
    distances = squares[:, None] + squares[None, :] - 2 * centred @ centred.T  # (n, n)
    np.fill_diagonal(distances, np.inf)
    return float((y[distances.argmin(axis=1)] == y).mean())
