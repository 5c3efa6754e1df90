"""Rows of measurements and their errata, from copies of the checked results files.

One copy has the shipped rows and one the user's, by encoder, so that a row of the user's costs no check of the others;
:mod:`zoo.results.reading` reads and checks the files.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cards.answers import AnswerColumn, AnswerTable, ShownInNotebooks, format_value
from ..cards.catalogue import RULES, load_catalogue
from ..cards.content_cache import CachedContent, Stamp, load_cached_content, read_stamp
from ..errors import UnknownName, format_count, warn
from ..files import get_content_folder, list_content_names, make_cached_lookup, use_shipped_only
from .values import COLUMNS, RISKS, ResultErratum, Row, SeedMean, find_covered

if TYPE_CHECKING:
    from .sqlite_cache import OwnRows


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row of a results file; ``results/README.md`` explains the columns."""

    encoder: str
    metric: str
    dataset: str
    split: str
    n_train: int | None  # None: no probe was trained
    seed: int | None  # None: unknown, or a mean over several
    value: float
    unit: str
    ci_low: float | None  # None: no interval was stated
    ci_high: float | None
    protocol: str
    source: str
    date: str


class Measurements(ShownInNotebooks, list[Measurement]):
    """Rows of results as a list that shows itself in notebooks, as ``.df`` and by ``.plot()``."""

    def build_tables(self) -> list[AnswerTable]:
        """One table of all rows; percent and points have one decimal, other units three digits."""

        def form(row: Measurement, value: float | None) -> str:
            if value is None:
                return ""
            return f"{value:,.1f}" if row.unit in ("percent", "percentage points") else format_value(value)

        columns = []
        for name in (one.name for one in fields(Measurement)):
            values = [getattr(row, name) for row in self]
            is_form = name in ("value", "ci_low", "ci_high")
            heading = "training images" if name == "n_train" else name.replace("_", " ")
            columns.append(AnswerColumn(None if is_form else heading, values, key=name))
            if name == "value":
                columns.append(AnswerColumn("value", [form(row, row.value) for row in self], has_numbers=True))
            if name == "ci_high":
                ends = [
                    "" if row.ci_low is None else f"{form(row, row.ci_low)} to {form(row, row.ci_high)}" for row in self
                ]
                columns.append(AnswerColumn("interval", ends, has_numbers=True))
        n_encoders = len({row.encoder for row in self})
        title = f"{format_count(len(self), 'measurement')} of {format_count(n_encoders, 'encoder')}"
        return [AnswerTable(title=title, columns=columns)]

    def _axis(self) -> str:
        from .vocabulary import METRICS

        names = dict.fromkeys(row.metric for row in self)
        ways = {METRICS[name].lower_is_better for name in names}
        lower = ways.pop() if len(ways) == 1 else None
        way = "" if lower is None else f" ({'lower' if lower else 'higher'} is better)"
        return f"{' or '.join(names).replace('_', ' ')}, {self[0].unit}{way}"


def measurements(
    *,
    metrics: str | Iterable[str] | None = None,
    encoders: str | Iterable[str] | None = None,
    dataset: str | None = None,
    exclude_wrong: bool = False,
) -> Measurements:
    """Rows of all results files, the shipped ones first, then the user's.

    Shipped rows of encoders of an experiment, such as the family ``randomised``, are there only if ``encoders`` names
    one of them.

    Parameters
    ----------
    metrics, encoders : str or iterable of str, optional
        Only this one or these; the case of an encoder's id does not matter.
    dataset : str, optional
        Only rows of this data set.
    exclude_wrong : bool
        Without the rows that an erratum excludes.

    Raises
    ------
    ResultsError
        If a file is unreadable or a row in it is wrong.
    UnknownName
        If there is no such metric or encoder.
    """
    wanted = None if metrics is None else _names(metrics)
    from .vocabulary import METRICS  # which listings do without

    for name in wanted or ():
        if name not in METRICS:
            raise UnknownName("metric", name, METRICS, hint="results/README.md explains them all.")
    ids = None if encoders is None else {load_catalogue().id_of(name) for name in _names(encoders)}
    with_unlisted = not all(map(load_catalogue().lists, ids or ()))
    rows = read_rows(wanted, encoders=ids, dataset=dataset, with_unlisted=with_unlisted)
    if exclude_wrong:
        rows = drop_wrong_rows(rows, errata())
    return Measurements(map(convert_row, rows))


def read_rows(
    metrics: Collection[str] | None = None,
    *,
    encoders: Collection[str] | None = None,
    dataset: str | None = None,
    with_unlisted: bool = False,
) -> list[Row]:
    """Checked rows of all results files, the shipped ones first, then the user's, each in the order of its lines.

    With ``metrics``, ``encoders``, by id, or ``dataset`` only theirs. Shipped rows of encoders of
    experiments are among them if ``with_unlisted``. What is wrong in the user's files is left out, and warned of.
    """
    return read_rows_and_errata(metrics, encoders=encoders, dataset=dataset, with_unlisted=with_unlisted)[0]


