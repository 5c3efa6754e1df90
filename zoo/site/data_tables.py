"""``data/``: the tables that visitors take along, each as CSV and as JSON, and the page that lists them.

Numbers are those of ``results/``, to the last digit. No reason for a missing value is lost: in CSV it stands in the
cell ("not applicable"), in JSON the cell is null and its column says which rows lack it why.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar

from ..cards.costs import BATCH_SIZE, Cost, estimate_memory
from ..cards.licences import LICENCES, parse_licence_ids
from ..cards.representations import get_base_id
from ..cards.schema import COLUMNS, NOT_RECORDED, Column, Kind, Missing, format_fact
from ..evaluation.curves.recipe import TASKS, Recipe, describe_recipe, format_base_protocol
from ..evaluation.label_free.catalogue import MEANINGS, SAMPLES_OF
from ..evaluation.label_free.catalogue import PROTOCOLS as FEATURE_PROTOCOLS
from ..evaluation.protocols import PROTOCOLS as PROBES
from ..files import escape_csv_cell, use_shipped_only
from ..results import reported_values
from ..results.derived import summaries
from ..results.facts import FACTS
from ..results.paper_tables import PrintedCheckpoint, PrintedNumber, read_clid_checkpoints, read_printed_label_free
from ..results.reported import reported_numbers
from ..results.rows import errata, read_rows
from ..results.tables import COMPONENTS, EXTENDED_LAYOUT, LAYOUT, STATISTICS, build_published_rows
from ..results.values import SETTINGS, ResultErratum, Row, get_row_key
from ..results.vocabulary import ERRATUM_KINDS, FEATURE_METRICS, METRICS, SPLITS
from .contents import Contents, remove_private
from .dataset_pages import find_measured_sets
from .rendering import File, SiteRenderer, get_dataset_page, get_encoder_page

T = TypeVar("T")
REASONS = tuple(reason.value for reason in Missing)
"""What stands in a cell of a CSV file instead of a fact that has no value."""

_JOINED = "; "  # between the words of a list in CSV
FOLDER = "data"
PAGE = f"{FOLDER}/index.html"


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a table, as its data dictionary has it."""

    name: str
    kind: Kind
    meaning: str
    unit: str = ""
    empty: str = ""  # why a cell is empty, where rows have None and no reason of their own


@dataclass(frozen=True, slots=True)
class DataTable:
    """One table."""

    name: str  # of its files, without suffix
    what: str  # a sentence on its rows
    columns: tuple[Field, ...]
    rows: tuple[Sequence[Any], ...]  # a cell is a value, a reason (Missing), or None: the column says why

    def missing(self, place: int) -> dict[str, list[int]]:
        """Why cells of a column have no value: rows, counted from 0, by reason."""
        found: dict[str, list[int]] = {}
        for number, row in enumerate(self.rows):
            if (cell := row[place]) is None or isinstance(cell, Missing):
                found.setdefault(self.columns[place].empty if cell is None else cell.value, []).append(number)
        return found


class Printed(float):
    """A number that keeps the digits it was printed with."""

    text: str

    def __new__(cls, text: str) -> Printed:
        """The number that a text says."""
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text


