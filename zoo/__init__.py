"""SSL Zoo: self-supervised vision encoders, what is known of them and what was measured.

>>> import zoo
>>> zoo.card("dino_vitS16").representation.dim
1536

``import zoo`` is cheap: torch, pandas and the rest are imported by the first function that needs them.

* :mod:`zoo.cards.schema`: the facts of an encoder, and their names in tables
* :mod:`zoo.results`: what was measured, with errata; :mod:`zoo.analysis`: methods on tables of encoders
* :mod:`zoo.datasets`: labelled images, subsets, views, maps; :mod:`zoo.encoders`: networks without their weights
* :mod:`zoo.features`: features of images on disk, with what they were computed from
* :mod:`zoo.evaluation`: probes and the risk decomposition; :mod:`zoo.evaluation.label_free`: metrics without labels;
  :mod:`zoo.evaluation.transferability`: scores of labelled features; :mod:`zoo.evaluation.curves`: calibrated learning
  curves
* :func:`zoo.recommend`: encoders by the error to expect; :func:`zoo.choose`: which one for one's own labelled images
* :mod:`zoo.looking`: what encoders see as pictures, and the mistakes of probes
* :mod:`zoo.studies.findings`: what a study returns; :mod:`zoo.errors`: what goes wrong
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .cards.schema import DRAWS_MEASURED, NOT_APPLICABLE, NOT_PUBLISHED, NOT_RECORDED, EncoderCard, Missing
from .optional import make_lazy_exports
from .version import __version__

__all__ = [
    "NOT_APPLICABLE",
    "NOT_PUBLISHED",
    "NOT_RECORDED",
    "EncoderCard",
    "Missing",
    "__version__",
    "card",
    "list_encoders",
]

if TYPE_CHECKING:
    from . import analysis as analysis
    from . import cards as cards
    from . import choosing as choosing
    from . import datasets as datasets
    from . import encoders as encoders
    from . import errors as errors
    from . import evaluation as evaluation
    from . import features as features
    from . import looking as looking
    from . import results as results
    from .choosing.choosing import choose as choose
    from .choosing.ranking import recommend as recommend
    from .features.transformer import ImageTransformer as ImageTransformer
    from .loading import load as load
    from .registration import register as register
    from .results.tables import metadata_df as metadata_df
    from .results.tables import metadata_dict as metadata_dict
    from .results.tables import results_df as results_df
else:
    __getattr__, __dir__, _imported = make_lazy_exports(
        __name__,
        {
            "choosing.choosing": ["choose"],
            "choosing.ranking": ["recommend"],
            "features.transformer": ["ImageTransformer"],
            "loading": ["load"],
            "registration": ["register"],
            "results.tables": ["metadata_df", "metadata_dict", "results_df"],
        },
        submodules=[
            "analysis",
            "cards",
            "choosing",
            "datasets",
            "encoders",
            "errors",
            "evaluation",
            "features",
            "looking",
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


def _draw_measured(name: str, ax: Any) -> Any:
    """What cards plot."""
    from .results import measurements

    return measurements(encoders=[name], metrics="linear_probe_error").plot(ax)


DRAWS_MEASURED.append(_draw_measured)


def list_encoders() -> list[str]:
    """Ids of all encoders, in the order of their card files; the user's own come last."""
    from .cards.catalogue import load_catalogue

    return list(load_catalogue())


def card(name: str) -> EncoderCard:
    """The card of one encoder, or of other features of it (``dino_vitS16@cls``); case does not matter.

    Raises
    ------
    UnknownName
        If there is no such encoder; lists the nearest names.
    QueryError
        If the encoder does not have such features; says which it has.
    """
    from .cards.catalogue import load_catalogue

    return load_catalogue()[name]
