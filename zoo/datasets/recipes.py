"""The recipe of an encoder's augmented views: its card's augmentations, with the strengths published of its method.

Cards only name augmentations. Most methods share one family of them and differ in few numbers. ``SimCLR``
(arXiv:2002.05709, Appendix A) introduced it; ``BYOL`` (arXiv:2006.07733, Appendix B) made colours weaker and the two
views unlike: every first view is blurred and no first view solarised, one second view in ten is blurred and one in five
solarised. A tuple of two probabilities says that: views take its items in turn. A method of which nothing is known gets
the defaults of :class:`AugmentationStrengths`.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from typing import Literal

from ..cards.schema import NOT_APPLICABLE, NOT_PUBLISHED, NOT_RECORDED, EncoderCard
from ..errors import QueryError, UnknownName

_BYOL = "BYOL, arXiv:2006.07733, Appendix B"


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchMasking:
    """Which patches are hidden.

    "random" ones; those in "blocks", rectangles until the share is hidden (BEiT); or all but a "context" as in I-JEPA:
    a large block without four smaller ones, the targets, so that the share follows from their sizes.
    """

    kind: Literal["random", "blocks", "context"] = "random"
    share: float = 0.75  # of the patches
    probability: float = 1.0  # of a view


@dataclass(frozen=True, slots=True, kw_only=True)
class AugmentationStrengths:
    """Parameters of augmentations; only those of the augmentations in a recipe matter."""

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
    solarize_threshold: int = 128  # of 255; brighter pixels are inverted
    rotation_degrees: float = 2.0  # to either side
    policy_magnitude: float = 9.0  # of RandAugment, whose scale ends at 10
    policy_probability: float = 1.0  # of a view
    photometric_probability: float = 0.66
    erasing_probability: float = 0.25
    masking: PatchMasking = PatchMasking()
    resizes_first: bool = False  # crops are taken after the resize and centre crop of the encoder's preprocessing


_SIMCLR = AugmentationStrengths(source="SimCLR, arXiv:2002.05709, Appendix A", jitter=(0.8, 0.8, 0.8, 0.2))
_ASYMMETRIC = AugmentationStrengths(source=_BYOL, blur_probability=(1.0, 0.1), solarize_probability=(0.0, 0.2))
_MOCO2 = AugmentationStrengths(
    source="MoCo v2, arXiv:2003.04297", crop_scale=(0.2, 1.0), interpolation="bilinear", jitter=(0.4, 0.4, 0.4, 0.1)
)
_NPID = replace(_MOCO2, source="instance discrimination, arXiv:1805.01978", jitter=(0.4,) * 4, jitter_probability=1.0)
_SWAV = replace(_SIMCLR, source="SwAV, arXiv:2006.09882, and its code", interpolation="bilinear")
_DEEPCLUSTER = AugmentationStrengths(
    source="the configurations of MMSelfSup",
    interpolation="bilinear",
    jitter=(0.4, 0.4, 1.0, 0.5),
    jitter_probability=1.0,
)
_VICREG = AugmentationStrengths(source="VICReg, arXiv:2105.04906, Appendix C.1", solarize_probability=(0.1,))
_DINO = replace(_ASYMMETRIC, source="DINO, arXiv:2104.14294, and its released runs", crop_scale=(0.25, 1.0))
_BLOCKS = PatchMasking(kind="blocks", share=0.3, probability=0.5)
_CLIP = AugmentationStrengths(source="the code of OpenCLIP", crop_scale=(0.9, 1.0))

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
    "ibot": replace(_DINO, source="iBOT, arXiv:2111.07832, and its code", masking=_BLOCKS),
    "mugs": replace(
        _DINO, source="Mugs, arXiv:2203.14415, and its code; masking as iBOT",
        policy_probability=0.5, erasing_probability=0.125, masking=_BLOCKS,
    ),
    "msn": AugmentationStrengths(
        source="MSN, arXiv:2204.07141, and its configuration for a ViT-S/16", crop_scale=(0.3, 1.0),
        interpolation="bilinear", jitter=(0.4, 0.4, 0.4, 0.1), masking=PatchMasking(share=0.15),
    ),
    "mae": AugmentationStrengths(
        source="MAE, arXiv:2111.06377, Table 8", crop_scale=(0.2, 1.0), masking=PatchMasking(share=0.75)
    ),
    "beit": AugmentationStrengths(
        source="BEiT, arXiv:2106.08254, Appendix", jitter=(0.4, 0.4, 0.4, 0.0), jitter_probability=1.0,
        masking=PatchMasking(kind="blocks", share=0.4),
    ),
    "data2vec": AugmentationStrengths(
        source="data2vec, arXiv:2202.03555, section 4.1", jitter=(0.4, 0.4, 0.4, 0.0), jitter_probability=1.0,
        masking=PatchMasking(kind="blocks", share=0.6),
    ),
    "ijepa": AugmentationStrengths(
        source="I-JEPA, arXiv:2301.08243, Appendix A", crop_scale=(0.3, 1.0), interpolation="bilinear",
        masking=PatchMasking(kind="context"),
    ),
    "pirl": AugmentationStrengths(  # what it calls photometric solarises among other things
        source="PIRL in VISSL", interpolation="bilinear", jitter=(0.4, 0.4, 0.4, 0.2), jitter_probability=1.0,
        solarize_probability=(0.0,),
    ),
    "clip": _CLIP,
    "clip+eb": _CLIP,
}  # fmt: skip
"""By ``card.objective.name``; :func:`get_strengths` has the versions and families that differ."""

_LARGE_BESIDE_SMALL = ("swav", "sela", "deepcluster", "dissl")  # whose large crops are larger next to small ones
_POCKET = AugmentationStrengths(
    source="scripts/train_pocket_views.py",
    interpolation="bilinear",
    jitter=(0.5,) * 4,
    jitter_probability=1.0,
    gray_probability=0.3,
    blur_probability=(0.3,),
    blur_sigma_px=(1.0, 1.0),
    masking=PatchMasking(share=0.6),
    resizes_first=True,
)
_POCKET_SMALLEST_CROP = {"shapes": 0.4, "digits": 0.5}
_PYCONTRAST = replace(
    _SIMCLR, source="InfoMin, arXiv:2005.10243, and its code PyContrast", crop_scale=(0.2, 1.0), policy_magnitude=10.0
)


def get_strengths(card: EncoderCard) -> AugmentationStrengths:
    """The strengths of an encoder's augmentations, as far as they are published.

    >>> from zoo.cards.catalogue import load_catalogue
    >>> get_strengths(load_catalogue()["simclr_rn50"]).jitter
    (0.8, 0.8, 0.8, 0.2)
    """
    name, version = card.objective.name, card.objective.version
    if name in (NOT_PUBLISHED, NOT_RECORDED):  # such as a registered one, whose family is that of its template
        return AugmentationStrengths()
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
    strengths = BY_OBJECTIVE.get(str(name), AugmentationStrengths())
    if name in _LARGE_BESIDE_SMALL and "+" in str(card.pretraining.views):
        return replace(strengths, crop_scale=(0.14, 1.0))
    return strengths


WORDS = {
    "crop": "a random part of the image, resized to the view",
    "flip": "mirrored left to right",
    "rotate": "turned by a few degrees",
    "autoaugment": "two operations of RandAugment",
    "color": "brightness, contrast, saturation and hue changed, in random order",
    "photometric": "posterised, sharpened or softened, solarised and stretched to full contrast, all at once",
    "gray": "without colour",
    "blur": "Gaussian blur",
    "solarize": "bright pixels inverted",
    "erasing": "a rectangle filled with the mean colour",
    "masking": "patches filled with the mean colour",
}
"""Augmentations that are implemented, in the order in which they are applied; a card uses these words."""

IGNORED = "normalize"  # in cards, but part of every encoder's preprocessing
_NOT_VIEWS = {"jigsaw": "it cuts an image into shuffled tiles, which are no view that the encoder takes"}
_VIEWS = re.compile(r"(?:\d+x)?(\d+)(?:\+(\S+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class AugmentationRecipe:
    """How views of an image are made.

    Views of another recipe, as :func:`dataclasses.replace` makes it, are other images, with another fingerprint.
    """

    encoder: str  # id
    augmentations: tuple[str, ...]  # of WORDS, in their order
    strengths: AugmentationStrengths
    size_px: int  # side of a view
    resize_px: int  # of the encoder's preprocessing, where there is no crop, or before it
    resize_interpolation: str  # likewise
    mean_colour: tuple[int, int, int]  # of 255: becomes 0 by the normalisation, to half a level
    patch_size_px: int  # of masking
    left_out: tuple[tuple[str, str], ...] = ()  # augmentations of the card that no view shows, and why
    is_of_card: bool = True  # the augmentations are the card's, not named by the user

    @property
    def fingerprint_text(self) -> str:
        """Everything that decides a pixel, and nothing else."""
        facts = asdict(self)
        for name in ("encoder", "left_out", "is_of_card"):
            del facts[name]
        del facts["strengths"]["source"]
        return json.dumps(facts, sort_keys=True)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for users on these views."""
        whose = "the card's" if self.is_of_card else "the named"
        notes = [
            f"Views of {self.encoder} at {self.size_px} px have {whose} augmentations {', '.join(self.augmentations)}, "
            f"with the strengths of {self.strengths.source}."
        ]
        notes += [f"Left out of the views is {what}: {why}." for what, why in self.left_out]
        if "autoaugment" in self.augmentations:
            notes.append("What the card calls autoaugment is RandAugment here, as in its authors' code.")
        if "masking" in self.augmentations:
            notes.append(
                f"Masked patches of {self.patch_size_px} px are filled with the mean colour, which normalisation turns "
                "into 0; in pretraining they were hidden from the encoder or replaced by a learnt token."
            )
        return tuple(notes)