def write_csv_bytes(table: DataTable) -> bytes:
    """A header and a line per row, in UTF-8; a fact without a value is its reason, lists are joined by semicolons.

    >>> from zoo.cards.schema import NOT_PUBLISHED
    >>> fields = (Field("a", "number", ""), Field("b", "list", ""), Field("c", "true or false", ""))
    >>> rows = ((Printed("1.50"), ("x", "y"), True), (NOT_PUBLISHED, (), None))
    >>> print(write_csv_bytes(DataTable("t", "", fields, rows)).decode())
    a,b,c
    1.50,x; y,true
    not published,,
    <BLANKLINE>
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([one.name for one in table.columns])
    writer.writerows([[escape_csv_cell(_cell(cell)) for cell in row] for row in table.rows])
    return text.getvalue().encode()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Missing):
        return value.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return _JOINED.join(map(str, value))
    return str(value)


def write_json_bytes(table: DataTable) -> bytes:
    """An object with the name and the columns, each with its distinct values and which of them every row has.

    The first values are null, one a reason in ``missing``. Most cells are like others, so that rows would be thrice it.
    """
    columns = []
    for place, one in enumerate(table.columns):
        reasons = {reason: code for code, reason in enumerate(table.missing(place))}
        codes, cells = dict[str, int](), list[int]()  # codes of texts, for True is 1 to Python
        for row in table.rows:
            if (cell := row[place]) is None or isinstance(cell, Missing):
                cells.append(reasons[one.empty if cell is None else cell.value])
            else:
                cells.append(codes.setdefault(_compact(cell), len(reasons) + len(codes)))
        said = {"name": one.name, "kind": one.kind, "unit": one.unit or None, "meaning": one.meaning}
        head = _compact(said | {"missing": list(reasons)})[:-1]
        columns.append(f'{head},"values":[{",".join([*["null"] * len(reasons), *codes])}],"cells":{_compact(cells)}}}')
    about = {"table": table.name, "what": table.what, "n_rows": len(table.rows)}
    return (_compact(about)[:-1] + ',"columns":[\n' + ",\n".join(columns) + "\n]}\n").encode()


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


# --- the tables ---

_ID = Field("encoder", "text", "id of the encoder")
_MINE = Field("mine", "true or false", "it is the site author's own, and does not come with the zoo")
_WRONG = Field("is_wrong", "true or false", "an erratum says to leave it out")
_LOWER = "lower is better"
_ERRATA = "numbers of the table result_errata that speak of this encoder"


def build_data_tables(contents: Contents) -> list[DataTable]:
    """Every table, of the encoders of the site and what was measured of them; the vocabularies last."""
    with contents.reading():
        known = {one: number for number, one in enumerate(errata(), start=1)}
        rows = [row for row in read_rows(with_unlisted=True) if get_base_id(row.encoder) in contents.entries]
        return [
            _encoders(contents),
            _risks(contents, known),
            _results(contents, rows, known),
            *_study(contents),
            _reported(contents),
            _datasets(contents),
            _costs(contents),
            _card_errata(contents),
            _result_errata(contents, known, rows),
            _licences(contents),
            _metrics(rows),
            _splits(rows),
            _protocols(contents, rows),
            *_printed(),
        ]


def _shipped(read: Callable[[], T]) -> T:
    """What is read without the user's folder."""
    with use_shipped_only():
        return read()


def describe_better(lower_is_better: bool | None) -> str:
    """Which direction is better, in words."""
    return {True: _LOWER, False: "higher is better", None: "neither direction is better"}[lower_is_better]


def _encoders(contents: Contents) -> DataTable:
    columns = [
        Field(one.name, one.kind, one.meaning + f"; {_LOWER}" * one.is_risk, one.unit.partition(",")[0])
        for one in FACTS.values()
    ]
    columns += [Field("page", "text", "its page, from the folder of the site"), _MINE]
    rows = tuple(
        (*(remove_private(fact, entry.subject) for fact in FACTS.values()), get_encoder_page(entry), entry.is_mine)
        for entry in contents.entries.values()
    )
    what = (
        "One row per encoder: the facts of its card, its errors and their components on ImageNet-1K without those that "
        "an erratum says to leave out, and reported accuracies."
    )
    return DataTable("encoders", what, tuple(columns), rows)


