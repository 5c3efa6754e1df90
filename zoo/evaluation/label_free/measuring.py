"""Metrics of the features of one encoder on one data set: their arguments, values or refusals, and rows of results.

Features are stored in the folders of all evaluations, so that a later run reuses them, an interrupted one resumes, and
metrics that need the same images share them.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from ...cards.catalogue import load_catalogue
from ...cards.schema import EncoderCard, Preprocess
from ...datasets import ImageData, ImageSet
from ...datasets.image_files import ARRAY_ERRORS, format_reason, require_held
from ...datasets.notes import describe_decoding
from ...datasets.recipes import AugmentationRecipe, build_recipe
from ...datasets.rgb import ResizeStep, Steps
from ...datasets.subsets import draw_image_positions
from ...encoders.preprocess import build_geometry_steps
from ...errors import DataError, MissingExtra, QueryError, UnknownName
from ...features import Features, featurise, load_features
from ...features.origin import TORCH
from ...features.store import INDEX
from ...features.work_items import FeaturisingOptions
from ...files import get_evaluations_folder
from ...optional import require_extra
from ...progress import Progress
from ...results.rows import Measurement
from ...results.vocabulary import NEEDS, FeatureMetric, find_feature_metric
from ..arrays import select_rows
from ..evaluating import PARTS, SOURCE, get_features_folder, hash_features
from .arrays import require_number
from .catalogue import OPTIONS, PROTOCOLS, SAMPLES, compute
from .rank import compute_spectrum

with require_extra("models", needed_for="A metric of features"):
    import numpy as np

N_IMAGES: int = SAMPLES["n_images"]  # whose features are computed at most
N_PIXELS: int = SAMPLES["n_pixels"]  # images whose pixels are held in memory at most: 0.5 GB at 64 px
_LARGEST_PX = 64
_N_TURNS = 4  # of an image, by a quarter each
_VIEWS = "augmented"  # ending of the split of views

ARGUMENTS = {
    "features": ("z",),
    "views": ("z",),
    "rotations": ("z", "z_val"),
    "labelled": ("z", "y", "z_val", "y_val"),
    "labels": ("z", "y"),
    "source and target": ("z", "y", "z_target"),
    "pixels": ("images", "z", "images_val", "z_val"),
}
"""The arrays that each need takes, by the names in an npz file."""

_SAMPLES_OF = {  # samples that each need is made of
    "features": ("part",),
    "views": ("views",),
    "rotations": ("rotations of train", "rotations of val"),
    "labelled": PARTS,
    "labels": ("part",),
    "source and target": ("train", "target"),
    "pixels": PARTS,
}

Options = Mapping[str, Mapping[str, Any]]
Load = Callable[[str], tuple[Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureSample:
    """Features of some images of a set."""

    features: Features  # of these images, or of more
    images: ImageSet  # one image or view per row of z
    z: Any  # float32 (n, dim): an array, or rows on disk
    y: np.ndarray  # int64 (n,)
    together: np.ndarray | None  # uint64 (n,): which are copies or of one group; None where nothing is known
    seconds: float  # of computing features in this run; nearly none where they were stored


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSizes:
    """Sizes that were asked for; a data set may have fewer images."""

    n_images: int
    n: int  # images with views
    q: int  # views of each
    seed: int

    @classmethod
    def usual(cls, dim: int, *, seed: int) -> SampleSizes:
        """The default sizes for features of so many dimensions."""
        n, q = SAMPLES["n_and_q_up_to_1024_dimensions" if dim <= 1024 else "n_and_q_above"]
        return cls(n_images=N_IMAGES, n=n, q=q, seed=seed)


class Featuriser:
    """One encoder, loaded once, and where its features are stored."""

    def __init__(
        self,
        card: EncoderCard,
        *,
        root: Path,
        how: FeaturisingOptions,
        load: Load | None,
        progress: Callable[[str], Progress] | None,
        sizes: SampleSizes,
    ) -> None:
        from ...loading import load as load_encoder

        self.card, self.root, self.how, self.progress, self.sizes = card, root, how, progress, sizes
        self.notes: list[str] = []  # of samples that are smaller than asked for
        loaded: tuple[Any, Any] = (load or load_encoder)(card.id)
        self.encoder, self.preprocess = loaded

    def of_images(self, label: str, images: ImageSet) -> FeatureSample:
        """Features of images as they are, of at most ``n_images`` of them."""
        chosen = draw_image_positions(images, self._capped(images, self.sizes.n_images), seed=self.sizes.seed)
        subset = images.subset(chosen, split=images.split)
        if len(chosen) == len(images) or (self._folder(images) / INDEX).exists():
            return self._sample(label, images, subset, chosen)  # from the stored features of all images
        return self._sample(label, images.subset(chosen, split=f"{images.split} {len(chosen)} drawn"), subset)

    def of_turns(self, label: str, images: ImageSet) -> FeatureSample:
        """Features of turned images."""
        from ...datasets.views import make_rotations  # torchvision, as views need

        turned = make_rotations(images, n=self._capped(images, self.sizes.n), seed=self.sizes.seed)
        return self._sample(label, turned, turned)

    def of_views(self, label: str, images: ImageSet, recipe: AugmentationRecipe) -> FeatureSample:
        """Features of augmented views."""
        from ...datasets.views import build_view_preprocess, make_views  # torchvision

        n = self._capped(images, self.sizes.n)
        views = make_views(images, recipe, n=n, q=self.sizes.q, seed=self.sizes.seed)
        return self._sample(label, views, views, preprocess=build_view_preprocess(self.card))

    def _capped(self, images: ImageSet, n: int) -> int:
        if len(images) < n != N_IMAGES:
            self.notes.append(
                f"{n:,} images of {images.name} ({images.split}) were to be taken, and it has {len(images):,}: all are."
            )
        return min(n, len(images))

    def _folder(self, images: ImageSet) -> Path:
        return get_features_folder(self.root, self.card.id, images, precision=self.how.precision)

    def _sample(
        self,
        label: str,
        featurised: ImageSet,
        images: ImageSet,
        chosen: np.ndarray | None = None,
        *,
        preprocess: Any = None,
    ) -> FeatureSample:
        """Features of a set of images, of which the ``chosen`` ones (all by default) are ``images``."""
        chosen = np.arange(len(featurised)) if chosen is None else chosen
        begun_s = time.perf_counter()
        features = featurise(
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
            backend=self.how.backend,
            n_planned=self.how.n_planned,
            progress=None if self.progress is None else self.progress(label),
        )
        seconds = time.perf_counter() - begun_s
        skipped = [image.position for image in features.skipped]
        readable = np.setdiff1d(np.arange(len(featurised)), np.array(skipped, np.int64))  # positions of the rows
        rows = np.flatnonzero(np.isin(readable, chosen))
        if skipped:
            self.notes.append(f"{len(skipped):,} images of {featurised.name} ({featurised.split}) could not be read.")
            images = images.subset(np.flatnonzero(np.isin(chosen, readable)), split=images.split)
        together = features.together
        return FeatureSample(
            features=features,
            images=images,
            z=select_rows(features.x, rows),
            y=features.y[rows],
            together=None if together is None else together[rows],
            seconds=seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MetricInputs:
    """All arguments that metrics of one encoder on one data set take, by need."""

    card: EncoderCard
    dataset: str
    part: str  # of the data, that features and views are of
    sizes: SampleSizes
    recipe: AugmentationRecipe | None  # of the views, if any were asked for
    samples: Mapping[str, FeatureSample]
    refused: Mapping[str, str]  # by need, why it cannot be met, in a sentence
    notes: tuple[str, ...]  # for the user: caps, augmentations that are left out
    data_hash: Mapping[str, str]  # fingerprints of both parts of the data set

    def samples_for(self, need: str) -> dict[str, FeatureSample]:
        """The samples that a need is made of, by their names; refuses one that cannot be met, and says why."""
        if need in self.refused:
            raise QueryError(self.refused[need])
        names = [self.part if name == "part" else name for name in _SAMPLES_OF[need]]
        if not set(names) <= self.samples.keys():
            raise QueryError(f"No features were computed for {need!r}; name it among the needs of these inputs.")
        return {name: self.samples[name] for name in names}

    def arguments(self, need: str) -> dict[str, Any]:
        """The arrays that a metric of this need takes, by the names in :data:`zoo.results.vocabulary.NEEDS`.

        Views and turned images come as arrays in memory, everything else stays on disk until it is read. In addition to
        labels there are ``groups`` if they are known; :func:`drop_unused_groups` leaves them out where a metric takes
        none.
        """
        samples = list(self.samples_for(need).values())
        first, last = samples[0], samples[-1]
        if need == "features":
            return {"z": first.z}
        if need == "labels":
            groups = {} if first.together is None else {"groups": first.together}
            return {"z": first.z, "y": first.y} | groups
        if need == "views":
            return {"z": _grouped(first, self.sizes.q)}
        if need == "rotations":
            return {"z": _grouped(first, _N_TURNS), "z_val": _grouped(last, _N_TURNS)}
        if need == "source and target":
            return {"z": first.z, "y": first.y, "z_target": last.z}
        if need == "pixels":
            shown = [_pixel_pairs(sample, self.card, self.sizes.seed) for sample in samples]
            return dict(zip(("images", "z", "images_val", "z_val"), [*shown[0], *shown[1]], strict=True))
        return {"z": first.z, "y": first.y, "z_val": last.z, "y_val": last.y}


def compute_metric_inputs(
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
    recipe: str | AugmentationRecipe | None = None,
    root: Path | None = None,
    how: FeaturisingOptions | None = None,
    load: Load | None = None,
    progress: Callable[[str], Progress] | None = None,
) -> MetricInputs:
    """Compute the features that metrics need, each set of images once.

    ``name`` is the id of an encoder, with its representation if that is not the card's. Of each part of the data at
    most ``n_images`` images are drawn, and ``n`` with ``q`` views each; by default 1,000 with 50 up to 1,024 dimensions
    and 5,000 with 10 above, or as many images as there are. Turned images are of n images, too. "features", "labels"
    and "views" are of the ``part``, "source and target" transfers to ``target``. Views follow ``recipe``, by default
    the training augmentations of the card, and are normalised as the card says. ``load`` returns encoder and
    preprocessing of an id (:func:`zoo.load` by default), and ``progress`` makes the progress bar of a set from its
    name.
    """
    card = load_catalogue()[name]
    for need in needs:
        if need not in NEEDS:
            raise UnknownName("need of a metric of features", need, NEEDS)
    if part not in PARTS:
        raise UnknownName("part of a data set", part, PARTS)
    for what, number, least in (("n_images", n_images, 1), ("n", n, 2), ("q", q, 2)):
        if number is not None:
            require_number(number, what, least=least, whole=True)
    usual = SampleSizes.usual(card.representation.dim, seed=seed)
    sizes = SampleSizes(n_images=n_images, n=n or usual.n, q=q or usual.q, seed=seed)
    refused: dict[str, str] = {}
    notes: list[str] = []
    chosen = None
    notes += describe_decoding([data.train, data.val] + ([] if target is None else [target.train]))
    if "views" in needs:
        try:
            chosen = recipe if isinstance(recipe, AugmentationRecipe) else build_recipe(card, recipe=recipe)
            notes += chosen.notes
        except QueryError as error:
            refused["views"] = str(error)
    if "source and target" in needs and target is None:
        refused["source and target"] = (
            f"No data set to transfer to was named in addition to {data.name!r}; name one, with --target or target=."
        )
    wanted = {part if label == "part" else label for need in set(needs) - refused.keys() for label in _SAMPLES_OF[need]}
    samples: dict[str, FeatureSample] = {}
    if wanted:
        featuriser = Featuriser(
            card,
            root=root or get_evaluations_folder(),
            how=how or FeaturisingOptions(),
            load=load,
            progress=progress,
            sizes=sizes,
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
    return MetricInputs(
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


def _grouped(sample: FeatureSample, n_each: int) -> np.ndarray:
    """Features of the views of each image together, float32 (n_images, n_each, dim)."""
    z = np.asarray(sample.z)  # without all views of an unreadable image, so that the others stay together
    return z.reshape(-1, n_each, z.shape[1])


def _pixel_pairs(sample: FeatureSample, card: EncoderCard, seed: int) -> tuple[np.ndarray, Any]:
    """Images as numbers, float32 (n, 3, px, px), and their features."""
    chosen = draw_image_positions(sample.images, min(N_PIXELS, len(sample.images)), seed=seed)
    images = sample.images.subset(chosen, split=sample.images.split)
    return read_pixels(images, card.preprocess), select_rows(sample.z, chosen)


def read_pixels(images: ImageSet, preprocess: Preprocess, *, largest_px: int = _LARGEST_PX) -> np.ndarray:
    """The crop of each image that the encoder sees, scaled down: float32 (n, 3, px, px) in [0, 1].

    ``px`` is the smaller one of ``largest_px`` and the side of the crop.
    """
    px = min(largest_px, preprocess.crop_px)
    shown = Steps([*build_geometry_steps(preprocess), ResizeStep(px)])
    found = np.empty((len(images), 3, px, px), np.float32)
    for place, image in enumerate(images.images):
        found[place] = np.asarray(shown(image), np.float32).transpose(2, 0, 1) / 255
    return found


def read_arrays(path: Path, *, beside: Path | None = None) -> dict[str, Any]:
    """The arrays of a folder of features, an npy file or an npz file, by the names in :data:`ARGUMENTS`.

    A folder is one that ``zoo features`` or ``zoo metric`` wrote: z stays on disk; ``ids`` come with it where the
    features are of views. An npy file holds z, (n, dim) or (n_images, n_views, dim); an npz file holds arrays by name,
    and may hold ``ids`` and ``groups``. ``beside`` is a folder or npy file with the features of validation images:
    z_val and y_val.
    """
    found = _read(path)
    if beside is not None:
        other = _read(beside)
        found |= {f"{name}_val": other[name] for name in ("z", "y") if name in other}
    return found


def select_arguments(one: FeatureMetric, arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays that a metric takes; refuses a file that lacks some of them."""
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
                f"{one.title} needs several views of each image, and the file holds one row per image; pass z of shape "
                "(n_images, n_views, dim), ids next to it, or an encoder and images."
            )
        return {"z": arrays["z"]} if arrays.get("ids") is None else {"z": arrays["z"], "ids": arrays["ids"]}
    if one.needs in ("features", "labels") and np.ndim(arrays["z"]) == 3:
        raise QueryError(
            f"{one.title} needs one row per image, and it holds views of shape {tuple(arrays['z'].shape)}; reshape "
            "them to (n, dim) if that is what is meant."
        )
    return drop_unused_groups(one, {name: arrays[name] for name in (*wanted, "groups") if name in arrays})


