"""Measures a sample of recorded rows again, from the weights and the images, and compares.

python scripts/recompute_sample.py results --sample 20 --images birds=./birds
python scripts/recompute_sample.py submitted --base before --sample 5 --seed 1 --json

Each PATH is a results file, or a folder of them at any depth, as ``zoo results check`` takes it; with --base only rows
that are new since then are drawn. Exit code 1 if a row comes out differently, or if none could be measured again.

Errors of linear probes and nearest neighbours, and metrics of features of one data set, are measured again where the
weights can be had and the images (known by their fingerprint) are here; other rows are passed over with the reason.
Numbers are the same by the rules of :mod:`zoo.results.recording`.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from zoo.cards.answers import make_table
from zoo.cli.output import log_progress, print_json, print_notes, print_table
from zoo.datasets import ImageData, open_images
from zoo.errors import QueryError, ZooError, format_count
from zoo.evaluation.protocols import restore_protocol
from zoo.evaluation.recorded_protocols import find_protocol_problem
from zoo.results.merging import LocatedRow, check
from zoo.results.recording import compare_recorded, get_image_fingerprints
from zoo.results.rows import convert_measurement, convert_row
from zoo.results.values import Row, get_row_key
from zoo.results.vocabulary import FEATURE_METRICS

if TYPE_CHECKING:
    from zoo.features import Features
    from zoo.features.work_items import FeaturisingOptions

State = Literal["same", "other", "passed over"]
Tell = Callable[[str], None]
_PROBES = ("linear_probe_error", "knn_error")
BUILT_IN = ("digits", "shapes", "fashion-mnist")
"""Image sets that need no path, and are looked at for rows of their name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputedRow:
    """What measuring a row again gave."""

    found: LocatedRow
    state: State
    reason: str = ""  # in what it is another, or why it was passed over: a sentence
    row: Row | None = None  # as it was measured now; None if it was not

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON."""
        now = None if self.row is None else {name: getattr(self.row, name) for name in ("value", "ci_low", "ci_high")}
        then = self.found.row._asdict()
        return {"state": self.state, "place": self.found.place, "reason": self.reason, "row": then, "now": now}


class _SkippedError(Exception):
    """This row cannot be measured again here; the text says why."""


class _MismatchError(Exception):
    """What was recorded of a row is not what is found here; the text says in what."""


def recompute(
    found: Sequence[LocatedRow],
    *,
    sample: int,
    seed: int = 0,
    images: Mapping[str, str] | None = None,
    root: Path | None = None,
    how: FeaturisingOptions | None = None,
    tell: Tell | None = None,
) -> list[RecomputedRow]:
    """Measures a random sample of rows again.

    Rows are drawn one after the other until ``sample`` of them were measured, or none is left; those that cannot be
    measured are among what is returned, with the reason.

    Parameters
    ----------
    found : sequence of Found
        Of :func:`zoo.results.merging.check`.
    sample : int
    seed : int
        Of the draw.
    images : dict of str to str, optional
        Where the images of data sets are, as :func:`zoo.datasets.open_images` takes them, by the name in the rows; the
        built-in ones are found by themselves.
    root : Path, optional
        Where features are kept for another time, and found; a temporary folder by default, so that all is computed.
    how : Featurising, optional
        How features are computed; the precision is that of each row.

    Raises
    ------
    QueryError
        If ``sample`` is below 1, or a data set of ``images`` has no rows.
    """
    if sample < 1:
        raise QueryError(f"Got {sample} rows to measure again, expected 1 or more.")
    given = dict(images or {})
    datasets = {one.row.dataset for one in found}
    if idle := sorted(given.keys() - datasets):
        raise QueryError(
            f"There are no rows of the data set {idle[0]!r}; expected one of {', '.join(sorted(datasets))}."
        )
    drawn = sorted(found, key=lambda one: (get_row_key(one.row), one.place))
    random.Random(seed).shuffle(drawn)
    first_seeds = _first_seeds(found)
    done: list[RecomputedRow] = []
    n_measured = 0
    with TemporaryDirectory(prefix="zoo-check-") as temporary:
        measuring = _RowRecomputer(given, root or Path(temporary), how, tell or (lambda text: None), first_seeds)
        for one in drawn:
            if n_measured == sample:
                break
            done.append(measuring.measured(one))
            n_measured += done[-1].state != "passed over"
    return done


def count_skipped_rows(done: Sequence[RecomputedRow]) -> dict[str, int]:
    """Why rows were passed over, and how many, the most frequent reason first."""
    return dict(Counter(one.reason for one in done if one.state == "passed over").most_common())


def _first_seeds(found: Sequence[LocatedRow]) -> dict[tuple[str, ...], int]:
    """The smallest seed of the rows that differ in it only: that of the measurement, from which the others count."""
    first: dict[tuple[str, ...], int] = {}
    for one in found:
        if one.row.seed:
            key = get_row_key(one.row._replace(seed="", n_train=""))
            first[key] = min(first.get(key, int(one.row.seed)), int(one.row.seed))
    return first


class _RowRecomputer:
    """Measures rows, with each data set opened once, and the features of one encoder on it computed once."""

    def __init__(
        self,
        images: Mapping[str, str],
        root: Path,
        how: FeaturisingOptions | None,
        tell: Tell,
        first_seeds: Mapping[tuple[str, ...], int],
    ) -> None:
        self.images, self.root, self.how, self.tell, self.first_seeds = images, root, how, tell, first_seeds
        self._data: dict[str, ImageData | str] = {}  # by source; a text says why there is none
        self._failed: dict[str, str] = {}  # by encoder, why its features cannot be had

    def measured(self, one: LocatedRow) -> RecomputedRow:
        try:
            now = self._row(one)
        except _MismatchError as other:
            return RecomputedRow(found=one, state="other", reason=str(other))
        except (_SkippedError, ZooError) as why:
            return RecomputedRow(found=one, state="passed over", reason=str(why))
        difference = compare_recorded(one.place, one.row, now)
        if difference is not None:
            return RecomputedRow(found=one, state="other", reason=f"{difference.change}.", row=now)
        if now.n_train != one.row.n_train:
            reason = f"The probe had {now.n_train} images now, and {one.row.n_train} are recorded."
            return RecomputedRow(found=one, state="other", reason=reason, row=now)
        return RecomputedRow(found=one, state="same", row=now)

    def _row(self, one: LocatedRow) -> Row:
        row, provenance = one.row, one.provenance
        if provenance is None:
            raise _SkippedError("It has no provenance.")
        problem = find_protocol_problem(row, provenance)
        if problem is None:
            raise _SkippedError(f"Nobody here knows the protocol {row.protocol!r}.")
        if problem:
            raise _MismatchError(problem)
        is_probe = row.metric in _PROBES
        if not is_probe and row.metric not in FEATURE_METRICS:
            raise _SkippedError(f"Rows of {row.metric!r} are not measured again.")
        precision = provenance.get("precision", "float32")
        if precision not in ("float32", "bfloat16", "float16"):
            raise _SkippedError(f"Its features are {precision}, which are not made again here.")
        if row.encoder in self._failed:
            raise _SkippedError(self._failed[row.encoder])
        if is_probe:
            _label_setting(row)
        data = self._data_of(one)
        self.tell(f"{row.encoder}: {row.metric} on {row.dataset}, {row.split}")
        return self._error(one, data, precision) if is_probe else self._metric(one, data, precision)

    def _data_of(self, one: LocatedRow) -> ImageData:
        """The images that a row was measured on."""
        wanted = get_image_fingerprints(one.provenance or {}).get("images")
        if not wanted:
            raise _SkippedError("Its provenance does not name its images by their hash.")
        name = one.row.dataset
        sources = [self.images[name]] if name in self.images else [name] if name in BUILT_IN else [*BUILT_IN]
        reasons = []
        for source in sources:
            data = self._opened(source)
            if isinstance(data, str):
                reasons.append(data)
            elif {part: getattr(data, part).fingerprint for part in wanted} == wanted:
                return data
            else:
                reasons.append(f"{source!r} has other images than {name!r} of this row.")
        if name not in self.images and name not in BUILT_IN:
            raise _SkippedError(f"Where the images of {name!r} are is not known; say it with --images {name}=IMAGES.")
        raise _SkippedError(reasons[0])

    def _opened(self, source: str) -> ImageData | str:
        if source not in self._data:
            try:
                self._data[source] = open_images(source)
            except ZooError as error:
                self._data[source] = str(error)
        return self._data[source]

    def _featurising(self, precision: str) -> FeaturisingOptions:
        from zoo.features.work_items import FeaturisingOptions

        return replace(self.how or FeaturisingOptions(), precision=precision)

    def _features(self, one: LocatedRow, data: ImageData, precision: str) -> dict[str, Features]:
        from zoo.evaluation.evaluating import featurise_data

        try:
            return featurise_data(one.row.encoder, data, root=self.root, how=self._featurising(precision))
        except ZooError as error:
            self._failed[one.row.encoder] = str(error)
            raise

    def _error(self, one: LocatedRow, data: ImageData, precision: str) -> Row:
        """The error of a probe, measured again."""
        from zoo.evaluation.evaluating import build_probe_maker
        from zoo.evaluation.measuring import compute_mean_error, measure

        row = one.row
        if data.train.tags or data.train.groups is not None:
            raise _SkippedError("Its images have tags or groups, of which rows are not measured again.")
        features = self._features(one, data, precision)
        train, test = features["train"], features["val"]
        _require_same(one, train.origin.weights_hash, train.origin.preprocess_hash, train.origin.code_version)
        protocol = restore_protocol((one.provenance or {})["settings"])
        seed = int(row.seed or 0)
        make = build_probe_maker(
            protocol, device=self.how.device if self.how else None, seed=self._first_seed(row, seed)
        )
        run = measure(train, test, _label_setting(row), seed=seed, probe=make)
        error = compute_mean_error((run,), groups=test.groups)
        measured = replace(
            convert_row(row), n_train=run.n_train, value=error.value, ci_low=error.ci_low, ci_high=error.ci_high
        )
        return convert_measurement(measured)

    def _first_seed(self, row: Row, seed: int) -> int:
        return self.first_seeds.get(get_row_key(row._replace(seed="", n_train="")), seed)

    def _metric(self, one: LocatedRow, data: ImageData, precision: str) -> Row:
        """A metric of features, measured again."""
        from zoo.evaluation.label_free.measuring import compute_metric_inputs, make_metric_rows, measure

        row, needs = one.row, FEATURE_METRICS[one.row.metric].needs
        settings = (one.provenance or {})["settings"]
        if needs == "source and target":
            raise _SkippedError(f"{row.metric!r} transfers to a second data set, and is not measured again.")
        if "augmentations=" in row.protocol:
            raise _SkippedError("Its views were augmented otherwise than the encoder was trained.")
        try:
            inputs = compute_metric_inputs(
                row.encoder,
                data,
                {needs},
                part=row.split.partition(" ")[0],
                **{name: settings[name] for name in ("n_images", "n", "q", "seed")},
                root=self.root,
                how=self._featurising(precision),
            )
            (measured,) = measure(
                [row.metric], inputs, seed=int(row.seed or 0), options={row.metric: dict(settings["options"])}
            )
        except (KeyError, TypeError) as error:
            raise _MismatchError(
                f"Its settings are not those of a metric: {error!r} is missing or of another type."
            ) from error
        if measured.value is None:
            raise _SkippedError(measured.reason)
        ((again, told),) = make_metric_rows([measured], inputs, source=row.source).items()
        _require_same(one, told["weights_hash"], told["preprocess_hash"], told["code_version"])
        if again.protocol != row.protocol or again.split != row.split:
            raise _MismatchError(
                f"Its settings are of the protocol {again.protocol!r} on {again.split!r}, and it says {row.protocol!r} "
                f"on {row.split!r}."
            )
        return convert_measurement(replace(again, dataset=row.dataset, date=row.date))


def _label_setting(row: Row) -> Any:
    from zoo.evaluation.measuring import label_setting

    if row.split == "train -> val":
        return label_setting("full")
    name = row.split.removeprefix("train ").removesuffix(" -> val")
    try:
        setting = label_setting(name)
    except QueryError:
        raise _SkippedError(f"Errors of {row.split!r} are of a decomposition, and are not measured again.") from None
    return setting


def _require_same(one: LocatedRow, weights: str, preprocess: str, code: str) -> None:
    """Refuses to compare numbers of other weights, preprocessing or featurising code."""
    provenance = one.provenance or {}
    for what, now, then in (
        ("weights", weights, provenance.get("weights_hash")),
        ("preprocessing", preprocess, provenance.get("preprocess_hash")),
    ):
        if now != then:
            raise _MismatchError(f"Its {what} have the hash {str(then)[:12]}, and those here {now[:12]}.")
    if code.rpartition(" ")[2] != str(provenance.get("code_version")).rpartition(" ")[2]:
        raise _SkippedError(f"It was measured by {provenance.get('code_version')}, and this is {code}.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw rows, measure them again and print both numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument(
        "--sample", type=int, default=5, metavar="N", help="rows that are measured again; 5 unless given"
    )
    parser.add_argument("--base", action="append", default=[], metavar="PATH", help="the rows as they were before")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument(
        "--images",
        action="append",
        default=[],
        metavar="NAME=IMAGES",
        help="where the images of a data set are; digits, shapes and fashion-mnist are found",
    )
    parser.add_argument("--batch-size", type=int, default=64, help="images per forward pass")
    parser.add_argument("--workers", type=int, default=0, help="processes that decode")
    parser.add_argument("--device", help="where to compute; a GPU if there is one, unless given")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args(arguments)
    images = dict(text.partition("=")[::2] for text in options.images)
    if len(images) < len(options.images) or not all(name and source for name, source in images.items()):
        parser.error(f"got --images {' '.join(options.images)}, expected NAME=IMAGES, each name once")
    from zoo.features.work_items import FeaturisingOptions

    how = FeaturisingOptions(batch_size=options.batch_size, n_workers=options.workers, device=options.device)
    try:
        fresh = check(options.paths, base=options.base).fresh
        done = recompute(fresh, sample=options.sample, seed=options.seed, images=images, how=how, tell=log_progress)
    except ZooError as error:
        sys.exit(f"Error: {error}")
    measured = [one for one in done if one.state != "passed over"]
    others = [one for one in measured if one.state == "other"]
    if options.json:
        passed = [{"reason": reason, "rows": n} for reason, n in count_skipped_rows(done).items()]
        print_json({"recomputed": [one.as_dict() for one in measured], "passed_over": passed})
    else:
        _print_numbers(measured)
        notes = [f"{one.found.place}: {one.reason}" for one in others]
        skipped = count_skipped_rows(done).items()
        print_notes(notes + [f"not measured again, {format_count(n, 'row')}: {reason}" for reason, n in skipped])
    if others:
        sys.exit(f"Error: {len(others)} of {len(measured)} rows came out otherwise.")
    if fresh and not measured:
        sys.exit("Error: No row could be measured again.")


def _print_numbers(measured: Sequence[RecomputedRow]) -> None:
    rows = []
    for one in measured:
        row, now = one.found.row, "" if one.row is None else one.row.value
        what = f"{row.metric} of {row.encoder} on {row.dataset}, {row.split}"
        rows.append([what, row.protocol, row.value, now, one.state])
    if rows:
        print_table(make_table(["row", "protocol", "recorded", "measured now", ""], rows, numbers=[2, 3]))


if __name__ == "__main__":
    main()