def _risks(contents: Contents, known: Mapping[ResultErratum, int]) -> DataTable:
    components = ("approx", "usability", "approx_plus_usability", "probe_gen", "enc_gen")
    columns = [_ID]
    columns += [Field(_name(s.column), "number", f"{FACTS[s.column].meaning}; {_LOWER}", "percent") for s in SETTINGS]
    columns += [
        Field(_name(one), "number", f"{FACTS[one].meaning}, signed; {_LOWER}", "percentage points")
        for one in components
    ]
    columns += [
        Field("approximation_is_assumed", "true or false", "its approximation is 0 by assumption, not by measurement"),
        _WRONG,
        Field("errata", "text", _ERRATA, empty="none does"),
        _MINE,
    ]
    shipped: dict[str, Any] = {one: (found.errors, found.decomposition) for one, found in _shipped(summaries).items()}
    rows = []
    for entry in contents.entries.values():
        if (summary := entry.summary) is None:
            continue
        parts = summary.decomposition
        rows.append(
            (
                entry.id,
                *(summary.errors.get(setting.name, Missing.NOT_PUBLISHED) for setting in SETTINGS),
                *(getattr(parts, _name(one), Missing.NOT_PUBLISHED) for one in components),
                getattr(parts, "approximation_assumed", Missing.NOT_PUBLISHED),
                entry.subject.is_wrong,
                _JOINED.join(str(known[one]) for one in summary.errata) or None,
                shipped.get(entry.id) != (summary.errors, parts),
            )
        )
    what = (
        "One row per encoder that was measured on ImageNet-1K: its errors in five settings, and the components of the "
        "error with all labels, which add up to it. Where only the sum of approximation and usability is known, both "
        f"are missing. The {contents.n_measured} that other pages count are those that no erratum says to leave out."
    )
    return DataTable("risks", what, tuple(columns), tuple(rows))


def _name(column: str) -> str:
    """The clearer name of a column of risks."""
    return FACTS[column].other_name or column


_OF_ROWS = {  # column -> kind, meaning, unit, why it is empty
    "encoder": ("text", "id of the encoder, with @ and the layer where other features than the card's were measured"),
    "metric": ("text", "what was measured: the table metrics explains it"),
    "dataset": ("text", "images and labels"),
    "split": ("text", "images that a probe learned from and was tested on: the table splits explains it"),
    "n_train": ("whole number", "images that the probe was trained on", "images", "no probe was trained"),
    "seed": ("whole number", "of the measurement", "", "not published, or the value is a mean over several"),
    "value": ("number", "what came out, with every digit of results/", "see the column unit"),
    "unit": ("text", "of the value and of the ends of its interval"),
    "ci_low": ("number", "lower end of the 95 % interval", "see the column unit", "no interval was stated"),
    "ci_high": ("number", "upper end of the 95 % interval", "see the column unit", "no interval was stated"),
    "protocol": ("text", "how it was measured: the table protocols explains it; different ones should not be compared"),
    "source": ("text", "who measured: an arXiv identifier, or measured: by the zoo's own scripts"),
    "date": ("text", "day or month of the source or of the measurement"),
}  # fmt: skip


def _results(contents: Contents, rows: Iterable[Row], known: Mapping[ResultErratum, int]) -> DataTable:
    columns = [Field(name, *about) for name, about in _OF_ROWS.items()]  # type: ignore[arg-type]
    columns += [
        _WRONG,
        Field("errata", "text", f"{_ERRATA} and metric", empty="none does"),
        _MINE,
    ]
    shipped = set(map(get_row_key, _shipped(partial(read_rows, with_unlisted=True))))
    made = []
    for row in rows:
        about = [one for one in known if one.encoder != "*" and one.covers(row.encoder, row.metric)]
        made.append(
            (
                *(_of_row(row, name) for name in Row._fields),
                any(one.exclude for one in known if one.covers(row.encoder, row.metric)),
                _JOINED.join(str(known[one]) for one in about) or None,
                get_row_key(row) not in shipped,
            )
        )
    what = (
        "One row per measurement, as the files of results/ have it. Errors and most metrics are by different protocols "
        "and on different data sets: compare within one of each."
    )
    return DataTable("results", what, tuple(columns), tuple(made))


def _of_row(row: Row, name: str) -> Any:
    text = getattr(row, name)
    if text == "":
        return None
    if name in ("n_train", "seed"):
        return int(text)
    return Printed(text) if name in ("value", "ci_low", "ci_high") else text