def drop_unused_groups(one: FeatureMetric, arguments: dict[str, Any]) -> dict[str, Any]:
    """The same arguments, without the groups of images if the metric takes none."""
    return {name: value for name, value in arguments.items() if name != "groups" or one.grouped}


def _read(path: Path) -> dict[str, Any]:
    if path.is_dir():
        features = load_features(path)
        if features.origin.split.endswith(_VIEWS):
            return {"z": features.x, "ids": features.y}
        if features.target:
            return {"z": features.x}  # numbers are no classes
        groups = {} if features.together is None else {"groups": features.together}
        labels = {} if (features.y < 0).all() else {"y": features.y}  # of images without labels there are none
        return {"z": features.x} | labels | groups
    try:
        require_held(path)
        found = np.load(path, allow_pickle=False, mmap_mode="r" if path.suffix == ".npy" else None)
        named = found.dtype.names if isinstance(found, np.ndarray) else found.files
        arrays = {"z": found} if named is None else {name: found[name] for name in named}
    except FileNotFoundError as error:
        raise DataError(
            f"There is no {path}; expected a folder of features, an .npy or an .npz file, or the id of an encoder "
            "followed by images."
        ) from error
    except ARRAY_ERRORS as error:
        raise DataError(
            f"{path} cannot be read as features ({format_reason(error)}); expected a folder of features (of an "
            "exported Parquet file the one that it was made of), an .npy or an .npz file."
        ) from error
    if "z" not in arrays:
        raise DataError(f"{path} holds {', '.join(arrays) or 'nothing'}, expected features under the name z.")
    return arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricResult:
    """The value of one metric, or why it has none."""

    metric: FeatureMetric
    value: float | None  # None where it was refused
    details: Mapping[str, Any]  # other fields of the function's record
    reason: str  # a sentence; "" where there is a value
    notes: tuple[str, ...]  # sentences for readers of the value
    dataset: str
    split: str  # in the words of results/
    n_images: int  # different ones, without those of a validation set; 0 where it was refused before that
    n_views: int | None  # of each image; None where there are no views
    seconds_featurising: float  # of its samples in this run, which it may share with others
    seconds_computing: float
    seed: int
    options: Mapping[str, Any]


