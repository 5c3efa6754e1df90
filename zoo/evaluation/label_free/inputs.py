"""What label-free metrics are computed from: features of images, of their views and of their turns, featurised once.

Features lie in the folders where every evaluation keeps them, so that a later run finds them, one that was killed goes
on where it was, and metrics that need the same images share them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...cards.catalogue import catalogue
from ...cards.schema import EncoderCard
from ...datasets import ImageData, ImageSet
from ...datasets.imagefiles import notes_on
from ...datasets.recipes import Recipe, recipe_of
from ...datasets.views import ANGLES, drawn_images, rotations_of, view_preprocess, views_of
from ...errors import DataError, QueryError, UnknownName
from ...features import Features, load_features
from ...features import featurise as compute_features
from ...features.store import INDEX
from ...optional import requires_extra
from ...progress import Progress
from ...results.vocabulary import NEEDS, LabelFreeMetric
from ..arrays import chosen_rows
from ..evaluating import PARTS, Featurising, evaluations_folder, features_folder
from .catalogue import SAMPLES
from .mine import pixels_of_images

with requires_extra("models", needed_for="A label-free metric"):
    import numpy as np

N_IMAGES: int = SAMPLES["n_images"]
"""Images whose features are taken at most."""

OF_SHORT_FEATURES, OF_LONG_FEATURES = SAMPLES["n_and_q_up_to_1024_dimensions"], SAMPLES["n_and_q_above"]
LONGEST_SHORT_DIM = 1_024

Load = Callable[[str], tuple[Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """Features of some images of a set."""

    features: Features  # of these images, or of more
    images: ImageSet  # one image a row of z, or a view
    z: Any  # float32 (n, dim): an array, or rows that stay on the disk
    y: np.ndarray  # int64 (n,)
    seconds: float  # that featurising took in this run; nearly none where features were found


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much was asked for; what there is may be less."""

    n_images: int
    n: int  # images with views
    q: int  # views of each
    seed: int

    @classmethod
    def usual(cls, dim: int, *, seed: int) -> Sizes:
        """What is asked for where nobody says otherwise, for features of so many dimensions.

        >>> Sizes.usual(2048, seed=0)
        Sizes(n_images=25600, n=5000, q=10, seed=0)
        """
        n, q = OF_SHORT_FEATURES if dim <= LONGEST_SHORT_DIM else OF_LONG_FEATURES
        return cls(n_images=N_IMAGES, n=n, q=q, seed=seed)