_DERIVED = {  # columns of the study's table that it derived from others: kind, meaning
    "is_aug_anygeometric": ("whole number", "1 if an augmentation moves or hides pixels, else 0"),
    "is_aug_anycolor": ("whole number", "1 if an augmentation changes colours or sharpness, else 0"),
    "n_augmentations": ("number", "augmentations of pretraining"),
    "nviews": ("whole number", "crops per image"),
    "projection_nparameters_hidden": ("number", "parameters of the projector without its first layer"),
    "date_published": ("text", "first day of the month of publication"),
}


def _study(contents: Contents) -> Iterator[DataTable]:
    """The wide table of the study, corrected and as it was published."""
    few_shot = SETTINGS[-1].column  # measured for the encoders of the published table and no others
    by_name = {column.name: column for column in COLUMNS}
    for as_published in (False, True):
        layout = LAYOUT if as_published else EXTENDED_LAYOUT
        rows = tuple(
            (encoder, *(cells[name] for _, name in layout))
            for encoder, cells in build_published_rows(as_published=as_published, exclude_wrong=False).items()
            if encoder in contents.entries and not isinstance(cells[few_shot], Missing)
        )
        fields_ = tuple(_study_field(section, name, by_name, clipped=as_published) for section, name in layout)
        published = "As it was published: components clipped at 0, wrong facts included."
        what = (
            "The table of the study (arXiv:2302.03068), one row per encoder: its risks, facts and statistics of its "
            "features; zoo.results.tables.results_df() has the same. "
            + (published if as_published else "Facts are corrected and components signed.")
        )
        yield DataTable("study_as_published" if as_published else "study", what, (_ID, *fields_), rows)


def _study_field(section: str, name: str, by_name: Mapping[str, Column], *, clipped: bool) -> Field:
    if name in STATISTICS:
        metric, split = STATISTICS[name]
        meaning = f"{METRICS[metric].meaning}: {metric}, of {SPLITS[split].meaning}"
        return Field(
            name, "number", f"{meaning}; {describe_better(METRICS[metric].lower_is_better)}", METRICS[metric].unit
        )
    if name in _DERIVED:
        kind, meaning = _DERIVED[name]
        return Field(name, kind, meaning)  # type: ignore[arg-type]
    if name.startswith("is_aug_") and name not in by_name:
        return Field(name, "whole number", f"1 if {name.removeprefix('is_aug_')} is among the augmentations, else 0")
    fact = FACTS[name]
    told = fact.meaning
    if section in ("risk_decomposition", "metrics") and fact.is_risk:
        told += (", clipped at 0" if clipped and name in COMPONENTS else "") + f"; {_LOWER}"
    return Field(name, fact.kind, told, fact.unit)


_OF_REPORTED = {  # column -> kind, meaning, why it is empty
    "encoder": ("text", "id of the encoder"),
    "metric": ("text", "what the number counts: the table metrics explains it"),
    "dataset": ("text", "imagenet-1k, or another data set as the source calls it"),
    "split": ("text", "of imagenet-1k: what was trained and tested on", "the source's own"),
    "value": ("number", "the number with every printed digit"),
    "unit": ("text", "of the value"),
    "protocol": ("text", "the protocol, as far as the source states it: see the table protocols"),
    "source": ("text", "repository, site or list that prints it; card: stated by the card"),
    "date": ("text", "when the source was read", "stated by the card"),
    "resolution": ("text", "side of the images in pixels", "the source does not say"),
    "place": ("text", "file, commit, table within the source", "the source is one place"),
    "setting": ("text", "what the protocol leaves open", "the source does not say"),
    "measured_by": ("text", "who measured", "the source does not say"),
    "standing": ("text", "who that is, seen from the weights: authors, reproduction, third party, second hand"),
    "repeats": ("whole number", "draws of labels or trainings, of which the value is the mean", "not stated"),
    "sd": ("number", "standard deviation over the repeats", "not stated"),
    "low": ("number", "lower end of the interval that the source states", "not stated"),
    "high": ("number", "upper end of the interval that the source states", "not stated"),
    "features": ("text", "pooled otherwise than the card's features, and how", "as the card, or not recorded"),
    "remark": ("text", "how to read the number", "nothing to say"),
    "doubt": ("text", "why it should not be believed as it stands", "nothing is known"),
}  # fmt: skip


