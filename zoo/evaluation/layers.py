"""Which block, pooling and size of images: every variant of an encoder's features on one's own images.

All blocks and poolings of one size come from one forward pass over the images, and are stored where ``zoo evaluate``
looks for them under their names. A ridge probe classifies each training image from all others, in closed form; by these
errors a variant is chosen, and the test images, which chose nothing, say what the choice brings. The chosen variant,
the next ones and the default then get the tuned logistic probe of ``zoo evaluate``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cards.catalogue import load_catalogue
from ..cards.representations import MARK, infer_network
from ..cards.schema import EncoderCard
from ..datasets import ImageData, ImageSet
from ..datasets.images import get_numbers
from ..datasets.subsets import fraction
from ..encoders import build_encoder
from ..encoders.intermediate_features import (
    FeatureVariant,
    IntermediateFeatures,
    TruncationCost,
    compute_truncation_costs,
    list_feature_variants,
)
from ..encoders.sizes import derive_sized_card
from ..errors import DataError, QueryError
from ..features import Features
from ..features.computing import choose_device, get_autocast_dtype, get_number_type
from ..features.featurising import FeatureColumns, featurise_parts, join_features
from ..features.work_items import FeaturisingOptions
from ..files import get_evaluations_folder
from ..optional import require_extra
from ..progress import Progress
from ..storage import resolve_place
from .bootstrap import Interval
from .evaluating import build_probe_maker, get_features_folder, get_runs_folder
from .layer_choice import LayerChoice, choose, compute_differences, compute_variant_errors
from .measuring import ProbeCache, check_pair, label_setting, measure
from .protocols import PROTOCOLS
from .regression import PROTOCOL as RIDGE
from .regression import RidgeProbe
from .transferability.components import centre_labelled
from .transferability.leave_one_out import fit_ridge, number_image_groups

with require_extra("evaluate", needed_for="Measuring layers"):
    import numpy as np
    import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bools = NDArray[np.bool_]

N_TRAIN, N_TEST = 5_000, 2_000  # images whose features are computed at most
FACTORS = (0.75, 1.5)  # sizes in addition to the card's, as shares of it
N_PROBED = 3  # variants that get a tuned probe in addition to the default
PROBE = "zoo-logistic-3"
_N_LOOKED_AT = 20  # images whose size is looked at
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerVariant:
    """One block, pooling and size of images, and what was measured of it. Errors are in percent."""

    name: str  # as zoo.load takes it
    px: int  # side of the images
    pooling: str  # "cls", "avg", "cls+avg", ...
    block: str  # "11", or stage and block in it, "4.3"; "head" for what comes after the blocks
    number: int | None  # of the block, counted from 0; None for what needs the whole network
    dim: int
    gflops: float  # 1e9 operations per image up to there
    seconds: float  # of an image up to there, without decoding it
    penalty: float  # of the ridge probe, as a share of the sum of squares of the features, of numbers standardised
    train_error: Interval  # of ridge probes on all other training images
    test_error: Interval  # of the ridge probe on the test images
    behind: Interval  # its test error less that of the chosen variant, in points
    p_value: float | None  # of the paired test against the chosen variant, by itself; None for that one
    is_tied: bool  # test images do not tell it apart from the chosen one
    probe_error: Interval | None  # of the tuned logistic probe on the test images, of the first few

    @property
    def command(self) -> str:
        """The Python that loads it."""
        is_usual = self.px == load_catalogue()[self.name].preprocess.crop_px
        return f"zoo.load({self.name!r})" if is_usual else f"zoo.load({self.name!r}, px={self.px})"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayersReport:
    """The variants of an encoder on a data set, and the choice among them.

    Differences are points of error: negative where the first of two has fewer. Of labels that are numbers, an error is
    the unexplained variance, 1 - R2, in percent.
    """

    encoder: str
    dataset: str
    n_train: int
    n_test: int
    n_classes: int  # or different numbers
    target: str  # what the numbers measure, "" of classes
    variants: tuple[LayerVariant, ...]  # by size of images, then in the order of the blocks
    default: int  # number of the variant that is the card's
    choice: LayerChoice
    probe_naive: Interval | None  # the least tuned test error less the default's, as a table invites to read it
    probe_nested: Interval | None  # the chosen variant's tuned test error less the default's, in points
    protocol: str  # of the tuned probes
    device: str
    batch_size: int  # of the seconds
    notes: tuple[str, ...]
    seconds: float  # that all of it took

    @property
    def chosen(self) -> LayerVariant:
        return self.variants[self.choice.chosen]

    @property
    def error_words(self) -> str:
        """What is measured, without its unit."""
        return "unexplained variance" if self.target else "error"

    @property
    def judged(self) -> str:
        """What is done to an image."""
        return "predicted" if self.target else "classified"

    @property
    def is_default_tied(self) -> bool:
        """The test images do not tell the default apart from the choice."""
        return self.choice.tied[self.default]

    def as_dict(self) -> dict[str, Any]:
        """Everything but arrays, for JSON."""
        choice = self.choice
        facts = {
            name: getattr(self, name) for name in ("encoder", "dataset", "n_train", "n_test", "n_classes", "target")
        }
        return facts | {
            "default": self.variants[self.default].name,
            "chosen": {"name": self.chosen.name, "px": self.chosen.px, "load": self.chosen.command},
            "cheapest": {
                "name": self.variants[choice.cheapest].name,
                "px": self.variants[choice.cheapest].px,
                "load": self.variants[choice.cheapest].command,
            },
            "default_is_tied": self.is_default_tied,
            "p_value": choice.p_value,
            "gain_naive": asdict(choice.naive),
            "gain_nested": asdict(choice.nested),
            "optimism": choice.optimism,
            "probe": self.protocol,
            "probe_gain_naive": None if self.probe_naive is None else asdict(self.probe_naive),
            "probe_gain_nested": None if self.probe_nested is None else asdict(self.probe_nested),
            "device": self.device,
            "batch_size": self.batch_size,
            "seconds": self.seconds,
            "notes": list(self.notes),
            "variants": [
                asdict(variant)
                | {"load": variant.command, "is_default": i == self.default, "is_chosen": i == choice.chosen}
                for i, variant in enumerate(self.variants)
            ],
        }


@dataclass(slots=True, eq=False)
class _VariantErrors:
    """One variant while it is measured."""

    tap: FeatureVariant
    px: int
    stop: TruncationCost
    penalty: float
    train_wrong: Bools
    test_wrong: Bools


def measure_layers(
    name: str,
    data: ImageData,
    *,
    resolutions: Sequence[int] | None = None,
    blocks: Sequence[int] | None = None,
    n_train: int = N_TRAIN,
    n_test: int = N_TEST,
    n_probed: int = N_PROBED,
    protocol: str = PROBE,
    seed: int = 0,
    root: Path | None = None,
    how: FeaturisingOptions | None = None,
    progress: Callable[[str], Progress] | None = None,
    tell: Tell | None = None,
) -> LayersReport:
    """Measures every block, pooling and size of images of an encoder on labelled images, and chooses one.

    ``resolutions`` are sides of the images in pixels, the card's always among them; by default also 0.75 and 1.5 times
    that, as far as the network takes them. Of ``blocks``, counted from 0 or, negative, from the end, the variants are
    these alone, and the card's features. Images are drawn in the proportions of their classes, ``n_train`` and
    ``n_test`` at most. ``n_probed`` variants get a probe tuned by ``protocol`` in addition to the default: the chosen
    one and those with the next fewest errors on training images; none for labels that are numbers, whose ridge probe is
    that of ``zoo evaluate``. ``root`` is the folder of all evaluations, in the cache by default; ``progress`` gives,
    for a label, what reports the progress over images.

    QueryError if the encoder has one variant alone, or no such block or size; if ``name`` says which features are
    taken. DataError if the images cannot be used: one class, test images of a class without training images, unreadable
    files.
    """
    begun_s = time.perf_counter()
    say = tell or (lambda text: None)
    card = load_catalogue()[name]
    if MARK in card.id:
        raise QueryError(
            f"{card.id!r} says already which features are taken; name {card.id.partition(MARK)[0]!r} to compare all."
        )
    for what, number, least in (("n_train", n_train, 2), ("n_test", n_test, 1), ("n_probed", n_probed, 0)):
        if number < least:
            raise QueryError(f"{what} is {number}; expected a whole number of at least {least}.")
    chosen_how = how or FeaturisingOptions()
    taps = list_feature_variants(card, blocks=blocks)
    cards, notes = build_sized_cards(card, resolutions)
    if len(taps) * len(cards) == 1:
        raise QueryError(
            f"{card.id!r} has one variant alone here: the zoo knows no blocks of its network, and it was to be "
            f"measured at {card.preprocess.crop_px} px; ask for other resolutions, or use 'zoo evaluate'."
        )
    parts = {
        "train": subsample_images(data.train, n_train, seed=seed),
        "val": subsample_images(data.val, n_test, seed=seed),
    }
    notes += list_size_notes(parts["train"], list(cards))
    if data.train.tags:
        notes.append(f"Images of {data.name} have several labels: every combination of them counts as a class.")
    folder = root or get_evaluations_folder()
    found: list[_VariantErrors] = []
    features: dict[int, dict[str, dict[str, Features]]] = {}
    device = ""
    for px, sized in cards.items():
        of_px, stops, device = _featurised(card, sized, taps, parts, folder, chosen_how, progress, say)
        features[px] = of_px
        found += _measured(of_px, taps, px, stops, say)
    train, test = (features[card.preprocess.crop_px][part][card.id] for part in ("train", "val"))
    default = next(i for i, one in enumerate(found) if one.px == card.preprocess.crop_px and one.tap.name == card.id)
    train_groups, test_groups = get_image_groups(train.together), get_image_groups(test.together)
    train_wrong, test_wrong = (
        np.stack([getattr(one, part) for one in found], axis=1) for part in ("train_wrong", "test_wrong")
    )
    n_probed, protocol = (0, RIDGE) if train.target else (n_probed, protocol)
    train_numbers, test_numbers = (get_numbers(part) if part.target else None for part in (train, test))
    costs = np.array([one.stop.gflops for one in found])
    choice = choose(
        train_wrong,
        test_wrong,
        default=default,
        costs=costs,
        train_groups=train_groups,
        test_groups=test_groups,
        train_numbers=train_numbers,
        test_numbers=test_numbers,
        seed=seed,
    )
    order = np.lexsort((costs, train_wrong.sum(axis=0)))
    probed = list(dict.fromkeys([choice.chosen, default, *order.tolist()]))[: n_probed + 1] if n_probed else []
    runs: dict[int, Bools] = {}
    for number in probed:
        one = found[number]
        say(f"{one.tap.name}, {one.px} px: tuned logistic probe ({len(runs) + 1} of {len(probed)})")
        runs[number] = _probed(one, features[one.px], folder, chosen_how, protocol=protocol, seed=seed)
    # as zoo evaluate has it: copies do not count as groups
    of_train = compute_variant_errors(train_wrong, groups=train.groups, numbers=train_numbers, seed=seed)
    of_test = compute_variant_errors(test_wrong, groups=test.groups, numbers=test_numbers, seed=seed)
    wrong_probed = np.stack(list(runs.values()), axis=1) if runs else np.empty((len(test.y), 0), bool)
    of_probe = dict(zip(runs, compute_variant_errors(wrong_probed, groups=test.groups), strict=True))
    variants = tuple(
        LayerVariant(
            name=one.tap.name,
            px=one.px,
            pooling=one.tap.words,
            block=one.tap.label,
            number=one.tap.block,
            dim=one.tap.dim,
            gflops=one.stop.gflops,
            seconds=one.stop.seconds,
            penalty=one.penalty,
            train_error=of_train[i],
            test_error=of_test[i],
            behind=choice.behind[i],
            p_value=choice.p_values[i],
            is_tied=choice.tied[i],
            probe_error=of_probe.get(i),
        )
        for i, one in enumerate(found)
    )
    probe_naive, probe_nested = _of_probes(runs, choice.chosen, default, test_groups, seed=seed)
    return LayersReport(
        encoder=card.id,
        dataset=data.name,
        n_train=len(train.y),
        n_test=len(test.y),
        n_classes=len(np.unique(train.y)),
        target=train.target,
        variants=variants,
        default=default,
        choice=choice,
        probe_naive=probe_naive,
        probe_nested=probe_nested,
        protocol=protocol,
        device=device,
        batch_size=chosen_how.batch_size,
        notes=tuple(dict.fromkeys(notes)),
        seconds=time.perf_counter() - begun_s,
    )


def build_sized_cards(card: EncoderCard, resolutions: Sequence[int] | None) -> tuple[dict[int, EncoderCard], list[str]]:
    """The cards of an encoder for some sides of images, ascending, the card's own among them; and what cannot be had.

    Without ``resolutions``, the sizes nearest to :data:`FACTORS` times the card's that its network takes.
    """
    own = card.preprocess.crop_px
    found: dict[int, EncoderCard] = {own: card}
    notes: list[str] = []
    if resolutions is not None:
        for px in resolutions:
            found[px] = _sized(card, px)
        return dict(sorted(found.items())), notes
    known, patch = card.architecture.size_step_px, card.architecture.patch_size_px
    steps = [known] if isinstance(known, int) else [32, patch if isinstance(patch, int) else 8]
    refusal = ""
    for factor in FACTORS:
        near = {max(step, round(factor * own / step) * step) for step in steps}
        for px in sorted(near - found.keys(), key=lambda px: abs(px - factor * own)):
            try:
                found[px] = _sized(card, px)
                break
            except QueryError as error:
                refusal = str(error)
    if len(found) == 1:
        notes.append(f"{card.id} is measured at {own} px alone: {refusal or 'no other size is near'}")
    return dict(sorted(found.items())), notes


def _sized(card: EncoderCard, px: int) -> EncoderCard:
    """The card for images of this side; refuses one at which the network gives other dimensions.

    Flattened maps do; what is the mean of a map or of tokens does not.
    """
    sized = derive_sized_card(card, px)
    if sized is not card and infer_network(card) is None and not card.architecture.backbone.startswith("transformers:"):
        with torch.device("meta"):
            dim = build_encoder(sized, device="meta")(torch.empty(1, 3, px, px)).shape[1]
        if dim != card.representation.dim:
            raise QueryError(
                f"Found px={px} for {card.id!r}, at which its features have {dim:,} dimensions instead of "
                f"{card.representation.dim:,}; leave it out."
            )
    return sized


def subsample_images(images: ImageSet, n: int, *, seed: int) -> ImageSet:
    """About ``n`` images of a set, each class in its proportion, at least one of each; all if there are no more.

    Of images that are labelled with numbers any ``n``.
    """
    if len(images) <= n:
        return images
    labels = np.zeros(len(images), np.int64) if images.target else images.labels
    chosen = fraction(labels, n / len(images), seed=seed).indices
    return images.subset(chosen, split=f"{images.split} {len(chosen)} drawn")


def list_size_notes(images: ImageSet, sides: Sequence[int]) -> list[str]:
    """A note if images are smaller than what they are scaled to."""
    smallest = min(min(images.images[i].size) for i in range(0, len(images), -(-len(images) // _N_LOOKED_AT)))
    larger = [px for px in sides if px > smallest]
    if not larger:
        return []
    return [
        f"Images of {images.name} have sides from {smallest} px, and are enlarged for {', '.join(map(str, larger))} px."
    ]


def get_image_groups(numbers: NDArray[np.uint64] | None) -> NDArray[np.uint64] | None:
    """Which images belong together, or None if each stands by itself.

    >>> get_image_groups(np.array([3, 5], np.uint64)) is None, get_image_groups(np.array([3, 3], np.uint64)).tolist()
    (True, [3, 3])
    """
    return numbers if numbers is not None and len(np.unique(numbers)) < len(numbers) else None


def _featurised(
    card: EncoderCard,
    sized: EncoderCard,
    taps: Sequence[FeatureVariant],
    parts: dict[str, ImageSet],
    root: Path,
    how: FeaturisingOptions,
    progress: Callable[[str], Progress] | None,
    say: Tell,
) -> tuple[dict[str, dict[str, Features]], dict[int | None, TruncationCost], str]:
    """Features of both parts by name, at one size, and what stopping at each block costs."""
    from ..loading import load

    px = sized.preprocess.crop_px
    say(f"{card.id}: features of {len(taps)} layers and poolings at {px} px")
    encoder, preprocess = load(card.id) if px == card.preprocess.crop_px else load(card.id, px=px)
    wide = IntermediateFeatures(encoder, taps)  # type: ignore[arg-type]
    beside = "" if px == card.preprocess.crop_px else f"-{px}px"  # at the card's size, where zoo evaluate puts them
    found = {}
    for part, images in parts.items():
        places = [
            FeatureColumns(
                name=tap.name,
                representation=tap.name.partition(MARK)[2] or "card",
                columns=wide.columns[tap.name],
                place=resolve_place(get_features_folder(root, tap.name + beside, images, precision=how.precision)),
            )
            for tap in taps
            if not tap.of
        ]
        found[part] = featurise_parts(
            wide,
            encoder,
            preprocess,
            images,
            places,
            how=how,
            progress=None if progress is None else progress(f"{part}, {px} px"),
        )
    device = choose_device(encoder, how.device)
    autocast = get_autocast_dtype(get_number_type(encoder, how.precision))
    stops = compute_truncation_costs(encoder, sized, px=px, device=device, batch_size=how.batch_size, autocast=autocast)  # type: ignore[arg-type]
    return found, stops, str(device)


def _of_tap(of_px: dict[str, dict[str, Features]], tap: FeatureVariant, part: str) -> Features:
    if not tap.of:
        return of_px[part][tap.name]
    return join_features(of_px[part], tap.of, name=tap.name, representation=tap.name.partition(MARK)[2])


def _measured(
    of_px: dict[str, dict[str, Features]],
    taps: Sequence[FeatureVariant],
    px: int,
    stops: dict[int | None, TruncationCost],
    say: Tell,
) -> list[_VariantErrors]:
    """Ridge probes of every variant of one size."""
    found = []
    first = [of_px[part][taps[0].name] for part in ("train", "val")]
    check_pair(*first, numbers=bool(first[0].target))
    for number, tap in enumerate(taps, start=1):
        say(f"{tap.name}, {px} px: ridge probe ({number} of {len(taps)})")
        train, test = (_of_tap(of_px, tap, part) for part in ("train", "val"))
        losses = (_number_losses if train.target else _class_losses)(train, test)
        found.append(_VariantErrors(tap, px, stops[tap.block], *losses))
    return found


def _number_losses(train: Features, test: Features) -> tuple[float, Any, Any]:
    """The penalty of the probe of numbers, and squared errors of left-out and test images."""
    numbers, others = get_numbers(train), get_numbers(test)
    for part, y in ((train, numbers), (test, others)):
        if np.ptp(y) == 0:
            raise DataError(
                f"All {len(y):,} images of {part.origin.dataset!r} ({part.origin.split}) have the number {y[0]:g}, of "
                "which no variance can be explained; add others, or ask for more images."
            )
    fit = RidgeProbe().fit(train.x[:], numbers, groups=get_image_groups(train.together))
    return fit.share_, np.square(fit.left_out_ - numbers), np.square(fit.predict(test.x[:]) - others)


def _class_losses(train: Features, test: Features) -> tuple[float, Bools, Bools]:
    """The penalty of ridge regression to the classes, and which left-out and test images it classifies wrongly."""
    data = centre_labelled(train.x[:], train.y, least=3, needed_for="leave-one-out ridge")
    groups = number_image_groups(get_image_groups(train.together), len(data.y))
    fit = fit_ridge(data, groups, by="errors")
    others = test.x[:] - np.asarray(train.x[:], np.float64).mean(axis=0)
    on_test = data.classes[fit.outputs(others).argmax(axis=1)] != test.y
    return fit.share, fit.left_out.argmax(axis=1) != data.y, on_test


def _probed(
    one: _VariantErrors,
    of_px: dict[str, dict[str, Features]],
    root: Path,
    how: FeaturisingOptions,
    *,
    protocol: str,
    seed: int,
) -> Bools:
    """Which test images the tuned probe of ``zoo evaluate`` classifies wrongly."""
    train, test = (_of_tap(of_px, one.tap, part) for part in ("train", "val"))
    run = measure(
        train,
        test,
        label_setting("full"),
        seed=seed,
        probe=build_probe_maker(PROTOCOLS[protocol], device=how.device, seed=seed),
        cache=ProbeCache(get_runs_folder(root, one.tap.name), protocol=protocol),
    )
    return np.asarray(~run.correct)


def _of_probes(
    runs: dict[int, Bools], chosen: int, default: int, groups: Any, *, seed: int
) -> tuple[Interval | None, Interval | None]:
    """Differences of tuned probes to that of the default: of the best on test images, and of the chosen one."""
    if not {chosen, default} <= runs.keys():
        return None, None
    wrong, places = np.stack(list(runs.values()), axis=1), list(runs)
    behind = compute_differences(wrong, places.index(default), groups=groups, seed=seed)
    return behind[int(wrong.sum(axis=0).argmin())], behind[places.index(chosen)]