class Featuriser:
    """One encoder, loaded once, with where its features go."""

    def __init__(
        self,
        card: EncoderCard,
        *,
        root: Path,
        how: Featurising,
        load: Load | None,
        progress: Callable[[str], Progress] | None,
        sizes: Sizes,
    ) -> None:
        from ...loading import load as load_encoder

        self.card, self.root, self.how, self.progress, self.sizes = card, root, how, progress, sizes
        self.notes: list[str] = []  # what there was less of than asked for
        found: tuple[Any, Any] = (load or load_encoder)(card.id)
        self.encoder, self.preprocess = found

    def of_images(self, label: str, images: ImageSet) -> Sample:
        """Features of images as they are, of at most so many of them."""
        chosen = drawn_images(images, self._capped(images, self.sizes.n_images), seed=self.sizes.seed)
        subset = images.subset(chosen, split=images.split)
        if len(chosen) == len(images) or (self._folder(images) / INDEX).exists():
            return self._sample(label, images, subset, chosen)  # those of all images lie there, or may lie there
        drawn = images.subset(chosen, split=f"{images.split} {len(chosen)} drawn")
        return self._sample(label, drawn, subset, np.arange(len(chosen)))

    def of_turns(self, label: str, images: ImageSet) -> Sample:
        """Features of turned images."""
        turned = rotations_of(images, n=self._capped(images, self.sizes.n), seed=self.sizes.seed)
        return self._sample(label, turned, turned, np.arange(len(turned)))

    def of_views(self, label: str, images: ImageSet, recipe: Recipe) -> Sample:
        """Features of augmented views."""
        n, q, seed = self._capped(images, self.sizes.n), self.sizes.q, self.sizes.seed
        views = views_of(images, recipe, n=n, q=q, seed=seed)
        return self._sample(label, views, views, np.arange(len(views)), preprocess=view_preprocess(self.card))

    def _capped(self, images: ImageSet, n: int) -> int:
        if len(images) < n != N_IMAGES:
            self.notes.append(
                f"{n:,} images of {images.name} ({images.split}) were to be taken, and it has {len(images):,}: all are."
            )
        return min(n, len(images))

    def _folder(self, images: ImageSet) -> Path:
        return features_folder(self.root, self.card.id, images, precision=self.how.precision)

    def _sample(
        self, label: str, featurised: ImageSet, images: ImageSet, chosen: np.ndarray, *, preprocess: Any = None
    ) -> Sample:
        begun_s = time.perf_counter()
        features = compute_features(
            self.encoder,
            preprocess or self.preprocess,
            featurised,
            name=self.card.id,
            folder=self._folder(featurised),
            batch_size=self.how.batch_size,
            n_workers=self.how.n_workers,
            device=self.how.device,
            precision=self.how.precision,
            representation=self.card.id.partition("@")[2] or "card",
            skip_corrupt=self.how.skip_corrupt,
            progress=None if self.progress is None else self.progress(label),
        )
        seconds = time.perf_counter() - begun_s
        lost = [image.position for image in features.skipped]
        kept = np.setdiff1d(np.arange(len(featurised)), np.array(lost, np.int64))  # positions of the rows
        rows = np.flatnonzero(np.isin(kept, chosen))
        if lost:
            self.notes.append(f"{len(lost):,} images of {featurised.name} ({featurised.split}) could not be read.")
            readable = np.flatnonzero(np.isin(chosen, kept))
            images = images.subset(readable, split=images.split)
        return Sample(
            features=features, images=images, z=chosen_rows(features.x, rows), y=features.y[rows], seconds=seconds
        )


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
        """The arrays that a metric of this need takes, by the names in :data:`zoo.results.vocabulary.NEEDS`.

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
        Keys of :data:`zoo.results.vocabulary.NEEDS`.
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
        As :func:`zoo.evaluation.evaluating.featurise_data`.
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


ARGUMENTS = {
    "features": ("z",),
    "views": ("z",),
    "rotations": ("z", "z_val"),
    "labelled": ("z", "y", "z_val", "y_val"),
    "source and target": ("z", "y", "z_target"),
    "pixels": ("images", "z", "images_val", "z_val"),
}
"""The arrays that each need takes, by the names of an npz file."""
_VIEWS = "augmented"  # how the splits of views end


def arrays_of(path: Path, *, beside: Path | None = None) -> dict[str, Any]:
    """The arrays of a folder of features, an npy file or an npz file, by the names in :data:`ARGUMENTS`.

    Parameters
    ----------
    path : Path
        A folder that ``zoo features`` or ``zoo metric`` wrote: z stays on the disk, and is that of views, with ``ids``,
        where the folder is one of views. An npy file holds z, (n, dim) or (n_images, n_views, dim). An npz file holds
        the arrays under their names, and may hold ``ids``.
    beside : Path, optional
        A folder or npy file with the features of validation images: z_val, and y_val.

    Raises
    ------
    DataError
        If a file cannot be read, or holds no z.
    """
    found = _read(path)
    if beside is not None:
        other = _read(beside)
        found |= {f"{name}_val": other[name] for name in ("z", "y") if name in other}
    return found


def arguments_for(one: LabelFreeMetric, arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays that a metric takes.

    Raises
    ------
    QueryError
        If they are not all there; says which are missing.
    """
    wanted = ARGUMENTS[one.needs]
    missing = [name for name in wanted if name not in arrays]
    if missing:
        raise QueryError(
            f"{one.title} needs {', '.join(wanted)}, and the file holds {', '.join(arrays)}: {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing; pass an npz file with all of them, or an encoder and "
            "images."
        )
    views = arrays.get("ids") is not None or np.ndim(arrays["z"]) == 3
    if one.needs == "views":
        if not views:
            raise QueryError(
                f"{one.title} needs several views of each image, and the file holds one row an image; pass z of shape "
                "(n_images, n_views, dim), ids beside it, or an encoder and images."
            )
        return {"z": arrays["z"]} if arrays.get("ids") is None else {"z": arrays["z"], "ids": arrays["ids"]}
    if one.needs == "features" and np.ndim(arrays["z"]) == 3:
        raise QueryError(
            f"{one.title} needs one row an image, and it holds views of shape {tuple(arrays['z'].shape)}; reshape "
            "them to (n, dim) if that is what is meant."
        )
    return {name: arrays[name] for name in wanted}


def _read(path: Path) -> dict[str, Any]:
    if path.is_dir():
        features = load_features(path)
        if features.origin.split.endswith(_VIEWS):
            return {"z": features.x, "ids": features.y}
        return {"z": features.x, "y": features.y}
    try:
        found = np.load(path, allow_pickle=False, mmap_mode="r" if path.suffix == ".npy" else None)
        arrays = {"z": found} if isinstance(found, np.ndarray) else {name: found[name] for name in found.files}
    except FileNotFoundError as error:
        raise DataError(
            f"There is no {path}; expected a folder of features, an .npy or an .npz file, or the id of an encoder "
            "followed by images."
        ) from error
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} cannot be read as features ({error}); expected a folder of features, an .npy or an .npz file."
        ) from error
    if "z" not in arrays:
        raise DataError(f"{path} holds {', '.join(arrays) or 'nothing'}, expected features under the name z.")
    return arrays