def _reported(contents: Contents) -> DataTable:
    columns = [
        Field(name, kind, meaning, "see the column unit" if kind == "number" else "", *empty)  # type: ignore[arg-type]
        for name, (kind, meaning, *empty) in _OF_REPORTED.items()
    ]
    shipped = {one.key for one in _shipped(reported_numbers)}
    rows = tuple(
        (
            *(Printed(one.printed) if name == "value" else _of_text(getattr(one, name)) for name in _OF_REPORTED),
            one.key not in shipped,
        )
        for entry in contents.entries.values()
        for one in entry.reported
    )
    what = (
        "One row per reported number of an encoder, by a recipe of its own. None was measured by a "
        "protocol of the zoo, and two of one protocol need not be comparable."
    )
    return DataTable("reported", what, (*columns, _MINE), rows)


def _of_text(value: Any) -> Any:
    return None if value == "" else value


def _datasets(contents: Contents) -> DataTable:
    columns = (
        Field("dataset", "text", "its id, as the table reported has it"),
        Field("title", "text", "its name"),
        Field("domain", "text", "kind of images"),
        Field("n_classes", "whole number", "classes", empty="a task without classes, or not recorded"),
        Field("n_images", "whole number", "of the evaluated split", "images", "not recorded"),
        Field("metric", "text", "what is reported of it, by origin where they differ"),
        Field("in_pretraining", "list", "pretraining sets that contain its training images"),
        Field("n_encoders", "whole number", "of the site that others measured on it"),
        Field("page", "text", "its page, from the folder of the site"),
    )
    rows = tuple(
        (
            name, one.dataset.title, one.dataset.domain, one.dataset.n_classes, one.dataset.n_images,
            one.dataset.metric, one.dataset.in_pretraining, one.n_encoders, get_dataset_page(name),
        )
        for name, one in find_measured_sets(contents).items()
    )  # fmt: skip
    return DataTable("datasets", "One row per data set or task on which others measured encoders.", columns, rows)


_OF_COSTS = {  # field of Cost -> kind, meaning, unit
    "px": ("whole number", "side of the images", "px"),
    "gflops": ("number", "operations of one image; a multiplication and an addition are two", "1e9 operations"),
    "parameter_bytes": ("whole number", "parameters and buffers", "bytes"),
    "activation_bytes": (
        "whole number", "images and intermediate results that are alive at once, the most, an image", "bytes",
    ),
    "fixed_bytes": ("whole number", "intermediate results that do not grow with the batch", "bytes"),
    "written_bytes": ("whole number", "written by all operations, an image", "bytes"),
    "n_operations": ("whole number", "calls of one forward pass", ""),
}  # fmt: skip


def _costs(contents: Contents) -> DataTable:
    columns = [Field(name, *about) for name, about in _OF_COSTS.items()]  # type: ignore[arg-type]
    columns += [
        Field(f"memory_{name}_bytes", "whole number", f"of {words}, for batches of {BATCH_SIZE}", "bytes")
        for name, words in (("gpu", "a GPU with CUDA's context"), ("cpu", "a CPU"))
    ]
    rows: list[Sequence[Any]] = []
    for entry in contents.entries.values():
        if (cost := entry.cost) is None:
            rows.append((entry.id, *[NOT_RECORDED] * len(columns)))
        else:
            memory = [estimate_memory(cost, BATCH_SIZE, device=device) for device in ("cuda", "cpu")]
            rows.append((entry.id, *(getattr(cost, one.name) for one in fields(Cost)), *memory))
    what = (
        "One row per encoder: what one forward pass takes in float32, computed from its network at its own image size."
    )
    return DataTable("costs", what, (_ID, *columns), tuple(rows))


