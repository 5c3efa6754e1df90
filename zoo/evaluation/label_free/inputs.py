"""What label-free metrics are computed from: features of images, of their views and of their turns, featurised once.

Features lie in the folders where every evaluation keeps them, so that a later run finds them, one that was killed goes
on where it was, and metrics that need the same images share them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...cards import catalogue
from ...datasets import ImageData
from ...datasets.augmentations import Recipe, recipe_of
from ...datasets.imagefiles import notes_on
from ...datasets.views import ANGLES, drawn_images
from ...errors import QueryError, UnknownName
from ...features import Progress
from ...labelfree import NEEDS
from ...metadata import EncoderCard
from ...optional import requires_extra
from ..featurising import PARTS, Featurising, evaluations_folder
from ..rows import chosen_rows
from .pixels import pixels_of_images
from .protocol import SAMPLES
from .samples import N_IMAGES, Featuriser, Load, Sample, Sizes

with requires_extra("models", needed_for="A label-free metric"):
    import numpy as np

N_PIXELS: int = SAMPLES["n_pixels"]
"""Images whose pixels are held in memory at most: 0.5 GB at 64 px."""

_NEEDED = {  # sets of features that a need is made of
    "features": ("part",),
    "views": ("views",),
    "rotations": ("rotations of train", "rotations of val"),
    "labelled": PARTS,
    "source and target": ("train", "target"),
    "pixels": PARTS,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inputs:
    """Everything that metrics of one encoder on one data set take, need by need."""

    card: EncoderCard
    dataset: str
    part: str  # whose features and views
    sizes: Sizes
    recipe: Recipe | None  # of the views, if any were asked for
    samples: Mapping[str, Sample]
    refused: Mapping[str, str]  # why a need cannot be met, in a sentence
    notes: tuple[str, ...]  # what a user should know: caps, augmentations that are left out
    data_hash: Mapping[str, str]  # fingerprints of both parts of the data set

    def samples_for(self, need: str) -> dict[str, Sample]:
        """The samples that a need is made of, by their names.

        Raises
        ------
        QueryError
            If the need cannot be met, or was not asked for; says why.
        """
        if need in self.refused:
            raise QueryError(self.refused[need])
        names = [self.part if name == "part" else name for name in _NEEDED[need]]
        if not set(names) <= self.samples.keys():
            raise QueryError(f"Nothing was featurised for {need!r}; name it among the needs of these inputs.")
        return {name: self.samples[name] for name in names}

    def arguments(self, need: str) -> dict[str, Any]:
        """The arrays that a metric of this need takes, by the names in :data:`zoo.labelfree.NEEDS`.

        Views and turns come as arrays in memory, everything else stays on the disk until it is read.

        Raises
        ------
        QueryError
            As :meth:`samples_for`.
        """
        samples = list(self.samples_for(need).values())
        first, last = samples[0], samples[-1]
        if need == "features":
            return {"z": first.z}
        if need == "views":
            return {"z": _grouped(first, self.sizes.q)}
        if need == "rotations":
            return {"z": _grouped(first, len(ANGLES)), "z_val": _grouped(last, len(ANGLES))}
        if need == "source and target":
            return {"z": first.z, "y": first.y, "z_target": last.z}
        if need == "pixels":
            shown = [_pixel_pairs(sample, self.card, self.sizes.seed) for sample in samples]
            return dict(zip(("images", "z", "images_val", "z_val"), [*shown[0], *shown[1]], strict=True))
        return {"z": first.z, "y": first.y, "z_val": last.z, "y_val": last.y}


def inputs_of(
    name: str,
    data: ImageData,
    needs: Collection[str],
    *,
    target: ImageData | None = None,
    part: str = "train",
    n_images: int = N_IMAGES,
    n: int | None = None,
    q: int | None = None,
    seed: int = 0,
    recipe: str | Recipe | None = None,
    root: Path | None = None,
    how: Featurising | None = None,
    load: Load | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> Inputs:
    """Featurises what label-free metrics need, each set of images once.

    Parameters
    ----------
    name : str
        Id of an encoder of the zoo, with its representation if it is not that of the card.
    data : ImageData
    needs : collection of str
        Keys of :data:`zoo.labelfree.NEEDS`.
    target : ImageData, optional
        The data set to transfer to, for "source and target".
    part : {"train", "val"}
        Whose images "features" and "views" are of.
    n_images : int
        Images of each part at most, drawn by seed.
    n, q : int, optional
        Images with views, and views of each; by default 1,000 with 50 up to 1,024 dimensions, and 5,000 with 10 above,
        or as many images as there are. Of the turned images there are n, too.
    seed : int
        Of all draws of images and of views.
    recipe : str or Recipe, optional
        Of the views; by default the training augmentations that the card tells.
    root : Path, optional
        Folder of all evaluations.
    how : Featurising, optional
    load : callable, optional
        From the id to encoder and preprocessing; :func:`zoo.load` by default. Views are normalised as the card says.
    progress : callable, optional
        From the name of a set to what is told of its progress.

    Raises
    ------
    UnknownName
        If there is no such encoder, need, part or augmentation.
    QueryError
        If a number makes no sense.
    CorruptImage, DataError, MissingExtra and what :func:`zoo.load` raises
        As :func:`zoo.evaluation.featurising.featurise_data`.
    """
    card = catalogue()[name]
    for need in needs:
        if need not in NEEDS:
            raise UnknownName("need of a label-free metric", need, NEEDS)
    if part not in PARTS:
        raise UnknownName("part of a data set", part, PARTS)
    for what, number, least in (("n_images", n_images, 1), ("n", n, 2), ("q", q, 2)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < least):
            raise QueryError(f"{what} is {number!r}; expected a whole number of at least {least}.")
    usual = Sizes.usual(card.representation.dim, seed=seed)
    sizes = Sizes(n_images=n_images, n=n or usual.n, q=q or usual.q, seed=seed)
    refused: dict[str, str] = {}
    notes: list[str] = []
    chosen = None
    notes += notes_on([data.train, data.val] + ([] if target is None else [target.train]))
    if "views" in needs:
        try:
            chosen = recipe if isinstance(recipe, Recipe) else recipe_of(card, recipe=recipe)
            notes += chosen.notes
        except QueryError as error:
            refused["views"] = str(error)
    if "source and target" in needs and target is None:
        refused["source and target"] = (
            f"No data set to transfer to was named beside {data.name!r}; name one, with --target or target=."
        )
    wanted = {part if label == "part" else label for need in set(needs) - refused.keys() for label in _NEEDED[need]}
    samples: dict[str, Sample] = {}
    if wanted:
        featuriser = Featuriser(
            card, root=root or evaluations_folder(), how=how or Featurising(), load=load, progress=progress, sizes=sizes
        )
        parts = {"train": data.train, "val": data.val, "target": None if target is None else target.train}
        for label, images in parts.items():
            if images is not None and label in wanted:
                samples[label] = featuriser.of_images(label, images)
            if images is not None and f"rotations of {label}" in wanted:
                samples[f"rotations of {label}"] = featuriser.of_turns(f"rotations of {label}", images)
        if chosen is not None and "views" in wanted:
            samples["views"] = featuriser.of_views("views", data.train if part == "train" else data.val, chosen)
        notes += featuriser.notes
    return Inputs(
        card=card,
        dataset=data.name,
        part=part,
        sizes=sizes,
        recipe=chosen,
        samples=samples,
        refused=refused,
        notes=tuple(dict.fromkeys(notes)),
        data_hash={"train": data.train.fingerprint, "val": data.val.fingerprint},
    )


def _grouped(sample: Sample, n_each: int) -> np.ndarray:
    """Features of the views of each image together, float32 (n_images, n_each, dim)."""
    z = np.asarray(sample.z)  # views of an unreadable image are all missing, so that the others stay together
    return z.reshape(-1, n_each, z.shape[1])


def _pixel_pairs(sample: Sample, card: EncoderCard, seed: int) -> tuple[np.ndarray, Any]:
    """Images as numbers, float32 (n, 3, px, px), and their features."""
    chosen = drawn_images(sample.images, min(N_PIXELS, len(sample.images)), seed=seed)
    images = sample.images.subset(chosen, split=sample.images.split)
    return pixels_of_images(images, card.preprocess), chosen_rows(sample.z, chosen)