def measure(
    metrics: Iterable[str], inputs: MetricInputs, *, seed: int = 0, options: Options | None = None
) -> Iterator[MetricResult]:
    """Compute metrics one after the other; those that need the same arrays follow each other.

    Yields each as soon as it is computed. Where images or features do not allow a metric, its ``reason`` says why.
    ``inputs`` have what these metrics need; ``seed`` is for metrics that draw something; ``options`` are by metric, as
    ``{"lidar": {"delta": 1e-4}}``. Unknown metrics and options are refused before any is computed.
    """
    wanted = [find_feature_metric(name) for name in dict.fromkeys(metrics)]
    given = {name: dict(chosen) for name, chosen in (options or {}).items()}
    check_options([one.name for one in wanted], given)
    return _measured(wanted, inputs, seed, given)


def _measured(wanted: list[FeatureMetric], inputs: MetricInputs, seed: int, options: Options) -> Iterator[MetricResult]:
    for need in dict.fromkeys(one.needs for one in wanted):
        try:
            arguments, reason = inputs.arguments(need), ""
        except (DataError, QueryError) as error:
            arguments, reason = {}, str(error)
        spectrum = None
        samples = inputs.samples_for(need) if arguments else {}
        n_views = {"views": inputs.sizes.q, "rotations": 4}.get(need)
        n_images = len(next(iter(samples.values())).y) // (n_views or 1) if samples else 0
        for one in (one for one in wanted if one.needs == need):
            chosen = options.get(one.name, {})
            found, why, begun_s = None, reason, time.perf_counter()
            if arguments:
                try:
                    taken = drop_unused_groups(one, arguments)
                    if one.streams:  # one pass over the features for all of these
                        spectrum = spectrum or compute_spectrum(arguments["z"])
                        taken = {"z": spectrum}
                    found = compute(one.name, **taken, **({"seed": seed} if one.seeded else {}), **chosen)
                except (DataError, QueryError, MissingExtra) as error:
                    why = str(error)
            if found is not None and not math.isfinite(found.value):
                why = f"{one.title} came out as {found.value}, which is no number to compare encoders by."
                found = None
            yield MetricResult(
                metric=one,
                value=None if found is None else found.value,
                details={} if found is None else dict(found.details),
                reason=why,
                notes=() if found is None else found.notes,
                dataset=inputs.dataset,
                split=_split(need, inputs),
                n_images=n_images,
                n_views=n_views,
                seconds_featurising=sum(sample.seconds for sample in samples.values()),
                seconds_computing=time.perf_counter() - begun_s,
                seed=seed,
                options=dict(chosen),
            )