def _card_errata(contents: Contents) -> DataTable:
    columns = (
        _ID,
        Field("field", "text", "dotted name of the fact, or of a whole part of the card"),
        Field("published", "text", "what was published"),
        Field("corrected", "text", "what the card says instead", empty="the whole part is meant"),
        Field("reason", "text", "why what was published is wrong"),
    )
    rows = []
    for entry in contents.entries.values():
        for one in entry.card.errata:
            right = entry.card.fact(one.field)
            corrected = None if is_dataclass(right) else format_fact(right)
            rows.append((entry.id, one.field, format_fact(one.published), corrected, one.reason))
    what = "One row per published fact that is wrong; the table encoders has the corrected one."
    return DataTable("card_errata", what, columns, tuple(rows))


def _result_errata(contents: Contents, known: Mapping[ResultErratum, int], rows: Sequence[Row]) -> DataTable:
    columns = (
        Field("number", "whole number", "of the erratum, to which the column errata of other tables refers"),
        Field("encoder", "text", "id of the encoder, or * for all"),
        Field("metric", "text", "name of the metric, or * for all"),
        Field("kind", "text", "; ".join(f"{kind}: {meaning}" for kind, meaning in ERRATUM_KINDS.items())),
        Field("reason", "text", "what is wrong, and how it is known"),
        Field("exclude", "true or false", "studies that ask for believable rows leave these out"),
        Field("n_rows", "whole number", "rows of the table results that it covers"),
        _MINE,
    )
    shipped = _shipped(errata)
    made = []
    for one, number in known.items():
        if one.encoder == "*" or get_base_id(one.encoder) in contents.entries:
            n_rows, is_mine = sum(one.covers(row.encoder, row.metric) for row in rows), one not in shipped
            made.append((number, one.encoder, one.metric, one.kind, one.reason, one.exclude, n_rows, is_mine))
    what = "One row per measurement, or a whole table, that should not be believed; no row of results/ is ever edited."
    return DataTable("result_errata", what, columns, tuple(made))


def _licences(contents: Contents) -> DataTable:
    columns = (
        Field("licence", "text", "its SPDX id, or LicenseRef- and a name for a text that SPDX has no id for"),
        Field("commercial_use", "text", "yes, no, or conditions: for those who do what the text asks"),
        Field("summary", "text", "in plain words; no legal advice: read the text"),
        Field("url", "text", "its text, or the page that names it", empty="not known"),
        Field("n_encoders", "whole number", "encoders whose weights it is for, wholly or in part"),
    )
    stated = [entry.card.licence.weights for entry in contents.entries.values()]
    n = Counter(one for text in stated if not isinstance(text, Missing) for one in set(parse_licence_ids(text)))
    rows = tuple((one.id, one.commercial_use, one.summary, one.url or None, n[one.id]) for one in LICENCES.values())
    return DataTable("licences", "One row per licence of weights or code that a card names.", columns, rows)


def _metrics(rows: Iterable[Row]) -> DataTable:
    columns = (
        Field("metric", "text", "its name"),
        Field("of", "text", "measured: of the table results; reported: of the table reported"),
        Field("unit", "text", "of its values"),
        Field("better", "text", "lower, higher or neither"),
        Field("meaning", "text", "what it says"),
        Field("source", "text", "who proposed it", empty="see results/README.md of the repository"),
        Field("n_rows", "whole number", "rows of the table results", empty="of the table reported"),
    )
    counted = Counter(row.metric for row in rows)
    words = {True: "lower", False: "higher", None: "neither"}
    made: list[Sequence[Any]] = []
    for one in METRICS.values():
        source = FEATURE_METRICS[one.name].source if one.name in FEATURE_METRICS else None
        better = words[one.lower_is_better]
        made.append((one.name, "measured", one.unit, better, one.meaning, source, counted[one.name]))
    for other in reported_values.METRICS.values():
        better = words[not other.higher_is_better]
        made.append((other.name, "reported", " or ".join(other.units), better, other.meaning, None, None))
    return DataTable("metrics", "One row per metric, of measurements and of reported numbers.", columns, tuple(made))


