"""Writes the generated parts of the documentation, between markers in the files that hold them.

Run it with ``make docs`` after a card or a schema has changed; a test fails when a part is stale.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from zoo.cards.catalogue import catalogue
from zoo.cards.licences import LICENCES, licence_ids
from zoo.cards.reading import expectation
from zoo.cards.schema import COLUMNS, EncoderCard, Missing
from zoo.errors import ZooError
from zoo.evaluation.curves.recipe import TASKS, Recipe, Task, base_protocol, recipe_dict
from zoo.evaluation.label_free.catalogue import protocol_row
from zoo.evaluation.protocols import protocols_table
from zoo.results.rows import checksums_text, measurements
from zoo.results.vocabulary import LABEL_FREE_METRICS, METRICS, SPLITS
from zoo.studies.running import studies

ROOT = Path(__file__).resolve().parent.parent
CHECKSUMS = "results/CHECKSUMS"


def families_table() -> str:
    """One row a card file: how many encoders, of which architectures, under which licences, how many measured."""
    cards: dict[str, list[EncoderCard]] = defaultdict(list)
    for card in catalogue().values():
        cards[card.family].append(card)
    measured = {row.encoder for row in measurements(metrics="linear_probe_error")}
    rows = [
        "| family | encoders | measured | architectures | licence of the weights | commercial use | paper |",
        "|---|--:|--:|---|---|---|---|",
    ]
    for family, members in sorted(cards.items()):
        rows.append(
            f"| [{family}](../metadata/{family}.toml) | {len(members)} "
            f"| {sum(card.id in measured for card in members)} "
            f"| {_listed({card.architecture.name for card in members})} "
            f"| {_listed({_word(card.licence.weights) for card in members})} "
            f"| {_listed({_word(card.commercial_use) for card in members})} "
            f"| {_listed({_paper(card) for card in members})} |"
        )
    total = sum(map(len, cards.values()))
    n_measured = sum(card.id in measured for card in catalogue().values())
    rows.append(f"| **{len(cards)} families** | **{total}** | **{n_measured}** | | | | |")
    return "\n".join(rows)


def fields_table() -> str:
    """One row a fact of a card: its dotted name, what it takes, and its name in tables."""
    in_tables = defaultdict(list)
    for column in COLUMNS:
        in_tables[column.field].append(column)
    rows = ["| field | takes | in tables | meaning |", "|---|---|---|---|"]
    for part, hint in get_type_hints(EncoderCard).items():
        if part in ("id", "family", "errata"):
            continue
        if not (isinstance(hint, type) and is_dataclass(hint)):
            rows.append(
                _field_row(part, "a month like `2021-04`, or `not published`", in_tables[part], "month of publication")
            )
            continue
        hints, comments = get_type_hints(hint), _comments(hint)
        for field in fields(hint):
            dotted = f"{part}.{field.name}"
            rows.append(_field_row(dotted, _takes(hints[field.name]), in_tables[dotted], comments[field.name]))
    return "\n".join(rows)


def _field_row(dotted: str, takes: str, columns: list[Any], meaning: str) -> str:
    names = ", ".join(f"`{column.name}`" for column in columns)
    return f"| `{dotted}` | {takes} | {names} | {meaning} |"


def _comments(part: type) -> dict[str, str]:
    """What a field means is said once, in the comment beside it."""
    return dict(re.findall(r"^    (\w+): .*?  # (.+)$", inspect.getsource(part), flags=re.MULTILINE))


def _takes(hint: Any) -> str:
    text = expectation(hint)
    words = " or one of the words " + ", ".join(repr(reason.value) for reason in Missing)
    return text.replace(words, " †").replace("'", "`")


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))


def _word(value: Any) -> str:
    return value.value if isinstance(value, Missing) else str(value)


def _paper(card: EncoderCard) -> str:
    if isinstance(card.paper.url, Missing):
        return _word(card.paper.title)
    return f"[{card.paper.url.rsplit('/', 1)[-1]}]({card.paper.url})"


def licences_table() -> str:
    """One row a licence of weights or code that a card names."""
    of_weights, named = Counter[str](), set()
    for card in catalogue().values():
        for count, fact in ((True, card.licence.weights), (False, card.licence.code)):
            ids = [] if isinstance(fact, Missing) else list(licence_ids(fact))
            named.update(ids)
            of_weights.update(ids if count else ())
    rows = ["| licence | weights of | commercial use | in plain words |", "|---|--:|---|---|"]
    rows += [
        f"| [{terms.id}]({terms.url}) | {of_weights[terms.id]} | {terms.commercial_use} | {terms.summary} |"
        for terms in LICENCES.values()
        if terms.id in named
    ]
    return "\n".join(rows)


def studies_table() -> str:
    """One row a study: its name and its question."""
    rows = ["| study | question |", "|---|---|"]
    rows += [
        f"| [{study.name}]({study.path.name}{'/' * study.path.is_dir()}) | {study.question} |"
        for study in studies().values()
    ]
    return "\n".join(rows)


def metrics_table() -> str:
    """One row a word for what was measured."""
    rows = ["| metric | unit | better | splits | meaning |", "|---|---|---|---|---|"]
    groups = {
        tuple(name for name, split in SPLITS.items() if (split.n_train is not None) is probe): text
        for text, probe in (("all with a probe", True), ("all without a probe", False))
    }
    better = {True: "lower", False: "higher", None: "neither"}
    for metric in METRICS.values():
        splits = groups.get(metric.splits) or ", ".join(f"`{split}`" for split in metric.splits)
        splits += ", any number of labels" * metric.any_labels
        splits += ", any number of images" * metric.any_images
        rows.append(
            f"| `{metric.name}` | {metric.unit} | {better[metric.lower_is_better]} | {splits} | {metric.meaning} |"
        )
    return "\n".join(rows)


def label_free_table() -> str:
    """One row a label-free metric."""
    rows = ["| metric | `zoo metric` | needs | better | source |", "|---|---|---|---|---|"]
    better = {True: "higher", False: "lower", None: "neither"}
    for one in LABEL_FREE_METRICS.values():
        rows.append(f"| {one.title} | `{one.name}` | {one.needs} | {better[one.higher_is_better]} | {one.source} |")
    return "\n".join(rows)


def curve_protocol_row(task: Task) -> str:
    """One row for learning curves of a task: what is trained, with every option of the recipe and every rule."""
    settings = recipe_dict(Recipe())
    rules = settings.pop("rules")
    options = "; ".join(f"{name} {json.dumps(value)}" for name, value in settings.items())
    told = "; ".join(f"{name}: {rule}" for name, rule in rules.items())
    meaning = (
        f"learning curve, {task.meaning}: encoder and {task.decoder}, trained by the {task.loss}, or a control of the "
        f"same architecture. {told}"
    )
    return f"| `{base_protocol(task)}` | {meaning} | Recipe: {options} |"


def all_protocols_table() -> str:
    """Those of probes, that of label-free metrics, and those of learning curves."""
    return "\n".join([protocols_table(), protocol_row(), *map(curve_protocol_row, TASKS.values())])


GENERATED: dict[str, dict[str, Callable[[], str]]] = {
    "docs/families.md": {"families": families_table},
    "docs/label-free.md": {"label_free": label_free_table},
    "metadata/README.md": {"licences": licences_table, "fields": fields_table},
    "analysis/README.md": {"studies": studies_table},
    "results/README.md": {"metrics": metrics_table, "protocols": all_protocols_table},
}


def render(text: str, parts: dict[str, Callable[[], str]]) -> str:
    """The text with every generated part renewed."""
    for name, make in parts.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        head, found, rest = text.partition(begin)
        _, closed, tail = rest.partition(end)
        if not found or not closed:
            raise SystemExit(f"The markers {begin} and {end} are missing; put them back.")
        text = f"{head}{begin}\n{make()}\n{end}{tail}"
    return text


def main() -> None:
    with tempfile.TemporaryDirectory() as empty:
        os.environ["ZOO_HOME"] = empty  # what a developer keeps at home is nobody else's business
        try:
            _renew_all()
        except ZooError as error:
            raise SystemExit(f"Nothing was renewed: {error}") from error


def _renew_all() -> None:
    renewed = {file: render((ROOT / file).read_text(), parts) for file, parts in GENERATED.items()}
    renewed[CHECKSUMS] = checksums_text()
    for file, new in renewed.items():
        path = ROOT / file
        is_fresh = path.is_file() and path.read_text() == new
        if not is_fresh:
            path.write_text(new)
        print(f"{file}: {'fresh' if is_fresh else 'renewed'}", file=sys.stderr)


if __name__ == "__main__":
    main()