def make_metric_rows(
    measured: Iterable[MetricResult], inputs: MetricInputs, *, source: str = SOURCE, day: date | None = None
) -> dict[Measurement, dict[str, Any]]:
    """Rows of ``results/`` with their provenance, for :func:`zoo.results.recording.record`; refused metrics have none.

    ``source`` is who measured, and ``day`` today by default.
    """
    digests: dict[str, str] = {}
    rows = {}
    for one in measured:
        if one.value is None:
            continue
        samples = inputs.samples_for(one.metric.needs)
        for name, sample in samples.items():
            digests[name] = digests.get(name) or hash_features(sample.features)
        origin = next(iter(samples.values())).features.origin
        settings = _settings(one, inputs)
        changed = ", ".join(
            f"{name}={json.dumps(value, sort_keys=True, default=str)}" for name, value in settings.items()
        )
        protocol = PROTOCOLS[one.metric.kind]
        row = Measurement(
            encoder=origin.encoder,
            metric=one.metric.name,
            dataset=one.dataset,
            split=one.split,
            n_train=None,
            seed=one.seed,
            value=one.value,
            unit=one.metric.unit,
            ci_low=None,
            ci_high=None,
            protocol=f"{protocol} ({changed})" if changed else protocol,
            source=source,
            date=(day or date.today()).isoformat(),
        )
        rows[row] = {
            "weights_hash": origin.weights_hash,
            "preprocess_hash": origin.preprocess_hash,
            "images_hash": {name: sample.images.fingerprint for name, sample in samples.items()},
            "data_hash": dict(inputs.data_hash),
            "features_hash": {name: digests[name] for name in samples},
            "subset_hash": None,
            "code_version": origin.code_version,
            "representation": origin.representation,
            "precision": origin.precision,
            **({} if origin.backend == TORCH else {"backend": origin.backend}),
            "settings": {"name": protocol} | asdict(inputs.sizes) | {"options": dict(one.options)},
            "report": dict(one.details)
            | {"n_images": one.n_images, "n_views": one.n_views, "notes": [*inputs.notes, *one.notes]},
        }
    return rows


