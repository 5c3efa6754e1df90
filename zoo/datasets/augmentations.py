"""What an encoder's training did to an image, read from its card: the recipe of its augmented views."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass

from ..errors import QueryError, UnknownName
from ..metadata import NOT_APPLICABLE, EncoderCard
from .strengths import Masking, Strengths, strengths_for

__all__ = ["WORDS", "Masking", "Recipe", "Strengths", "recipe_of"]

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
"""Augmentations that can be made here, in the order in which they are applied; a card uses these words."""

IGNORED = "normalize"
"""What a card names with its augmentations and every encoder's preprocessing does."""

UNLIKE = {"jigsaw": "it cuts an image into shuffled tiles, which are no view that the encoder takes"}
"""Words of cards that no view can show, and why."""

_VIEWS = re.compile(r"(?:\d+x)?(\d+)(?:\+(\S+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How views of an image are made.

    Change a strength with :func:`dataclasses.replace`; views of another recipe are other images, with another
    fingerprint.
    """

    encoder: str  # id
    augmentations: tuple[str, ...]  # of WORDS, in their order
    strengths: Strengths
    size_px: int  # side of a view
    resize_px: int  # of the encoder's preprocessing, where there is no crop, or before it
    resize_interpolation: str  # likewise
    mean_colour: tuple[int, int, int]  # of 255: what normalisation turns into 0, to half a level
    patch_size_px: int  # of masking
    left_out: tuple[tuple[str, str], ...] = ()  # what the card names and no view shows, and why
    is_own: bool = True  # as the card has it, not as a user named it

    @property
    def fingerprint_text(self) -> str:
        """Everything that decides a pixel, and nothing else."""
        facts = asdict(self)
        for name in ("encoder", "left_out", "is_own"):
            del facts[name]
        del facts["strengths"]["source"]
        return json.dumps(facts, sort_keys=True)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of these views, a sentence each."""
        whose = "the card's" if self.is_own else "the named"
        found = [
            f"Views of {self.encoder} at {self.size_px} px have {whose} augmentations {', '.join(self.augmentations)}, "
            f"with the strengths of {self.strengths.source}."
        ]
        found += [f"Left out of the views is {what}: {why}." for what, why in self.left_out]
        if "autoaugment" in self.augmentations:
            found.append("What the card calls autoaugment is RandAugment here, as in its authors' code.")
        if "masking" in self.augmentations:
            found.append(
                f"Masked patches of {self.patch_size_px} px are filled with the mean colour, which normalisation turns "
                "into 0; in pretraining they were hidden from the encoder or replaced by a learnt token."
            )
        return tuple(found)


def recipe_of(card: EncoderCard, *, recipe: str | None = None) -> Recipe:
    """How the training images of an encoder were augmented.

    Parameters
    ----------
    card : EncoderCard
        Which augmentations, the sizes of image and patch and the mean colour are the card's; strengths are those that
        are published of its method, see :mod:`zoo.datasets.strengths`.
    recipe : str, optional
        Names of augmentations with commas between them, instead of those of the card: "crop,flip,color".

    Returns
    -------
    Recipe
        Of crops at full size; what cannot be shown, such as jigsaw or the small crops beside the large ones, is in its
        ``left_out`` and ``notes``.

    Raises
    ------
    QueryError
        If the card does not tell, there was no training, or it was without any augmentation that can be made here.
    UnknownName
        If an augmentation of ``recipe`` is not known.

    Examples
    --------
    >>> from zoo.cards import catalogue
    >>> recipe_of(catalogue()["mae_vitB16"]).augmentations
    ('crop', 'masking')
    >>> recipe_of(catalogue()["mae_vitB16"], recipe="color, crop").augmentations
    ('crop', 'color')
    """
    strengths = strengths_for(card)
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
    return Recipe(
        encoder=card.id,
        augmentations=made,
        strengths=strengths,
        size_px=size_px,
        resize_px=round(about.resize_px * size_px / about.crop_px),
        resize_interpolation=about.interpolation,
        mean_colour=tuple(min(255, max(0, round(255 * mean))) for mean in about.mean),  # type: ignore[arg-type]
        patch_size_px=patch_px if isinstance(patch_px, int) else max(1, size_px // 14),  # as of a ViT/16 at 224 px
        left_out=tuple(left_out),
        is_own=recipe is None,
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
    found = []
    for word in named:
        if word == "rotate" and card.objective.name == "rotnet":
            found.append((word, "it is what the encoder was trained to tell, not what it was to ignore"))
        elif word not in WORDS and word != IGNORED:
            found.append((word, UNLIKE.get(word, "nothing is known here of how to make it")))
    views = _VIEWS.fullmatch(str(card.pretraining.views))
    if views is not None and views[2] and "crop" in named:
        found.append((f"the small crops {views[2]}", "views have one size, that of the large crops"))
    return found


def _size_px(card: EncoderCard) -> int:
    """Side of the large views, where the encoder takes images of any size; else the only one that it takes."""
    views = _VIEWS.fullmatch(str(card.pretraining.views))
    takes_any = card.architecture.family != "vit" and card.representation.layer == "avgpool"
    return int(views[1]) if views is not None and takes_any else card.preprocess.crop_px


def _whose(card: EncoderCard, recipe: str | None) -> str:
    return f"The card of {card.id!r} names" if recipe is None else f"The recipe {recipe!r} for {card.id!r} names"
