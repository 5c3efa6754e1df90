"""SSL Zoo: self-supervised vision encoders, what is known of them and what was measured.

>>> import zoo
>>> zoo.card("dino_vitS16").representation.dim
1536

``import zoo`` is cheap: torch, pandas and the rest are imported by the first function that needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .metadata import NOT_APPLICABLE, NOT_PUBLISHED, EncoderCard, Missing
from .version import __version__

if TYPE_CHECKING:
    import torch

    from .published import metadata_df, metadata_dict, results_df

__all__ = [
    "NOT_APPLICABLE",
    "NOT_PUBLISHED",
    "EncoderCard",
    "Missing",
    "__version__",
    "card",
    "list_encoders",
    "load",
    "metadata_df",
    "metadata_dict",
    "results_df",
]

_SUBMODULES = frozenset({"analysis", "cards", "datasets", "encoders", "errors", "features", "preprocess", "results"})
_TABLES = frozenset({"metadata_df", "metadata_dict", "results_df"})


def list_encoders() -> list[str]:
    """Ids of all encoders, in the order of their card files; the user's own come last."""
    from .cards import catalogue

    return list(catalogue())


def card(name: str) -> EncoderCard:
    """The card of one encoder; case does not matter.

    Raises
    ------
    UnknownName
        If there is no such encoder; lists the nearest names.
    """
    from .cards import catalogue

    return catalogue()[name]


def load(
    name: str, *, pretrained: bool = True, seed: int = 0, device: str | torch.device | None = None
) -> tuple[torch.nn.Module, Any]:
    """An encoder and the preprocessing that belongs to it.

    Parameters
    ----------
    name : str
        Id of the encoder; case does not matter.
    pretrained : bool
        With the trained weights; ``False`` gives the same architecture with random ones.
    seed : int
        Of the random weights, where there are any.
    device : str or torch.device, optional
        Where the encoder is built; ``"meta"`` gives shapes without memory.

    Returns
    -------
    encoder : torch.nn.Module
        From images float32 (n, 3, px, px) to features float32 (n, dim); in eval mode.
    preprocess : torchvision transform
        From a PIL image to a tensor float32 (3, px, px).

    Raises
    ------
    UnknownName, WeightsUnavailable, BuildError, MissingExtra
    """
    from .loading import load as load_encoder

    return load_encoder(name, pretrained=pretrained, seed=seed, device=device)


def __getattr__(name: str) -> Any:
    if name in _TABLES:
        return getattr(import_module(".published", __name__), name)
    if name in _SUBMODULES:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module 'zoo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_TABLES, *_SUBMODULES})