def _settings(one: MetricResult, inputs: MetricInputs) -> dict[str, Any]:
    """Settings of a measurement that differ from the usual ones, by name."""
    found = {name: value for name, value in one.options.items() if value != OPTIONS[one.metric.name].get(name)}
    usual = SampleSizes.usual(inputs.card.representation.dim, seed=inputs.sizes.seed)
    sizes = {"views": ("n", "q"), "rotations": ("n",)}.get(one.metric.needs, ("n_images",))
    found |= {
        name: getattr(inputs.sizes, name) for name in sizes if getattr(inputs.sizes, name) != getattr(usual, name)
    }
    if one.metric.needs in ("views", "rotations") and one.n_images < inputs.sizes.n:
        found["n"] = one.n_images  # there were no more
    precision = next(iter(inputs.samples_for(one.metric.needs).values())).features.origin.precision
    if precision != "float32":
        found["precision"] = precision
    if one.metric.needs == "views" and inputs.recipe is not None and not inputs.recipe.is_of_card:
        found["augmentations"] = list(inputs.recipe.augmentations)
    if one.seed != inputs.sizes.seed:
        found["seed_of_images"] = inputs.sizes.seed
    if one.metric.needs == "source and target":
        found["target"] = inputs.samples["target"].images.name
    return dict(sorted(found.items()))


def _split(need: str, inputs: MetricInputs) -> str:
    if need in ("features", "labels"):
        return inputs.part
    if need == "views":
        of_training = inputs.recipe is None or inputs.recipe.is_of_card
        return f"{inputs.part} {'pretraining-augmented' if of_training else 'augmented'}"
    return "train -> val"


def check_options(metrics: Iterable[str], options: Options) -> None:
    """Refuse options of metrics that are not measured, unknown options, and values of another type."""
    names = [find_feature_metric(name).name for name in metrics]
    for name, chosen in options.items():
        if find_feature_metric(name).name not in names:
            raise QueryError(f"Options are given for {name!r}, which is not measured; expected {', '.join(names)}.")
        known = OPTIONS[name]
        for option, value in chosen.items():
            if option not in known:
                raise QueryError(f"{name!r} has no option {option!r}; expected one of {', '.join(known) or 'none'}.")
            default = known[option]
            expected = (int, float) if isinstance(default, float) else type(default)
            fits = isinstance(value, expected) and isinstance(value, bool) == isinstance(default, bool)
            if fits or default is None:
                continue
            raise QueryError(f"{name}.{option} is {value!r}, expected one like {default!r}.")
