"""SSL Zoo: self-supervised vision encoders, what is known of them and what was measured.

>>> import zoo
>>> zoo.card("dino_vitS16").representation.dim
1536

``import zoo`` is cheap: torch, pandas and the rest are imported by the first function that needs them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .cards.schema import NOT_APPLICABLE, NOT_PUBLISHED, EncoderCard, Missing
from .optional import lazy
from .version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import torch

__all__ = [
    "NOT_APPLICABLE",
    "NOT_PUBLISHED",
    "EncoderCard",
    "Missing",
    "__version__",
    "card",
    "list_encoders",
    "load",
    "register",
]

if TYPE_CHECKING:
    from . import analysis as analysis
    from . import cards as cards
    from . import datasets as datasets
    from . import encoders as encoders
    from . import errors as errors
    from . import evaluation as evaluation
    from . import features as features
    from . import results as results
    from .results.tables import metadata_df as metadata_df
    from .results.tables import metadata_dict as metadata_dict
    from .results.tables import results_df as results_df
else:
    __getattr__, __dir__, _imported = lazy(
        __name__,
        {
            "results.tables": ["metadata_df", "metadata_dict", "results_df"],
        },
        submodules=[
            "analysis",
            "cards",
            "datasets",
            "encoders",
            "errors",
            "evaluation",
            "features",
            "results",
        ],
    )
    __all__ += _imported


def _leave_out_undescribed_amx(cpuinfo: str = "/proc/cpuinfo") -> None:
    """Keeps oneDNN, which multiplies for PyTorch, from AMX on a processor that does not describe its tiles.

    Some virtual machines offer AMX, but their CPUID ends before leaf 0x1D, which has the size of the tiles. oneDNN then
    sets up tiles of size zero, and the first larger product in bfloat16 ends the process with an illegal instruction.
    oneDNN reads the variable at its first product, so that PyTorch may have been imported before.
    """
    try:
        with open(cpuinfo, encoding="ascii", errors="replace") as file:
            first, _, _ = file.read(8192).partition("\n\n")
    except OSError:
        return
    facts = {key.strip(): value.split() for key, _, value in (line.partition(":") for line in first.splitlines())}
    if "amx_tile" in facts.get("flags", ()) and int(facts.get("cpuid level", ("0",))[0]) < 0x1D:
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")


_leave_out_undescribed_amx()


def list_encoders() -> list[str]:
    """Ids of all encoders, in the order of their card files; the user's own come last."""
    from .cards.catalogue import catalogue

    return list(catalogue())


def card(name: str) -> EncoderCard:
    """The card of one encoder, or of other features of it (``dino_vitS16@cls``); case does not matter.

    Raises
    ------
    UnknownName
        If there is no such encoder; lists the nearest names.
    QueryError
        If the encoder does not have such features; says which it has.
    """
    from .cards.catalogue import catalogue

    return catalogue()[name]


def load(
    name: str,
    *,
    pretrained: bool = True,
    weights: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    checkpoint_key: str | None = None,
    layout: str | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    features: str | None = None,
    layers: int | Iterable[int] | None = None,
) -> tuple[torch.nn.Module, Any]:
    """An encoder and the preprocessing that belongs to it.

    The first load fetches the weights, checks them, reads them without running anything that is in them, and keeps them
    converted; later loads map what was kept, checked again.

    Parameters
    ----------
    name : str
        Id of the encoder; case does not matter. With other features it is the same as with ``features`` and ``layers``:
        ``dino_vitS16@cls:9+10+11``.
    pretrained : bool
        With the trained weights; ``False`` gives the same architecture with random ones.
    weights : path or address, or a list of them, optional
        A checkpoint of your own to load instead, as training scripts, timm, lightly, solo-learn or Lightning save it:
        the encoder is looked for in it, and half precision is widened. ``encoder.reading`` says what was taken and
        done. A list gives the file and its companions, for encoders of several files.
    checkpoint_key : str, optional
        Which of several encoders in your own checkpoint is meant: ``"student"``, ``"state_dict"``,
        ``"model.backbone"``. Without it the average of the training is taken where there is one, and of teacher and
        student the one that the method publishes; anything else is refused, and the message lists the keys.
    layout : str, optional
        How your own checkpoint names its tensors; otherwise as the files of this encoder do, or torchvision or timm.
    seed : int
        Of the random weights, where there are any.
    device : str or torch.device, optional
        Where the encoder is built; ``"meta"`` gives shapes without memory and needs no weights.
    features : str, optional
        What is taken from a vision transformer in place of what its card says: ``cls``, ``avg`` (mean of the patch
        tokens), ``cls+avg``; ``proj`` and ``proj+cls`` where the card takes a projection. The weights are the same.
    layers : int or iterable of int, optional
        Of which blocks, after the final norm, joined from the earliest to the latest: counted from 0 or, negative, from
        the end; or how many of the last. The last one unless given. :mod:`zoo.cards.representations` says more.

    Returns
    -------
    encoder : torch.nn.Module
        From images float32 (n, 3, px, px) to features float32 (n, dim); in eval mode.
    preprocess : torchvision transform
        From a PIL image to a tensor float32 (3, px, px).

    Raises
    ------
    WeightsUnavailable
        If the weights cannot be had; says from where they could not, and why.
    WeightsRefused
        If a file is not exactly what it must be, or not safe to read.
    StoreError
        If the cache, the lock file or the mirror cannot be read or written.
    DataError
        If the features of the bundled images, which the first load keeps for ``zoo check``, are not finite.
    QueryError
        If the encoder does not have such features; says which it has.
    UnknownName, BuildError, MissingExtra
    """
    from .loading import load as load_encoder

    return load_encoder(
        name,
        pretrained=pretrained,
        weights=weights,
        checkpoint_key=checkpoint_key,
        layout=layout,
        seed=seed,
        device=device,
        features=features,
        layers=layers,
    )


def register(
    weights: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    like: str,
    name: str,
    facts: Mapping[str, Any] | None = None,
    inherit: Collection[str] = (),
    layout: str | None = None,
    checkpoint_key: str | None = None,
) -> EncoderCard:
    """Makes an encoder of the zoo from a checkpoint of one's own; see :func:`zoo.registration.register`."""
    from .registration import register as register_encoder

    return register_encoder(
        weights, like=like, name=name, facts=facts, inherit=inherit, layout=layout, checkpoint_key=checkpoint_key
    )
