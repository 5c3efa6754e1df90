"""How strong augmentations are: by what is published of each method, where a card only names them.

Most methods share one family of augmentations and differ in few numbers. ``SimCLR`` (arXiv:2002.05709, Appendix A) set
it up; ``BYOL`` (arXiv:2006.07733, Appendix B) made colours weaker and the two views unlike: every first view is
blurred and no first view solarised, one second view in ten is blurred and one in five solarised. A tuple of two
probabilities says that: views take its items in turn. Where nothing is known of a method, it gets the strengths that
:class:`Strengths` has by default.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ..metadata import NOT_PUBLISHED, EncoderCard

_BYOL = "BYOL, arXiv:2006.07733, Appendix B"


@dataclass(frozen=True, slots=True, kw_only=True)
class Masking:
    """Which patches are hidden.

    "random" ones; those in "blocks", rectangles until the share is hidden (BEiT); or all but a "context" as I-JEPA
    draws it: a large block without four smaller ones, the targets, so that the share follows from their sizes.
    """

    kind: Literal["random", "blocks", "context"] = "random"
    share: float = 0.75  # of the patches
    probability: float = 1.0  # of a view


@dataclass(frozen=True, slots=True, kw_only=True)
class Strengths:
    """Numbers behind the names of augmentations; only those of the augmentations that a recipe has count."""

    source: str = "the standard strengths of SimCLR and BYOL"
    crop_scale: tuple[float, float] = (0.08, 1.0)  # share of the area
    crop_ratio: tuple[float, float] = (3 / 4, 4 / 3)  # width over height
    interpolation: Literal["bilinear", "bicubic"] = "bicubic"  # of the resize after the crop
    flip_probability: float = 0.5
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.2, 0.1)  # brightness, contrast, saturation, hue
    jitter_probability: float = 0.8
    gray_probability: float = 0.2
    blur_probability: tuple[float, ...] = (0.5,)  # views take them in turn
    blur_sigma_px: tuple[float, float] = (0.1, 2.0)  # standard deviation, in pixels of the view
    solarize_probability: tuple[float, ...] = (0.2,)  # views take them in turn
    solarize_threshold: int = 128  # of 255; what is brighter is inverted
    rotation_degrees: float = 2.0  # to either side
    policy_magnitude: float = 9.0  # of RandAugment, whose scale ends at 10
    policy_probability: float = 1.0  # of a view
    photometric_probability: float = 0.66
    erasing_probability: float = 0.25
    masking: Masking = Masking()
    resizes_first: bool = False  # whether crops are taken of what the encoder's own resize and centre crop leave


_SIMCLR = Strengths(source="SimCLR, arXiv:2002.05709, Appendix A", jitter=(0.8, 0.8, 0.8, 0.2))
_ASYMMETRIC = Strengths(source=_BYOL, blur_probability=(1.0, 0.1), solarize_probability=(0.0, 0.2))
_MOCO2 = Strengths(
    source="MoCo v2, arXiv:2003.04297", crop_scale=(0.2, 1.0), interpolation="bilinear", jitter=(0.4, 0.4, 0.4, 0.1)
)
_NPID = replace(
    _MOCO2, source="instance discrimination, arXiv:1805.01978", jitter=(0.4,) * 4, jitter_probability=1.0
)  # fmt: skip
_SWAV = replace(_SIMCLR, source="SwAV, arXiv:2006.09882, and its code", interpolation="bilinear")
_DEEPCLUSTER = Strengths(
    source="the configurations of MMSelfSup", interpolation="bilinear", jitter=(0.4, 0.4, 1.0, 0.5),
    jitter_probability=1.0,
)  # fmt: skip
_VICREG = Strengths(source="VICReg, arXiv:2105.04906, Appendix C.1", solarize_probability=(0.1,))
_DINO = replace(_ASYMMETRIC, source="DINO, arXiv:2104.14294, and its released runs", crop_scale=(0.25, 1.0))
_BLOCKS = Masking(kind="blocks", share=0.3, probability=0.5)
_CLIP = Strengths(source="the code of OpenCLIP", crop_scale=(0.9, 1.0))

BY_OBJECTIVE = {
    "simclr": _SIMCLR,
    "byol": _ASYMMETRIC,
    "barlow_twins": replace(_ASYMMETRIC, source="Barlow Twins, arXiv:2103.03230, section 2.2, as BYOL"),
    "vicreg": _VICREG,
    "vicregl": _VICREG,
    "moco": _MOCO2,
    "densecl": replace(_MOCO2, source="DenseCL, arXiv:2011.09157, as MoCo v2"),
    "simsiam": replace(_MOCO2, source="SimSiam, arXiv:2011.10566, section 3, as MoCo v2"),
    "npid": _NPID,
    "swav": _SWAV,
    "sela": replace(_SWAV, source="SeLa-v2 in SwAV, arXiv:2006.09882"),
    "deepcluster": replace(_SWAV, source="DeepCluster-v2 in SwAV, arXiv:2006.09882"),
    "dissl": replace(_SWAV, source="DISSL, arXiv:2209.06235, as SwAV"),
    "odc": _DEEPCLUSTER,
    "dino": _DINO,
    "ibot": replace(
        _DINO, source="iBOT, arXiv:2111.07832, and its code", masking=_BLOCKS
    ),
    "mugs": replace(
        _DINO, source="Mugs, arXiv:2203.14415, and its code; masking as iBOT",
        policy_probability=0.5, erasing_probability=0.125, masking=_BLOCKS,
    ),
    "msn": Strengths(
        source="MSN, arXiv:2204.07141, and its configuration for a ViT-S/16", crop_scale=(0.3, 1.0),
        interpolation="bilinear", jitter=(0.4, 0.4, 0.4, 0.1), masking=Masking(share=0.15),
    ),
    "mae": Strengths(source="MAE, arXiv:2111.06377, Table 8", crop_scale=(0.2, 1.0), masking=Masking(share=0.75)),
    "beit": Strengths(
        source="BEiT, arXiv:2106.08254, Appendix", jitter=(0.4, 0.4, 0.4, 0.0), jitter_probability=1.0,
        masking=Masking(kind="blocks", share=0.4),
    ),
    "data2vec": Strengths(
        source="data2vec, arXiv:2202.03555, section 4.1", jitter=(0.4, 0.4, 0.4, 0.0), jitter_probability=1.0,
        masking=Masking(kind="blocks", share=0.6),
    ),
    "ijepa": Strengths(
        source="I-JEPA, arXiv:2301.08243, Appendix A", crop_scale=(0.3, 1.0), interpolation="bilinear",
        masking=Masking(kind="context"),
    ),
    "pirl": Strengths(  # what it calls photometric solarises among other things
        source="PIRL in VISSL", interpolation="bilinear", jitter=(0.4, 0.4, 0.4, 0.2), jitter_probability=1.0,
        solarize_probability=(0.0,),
    ),
    "clip": _CLIP,
    "clip+eb": _CLIP,
}  # fmt: skip
"""By ``card.objective.name``; versions and families that differ are told apart in :func:`strengths_for`."""

_LARGE_BESIDE_SMALL = ("swav", "sela", "deepcluster", "dissl")  # whose large crops are larger beside small ones
_POCKET = Strengths(
    source="benchmarks/train_pocket_views.py", interpolation="bilinear", jitter=(0.5,) * 4, jitter_probability=1.0,
    gray_probability=0.3, blur_probability=(0.3,), blur_sigma_px=(1.0, 1.0), masking=Masking(share=0.6),
    resizes_first=True,
)  # fmt: skip
_POCKET_SMALLEST_CROP = {"shapes": 0.4, "digits": 0.5}
_PYCONTRAST = replace(
    _SIMCLR, source="InfoMin, arXiv:2005.10243, and its code PyContrast", crop_scale=(0.2, 1.0), policy_magnitude=10.0
)


def strengths_for(card: EncoderCard) -> Strengths:
    """The strengths with which an encoder's augmentations were made, as far as they are known.

    >>> from zoo.cards import catalogue
    >>> strengths_for(catalogue()["simclr_rn50"]).jitter
    (0.8, 0.8, 0.8, 0.2)
    """
    name, version = card.objective.name, card.objective.version
    if name is NOT_PUBLISHED:  # a registered encoder has the family of the one that it was made like, not its training
        return Strengths()
    if card.family == "pocket":
        smallest = _POCKET_SMALLEST_CROP.get(str(card.pretraining.dataset), 0.4)
        return replace(_POCKET, crop_scale=(smallest, 1.0))
    if card.family == "infomin":
        return _PYCONTRAST
    if name == "moco" and version == 1:
        return replace(_NPID, source="MoCo, arXiv:1911.05722, section 3.3")
    if name == "moco" and version == 3:
        return replace(_ASYMMETRIC, source="MoCo v3, arXiv:2104.02057, as BYOL")
    if name == "deepcluster" and version == 1:
        return _DEEPCLUSTER
    if name == "dino" and card.architecture.family == "resnet":
        return replace(_DINO, crop_scale=(0.14, 1.0))
    found = BY_OBJECTIVE.get(str(name), Strengths())
    if name in _LARGE_BESIDE_SMALL and "+" in str(card.pretraining.views):
        return replace(found, crop_scale=(0.14, 1.0))
    return found