def _splits(rows: Iterable[Row]) -> DataTable:
    columns = (
        Field("split", "text", "its name"),
        Field("n_train", "whole number", "labels of ImageNet-1K that a probe was trained on", "images", "no probe"),
        Field("meaning", "text", "which images"),
        Field("n_rows", "whole number", "rows of the table results"),
    )
    counted = Counter(row.split for row in rows)
    made = tuple((one.name, one.n_train, one.meaning, counted[one.name]) for one in SPLITS.values())
    what = (
        "One row per split that has a name of its own; others have any number of labels, such as "
        "'train 10-shot -> val', 'train 0.5% -> val' and 'train 300 images -> val'."
    )
    return DataTable("splits", what, columns, made)


_PUBLISHED = {
    "ssl-risk-decomposition": "as the paper describes it: with all labels a probe trained by gradient descent, its "
    "settings tuned in 30 trials on a tenth of the data; with few labels a logistic regression whose regularisation is "
    "tuned in 30 trials; settings are tuned on data like those of the evaluation. A twin is a downloaded supervised "
    "network",
    "assumed zero": "a twin that could not be downloaded; its error was set to 0 on every split",
    "clipped at 0": "a component as it was published, after negative ones had been set to 0",
}


def _protocols(contents: Contents, rows: Iterable[Row]) -> DataTable:
    columns = (
        Field("protocol", "text", "its name; behind it rows have in brackets what differs, as in (k=5)"),
        Field("of", "text", "measured: of the table results; reported: of the table reported"),
        Field("meaning", "text", "how a number is measured"),
        Field("options", "text", "every option that may move a number, as JSON", empty="the source tells them"),
        Field("n_rows", "whole number", "rows of the table, with any options"),
    )
    counted = Counter(row.protocol.partition(" (")[0] for row in rows)
    others = Counter(one.protocol for entry in contents.entries.values() for one in entry.reported)
    measured: list[tuple[str, str, Any]] = [(name, meaning, None) for name, meaning in _PUBLISHED.items()]
    measured += [(one.name, one.meaning, {**one.settings, **one.rules}) for one in PROBES.values()]
    for kind, name in FEATURE_PROTOCOLS.items():
        options = {one.name: dict(one.options) for one in FEATURE_METRICS.values() if one.kind == kind}
        measured.append((name, MEANINGS[kind], {**SAMPLES_OF[kind], **options}))
    for task in TASKS.values():
        trained = f"encoder and {task.decoder}, trained by the {task.loss}, or a control"
        measured.append(
            (format_base_protocol(task), f"learning curve, {task.meaning}: {trained}", describe_recipe(Recipe()))
        )
    made: list[Sequence[Any]] = [
        (name, "measured", meaning, None if options is None else json.dumps(options, sort_keys=True), counted[name])
        for name, meaning, options in measured
    ]
    made += [(one.name, "reported", one.meaning, None, others[one.name]) for one in reported_values.PROTOCOLS.values()]
    return DataTable("protocols", "One row per protocol.", columns, tuple(made))


_OF_PRINTED = {  # fields of PrintedNumber -> kind, meaning, unit, why it is empty
    "paper": ("text", "identifier of the paper"),
    "table": ("text", "its table or figure"),
    "page": ("whole number", "its page", "", "the text that was read has no page numbers"),
    "population": ("text", "whose checkpoints"),
    "n": ("whole number", "checkpoints that the number is about", "", "the paper does not state it"),
    "metric": ("text", "the label-free metric; oracle: accuracy on ImageNet"),
    "variant": ("text", "branch, samples or views it was computed from", "", "there is one only"),
    "negated": ("true or false", "the printed metric is minus ours, so that more is better"),
    "statistic": ("text", "what the number is"),
    "target": ("text", "data set whose accuracy is predicted or recovered"),
    "hyperparameter": ("text", "what varies between the checkpoints", "", "nothing does"),
    "value": ("number", "the number as it is printed", "see the column unit"),
    "decimals": ("whole number", "digits printed behind the point"),
    "unit": ("text", "of the value"),
    "note": ("text", "what contradicts it, or how to read it", "", "nothing to say"),
}
_OF_CHECKPOINTS = {
    "name": ("text", "as the paper has it"),
    "method": ("text", "as the paper has it"),
    "architecture": ("text", "as the paper has it"),
    "encoder": ("text", "id of the encoder with the same weights", "", "there is none, or it is left open which"),
    "note": ("text", "how the two were matched", "", "nothing to say"),
}