def read_rows_and_errata(
    metrics: Collection[str] | None = None,
    *,
    encoders: Collection[str] | None = None,
    dataset: str | None = None,
    with_unlisted: bool = False,
) -> tuple[list[Row], tuple[ResultErratum, ...]]:
    """What :func:`read_rows` and :func:`errata` give, after one look at the files."""
    kinds = ("risks",) if metrics is not None and set(metrics) <= set(RISKS) else ("risks", "others")
    shipped, own = open_stored_rows()
    unlisted = () if with_unlisted else set(shipped["unlisted"])
    wanted = None if encoders is None else frozenset(encoders)
    listed = [one for one in shipped["encoders"] if one not in unlisted and (wanted is None or one in wanted)]
    stored = shipped.select([f"{kind} {one}" for one in listed for kind in kinds])
    found = [(place, Row(name.partition(" ")[2], *fields)) for name, rows in stored.items() for place, *fields in rows]
    rows = [
        row
        for _, row in sorted(found, key=itemgetter(0))
        if (metrics is None or row.metric in metrics) and (dataset is None or row.dataset == dataset)
    ]
    known = shipped["errata"]
    if own is not None:
        rows += own.rows(metrics, wanted, dataset)
        known += own.errata
        warn(own.left_out)
    return rows, tuple(ResultErratum(**one) for one in known)


def errata() -> tuple[ResultErratum, ...]:
    """Every erratum of ``results/errata.toml``, then those of the user's ``results/errata.toml``.

    What is wrong in the user's is left out with a :class:`~zoo.errors.ContentWarning`.

    Raises
    ------
    ResultsError
        If the shipped file is unreadable or an entry in it is wrong.
    """
    return read_rows_and_errata(RISKS, encoders=())[1]


def drop_wrong_rows(rows: Iterable[Row], known: Iterable[ResultErratum]) -> list[Row]:
    """Rows that no erratum excludes."""
    wrong = [erratum for erratum in known if erratum.exclude]
    several = list(rows)
    covered = find_covered(wrong, [(row.encoder, row.metric) for row in several])
    return [row for row, is_wrong in zip(several, covered, strict=True) if not is_wrong]


@make_cached_lookup
def open_stored_rows() -> tuple[CachedContent, OwnRows | None]:
    """The copy of the shipped rows and errata, and that of the user's if there are any."""
    cards, folder = load_catalogue(), str(get_content_folder("results"))
    names = [*list_content_names("results", ".csv"), *list_content_names("results", "errata.toml")]
    stamps = tuple(map(read_stamp, names))
    shipped = _shipped(tuple(one for one in stamps if one[0].startswith(folder)), cards.digests[0])
    own_stamps = tuple(one for one in stamps if not one[0].startswith(folder))
    if not own_stamps:
        return shipped, None
    from .sqlite_cache import read_own_rows  # and SQLite, which others do without

    return shipped, read_own_rows(own_stamps, cards, shipped)


@lru_cache(maxsize=2)
def _shipped(stamps: tuple[Stamp, ...], cards: str) -> CachedContent:
    def read() -> dict[Path, bytes]:
        from .reading import read_files

        with use_shipped_only():
            return read_files(".csv") | read_files("errata.toml")

    def make(sources: Mapping[Path, bytes]) -> dict[str, Any]:
        from .reading import compile_tables

        with use_shipped_only():
            return compile_tables(sources, load_catalogue())

    return load_cached_content(
        "rows", stamps, (*RULES, "results"), read, make, of=get_content_folder("results"), beside=cards
    )


def _names(given: str | Iterable[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def convert_row(row: Row) -> Measurement:
    """A checked row with its numbers as numbers."""
    return Measurement(
        encoder=row.encoder,
        metric=row.metric,
        dataset=row.dataset,
        split=row.split,
        n_train=int(row.n_train) if row.n_train else None,
        seed=int(row.seed) if row.seed else None,
        value=float(row.value),
        unit=row.unit,
        ci_low=float(row.ci_low) if row.ci_low else None,
        ci_high=float(row.ci_high) if row.ci_high else None,
        protocol=row.protocol,
        source=row.source,
        date=row.date,
    )


def convert_measurement(measurement: Measurement) -> Row:
    """The fields of its row, as text from which every number comes back equal.

    >>> one = Measurement("a", "b", "c", "d", 5, None, 0.1 + 0.2, "percent", None, None, "e", "f", "2026-11")
    >>> ",".join(convert_measurement(one))
    'a,b,c,d,5,,0.30000000000000004,percent,,,e,f,2026-11'
    """
    texts = {column: getattr(measurement, column) for column in COLUMNS}
    for column in ("n_train", "seed"):
        texts[column] = "" if texts[column] is None else str(texts[column])
    for column in ("value", "ci_low", "ci_high"):
        texts[column] = "" if texts[column] is None else repr(float(texts[column]))
    return Row(**texts)


def average_over_seeds(rows: Iterable[Measurement]) -> list[SeedMean]:
    """Means of the rows that differ in their seed only, in the order of the first of each."""
    groups: dict[tuple[str | int | None, ...], list[Measurement]] = {}
    for row in rows:
        key = (row.encoder, row.metric, row.dataset, row.split, row.n_train, row.unit, row.protocol, row.source)
        groups.setdefault(key, []).append(row)
    return [_mean(same) for same in groups.values()]


def _mean(same: list[Measurement]) -> SeedMean:
    first, values = same[0], [row.value for row in same]
    low, high = (first.ci_low, first.ci_high) if len(same) == 1 else (min(values), max(values))
    return SeedMean(
        encoder=first.encoder,
        metric=first.metric,
        dataset=first.dataset,
        split=first.split,
        n_train=first.n_train,
        unit=first.unit,
        protocol=first.protocol,
        source=first.source,
        value=math.fsum(values) / len(values),
        n_seeds=len(same),
        low=low,
        high=high,
    )