def build_recipe(card: EncoderCard, *, recipe: str | None = None) -> AugmentationRecipe:
    """How the training images of an encoder were augmented.

    Augmentations, sizes of image and patch and the mean colour are the card's; ``recipe`` names other augmentations,
    with commas between them ("crop,flip,color"). Crops have their full size; what views cannot show, such as jigsaw or
    the small crops along with the large ones, is in ``left_out`` and ``notes``. A card without augmentations is
    refused.

    >>> from zoo.cards.catalogue import load_catalogue
    >>> build_recipe(load_catalogue()["mae_vitB16"]).augmentations
    ('crop', 'masking')
    >>> build_recipe(load_catalogue()["mae_vitB16"], recipe="color, crop").augmentations
    ('crop', 'color')
    """
    strengths = get_strengths(card)
    left_out: list[tuple[str, str]] = []
    if recipe is None:
        named = _of_card(card)
        left_out = _left_out(card, named)
    else:
        named = _of_text(recipe)
    without = {word for word, _ in left_out}
    made = tuple(word for word in WORDS if word in named and word not in without)
    if not made:
        raise QueryError(
            f"{_whose(card, recipe)} {', '.join(named) or 'no augmentation'}, none of which makes views that differ; "
            "expected some of its training augmentations: name them, as in recipe='crop,flip,color'."
        )
    about = card.preprocess
    size_px = _size_px(card)
    patch_px = card.architecture.patch_size_px
    return AugmentationRecipe(
        encoder=card.id,
        augmentations=made,
        strengths=strengths,
        size_px=size_px,
        resize_px=round(about.resize_px * size_px / about.crop_px),
        resize_interpolation=about.interpolation,
        mean_colour=tuple(min(255, max(0, round(255 * mean))) for mean in about.mean),  # type: ignore[arg-type]
        patch_size_px=patch_px if isinstance(patch_px, int) else max(1, size_px // 14),  # as of a ViT/16 at 224 px
        left_out=tuple(left_out),
        is_of_card=recipe is None,
    )


def _of_card(card: EncoderCard) -> tuple[str, ...]:
    named = card.pretraining.augmentations
    if isinstance(named, tuple):
        return named
    why = "was not trained" if named is NOT_APPLICABLE or card.is_untrained else "does not tell its augmentations"
    raise QueryError(
        f"The card of {card.id!r} {why}, so that there are no training augmentations to make views with; name some, by "
        "--augmentations crop,flip,color or recipe='crop,flip,color'."
    )


def _of_text(recipe: str) -> tuple[str, ...]:
    named = tuple(word.strip().casefold() for word in recipe.split(",") if word.strip())
    for word in named:
        if word not in WORDS and word != IGNORED:
            raise UnknownName("augmentation", word, WORDS, hint=f"Expected some of {', '.join(WORDS)}.")
    return named


def _left_out(card: EncoderCard, named: tuple[str, ...]) -> list[tuple[str, str]]:
    left_out = []
    for word in named:
        if word == "rotate" and card.objective.name == "rotnet":
            left_out.append((word, "it is what the encoder was trained to tell, not what it was to ignore"))
        elif word not in WORDS and word != IGNORED:
            left_out.append((word, _NOT_VIEWS.get(word, "nothing is known here of how to make it")))
    views = _VIEWS.fullmatch(str(card.pretraining.views))
    if views is not None and views[2] and "crop" in named:
        left_out.append((f"the small crops {views[2]}", "views have one size, that of the large crops"))
    return left_out


def _size_px(card: EncoderCard) -> int:
    """Side of the large views where the encoder takes images of any size, else the side of its input."""
    views = _VIEWS.fullmatch(str(card.pretraining.views))
    takes_any = card.architecture.family != "vit" and card.representation.layer == "avgpool"
    return int(views[1]) if views is not None and takes_any else card.preprocess.crop_px


def _whose(card: EncoderCard, recipe: str | None) -> str:
    return f"The card of {card.id!r} names" if recipe is None else f"The recipe {recipe!r} for {card.id!r} names"