def _printed() -> Iterator[DataTable]:
    """What three papers print of label-free metrics; of no encoder of the zoo, so that they are in every site."""
    numbers = (
        "One row per number that the papers of RankMe, LiDAR and CLID print of how label-free metrics predict and "
        "select checkpoints."
    )
    checkpoints = "The 28 checkpoints behind the correlations of the CLID paper."
    about: list[tuple[str, str, Mapping[str, Any], Sequence[PrintedNumber | PrintedCheckpoint]]] = [
        ("printed_label_free", numbers, _OF_PRINTED, read_printed_label_free()),
        ("printed_checkpoints", checkpoints, _OF_CHECKPOINTS, read_clid_checkpoints()),
    ]
    for name, what, described, records in about:
        columns = tuple(Field(key, *words) for key, words in described.items())
        yield DataTable(
            name, what, columns, tuple(tuple(_of_printed(one, key) for key in described) for one in records)
        )


def _of_printed(one: PrintedNumber | PrintedCheckpoint, name: str) -> Any:
    value = getattr(one, name)
    if name == "value" and isinstance(one, PrintedNumber):
        return Printed(f"{value:.{one.decimals}f}")
    return _of_text(value)


def build_dictionary(made: Iterable[DataTable]) -> DataTable:
    """The columns of all tables as a table."""
    columns = (
        Field("table", "text", "its name"),
        Field("column", "text", "its name"),
        Field("kind", "text", "text, whole number, number, true or false, or list"),
        Field("unit", "text", "of its values", empty="it has none"),
        Field("meaning", "text", "what it says"),
        Field("empty", "text", "what an empty cell of the CSV file, or null, means", empty="no cell is empty"),
    )
    rows = tuple(
        (table.name, one.name, one.kind, one.unit or None, one.meaning, one.empty or None)
        for table in made
        for one in table.columns
    )
    return DataTable("dictionary", "One row per column of every other table.", columns, rows)


# --- the page and its files ------------------------------------------------------------------------------------------


def build_files(contents: Contents, renderer: SiteRenderer) -> Iterator[File]:
    """Two files per table, and the page."""
    found = build_data_tables(contents)
    found.append(build_dictionary(found))
    listed = []
    for table in found:
        as_csv, as_json = write_csv_bytes(table), write_json_bytes(table)
        yield File(f"{FOLDER}/{table.name}.csv", as_csv)
        yield File(f"{FOLDER}/{table.name}.json", as_json)
        columns = []
        for place, column in enumerate(table.columns):  # why cells have no value: "not published (12)"
            reasons = sorted(((-len(rows), reason) for reason, rows in table.missing(place).items()), key=itemgetter(0))
            columns.append((column, ", ".join(f"{reason} ({-n:,})" for n, reason in reasons)))
        listed.append((table, columns, format_file_size(len(as_csv)), format_file_size(len(as_json))))
    yield renderer.page("data.html.jinja", PAGE, title="Data", kind="data", listed=listed, contents=contents)


def format_file_size(n_bytes: int) -> str:
    """A size of a file.

    >>> format_file_size(812), format_file_size(38_595), format_file_size(1_867_326)
    ('1 kB', '39 kB', '1.9 MB')
    """
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{max(round(n_bytes / 1e3), 1)} kB"
