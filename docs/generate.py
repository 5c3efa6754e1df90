"""Writes the generated parts of the documentation, between markers in the files that hold them.

Run it with ``make docs`` after a card or a schema has changed; a test fails when a part is stale.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import textwrap
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean as mean_of
from statistics import stdev
from typing import Any, get_type_hints

from click.testing import CliRunner

from zoo.cards.catalogue import load_catalogue, read_card_files
from zoo.cards.descriptions import read_meanings
from zoo.cards.licences import LICENCES, parse_licence_ids
from zoo.cards.reading import describe_expected
from zoo.cards.schema import COLUMNS, EncoderCard, Missing
from zoo.cards.search import Family, list_families
from zoo.choosing.choosing import choose
from zoo.cli import zoo as command_line
from zoo.cli.output import print_table
from zoo.errors import ZooError
from zoo.evaluation.curves.recipe import TASKS, Recipe, TransferTask, describe_recipe, format_base_protocol
from zoo.evaluation.label_free.catalogue import PROTOCOLS as FEATURE_PROTOCOLS
from zoo.evaluation.label_free.catalogue import format_protocol_row
from zoo.evaluation.protocols import format_protocols_table
from zoo.results import reported_values
from zoo.results.derived import find_measured_encoders
from zoo.results.reading import format_checksums
from zoo.results.rows import average_over_seeds, measurements
from zoo.results.vocabulary import LABEL_FREE_METRICS, METRICS, SPLITS, TRANSFERABILITY_SCORES, FeatureMetric
from zoo.studies.running import list_studies

ROOT = Path(__file__).resolve().parent.parent
CHECKSUMS = "results/CHECKSUMS"


_MODES = {  # headings of families.md, in its order
    "language_supervised": "With text",
    "hybrid": "Several self-supervised losses",
    "latent_prediction": "Latent prediction",
    "clustering": "Clustering and self-distillation",
    "siamese": "Siamese, without negatives",
    "contrastive": "Contrastive",
    "hierarchical": "Dense and local",
    "generative": "Generative: masked images",
    "autoregressive": "Autoregressive",
    "transform": "Predicting transformations",
    "distillation": "Distilled from other encoders",
    "weakly_supervised": "Weakly supervised",
    "supervised": "Supervised",
    "initialized": "Untrained",
}
_COLUMNS = (
    "family", "encoders", "measured", "architectures", "images", "commercial use", "licence of the weights", "weights",
    "paper",
)  # fmt: skip
_MOST_LISTED = 5  # words of one cell; the rest is counted


def families_at_a_glance() -> str:
    """A row each way of training, its largest families, and how many encoders may be used for what."""
    rows = [
        "| training | families | encoders | measured | commercial use allowed | weights open |",
        "|---|---|--:|--:|--:|--:|",
    ]
    cards, measured = load_catalogue(), find_measured_encoders(load_catalogue())
    for mode, heading in _MODES.items():
        members = [encoder for encoder, its in cards.column("objective.mode").items() if its == mode]
        found = sorted(list_families(cards, members), key=lambda one: -len(one.encoders))
        if found:
            rows.append(
                f"| {heading.lower()} | {_in_short([one.name for one in found])} {_counts(members, measured)} |"
            )
    everything = f"**{len(list_families(cards)):,} families**"
    rows.append(f"| **all** | {everything} {_counts(list(cards), measured, bold='**')} |")
    return "\n".join(rows)


def _in_short(names: Sequence[str]) -> str:
    others = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {others} more" if others > 0 else "")


def _counts(members: Sequence[str], measured: Collection[str], *, bold: str = "") -> str:
    cards = load_catalogue()
    n_measured = sum(encoder in measured for encoder in members)
    n_commercial = sum(cards.column("commercial_use")[encoder] == "yes" for encoder in members)
    n_open = sum(cards.column("weights.availability")[encoder] == "open" for encoder in members)
    return " ".join(f"| {bold}{n:,}{bold}" for n in (len(members), n_measured, n_commercial, n_open))


def families_counts() -> str:
    """How many encoders there are of which kind, a line each fact."""
    cards = load_catalogue()
    facts = {
        "images": "pretraining.domain",
        "architecture": "architecture.family",
        "commercial use": "commercial_use",
        "licence of the weights": "licence.weights",
        "weights": "weights.availability",
    }
    rows = ["| what | encoders |", "|---|---|"]
    for name, field in facts.items():
        found = Counter(cards.column(field).values()).most_common()
        counted = [f"{_word(value)} {n:,}" for value, n in found]
        rows.append(f"| {name} | {', '.join(counted)} |")
    return "\n".join(rows)


def families_tables() -> str:
    """A section each way of training, with a row per family: counts, architectures, images, use, access, paper."""
    cards, measured, files = load_catalogue(), find_measured_encoders(load_catalogue()), _files_by_family()
    by_mode: dict[str, list[Family]] = defaultdict(list)
    for family in list_families(cards):
        known = family.known("objective.mode")
        by_mode[known[0] if known else "other"].append(family)
    sections = []
    for mode, heading in {**_MODES, "other": "Training not recorded"}.items():
        found = by_mode.get(mode, [])
        if found:
            n = sum(len(family.encoders) for family in found)
            counts = f"{_many(len(found), 'family', 'families')}, {_many(n, 'encoder', 'encoders')}."
            head = [f"| {' | '.join(_COLUMNS)} |", "|---|--:|--:" + "|---" * (len(_COLUMNS) - 3) + "|"]
            sections += [f"## {heading}\n\n{counts}\n", *head]
            sections += [_family_row(family, measured, files[family.name]) for family in found] + [""]
    return "\n".join(sections).rstrip()


def _family_row(family: Family, measured: Collection[str], files: Sequence[str]) -> str:
    first, *others = [f"(../metadata/{file})" for file in files]
    links = " ".join([f"[{family.name}]{first}", *(f"[{number}]{file}" for number, file in enumerate(others, start=2))])
    n_measured = sum(encoder in measured for encoder in family.encoders)
    cells = [
        links,
        f"{len(family.encoders)}",
        f"{n_measured}",
        _in_short(sorted(family.known("architecture.name"))),
        _told(family, "pretraining.domain"),
        _told(family, "commercial_use"),
        _told(family, "licence.weights"),
        _told(family, "weights.availability"),
        _in_short(list(dict.fromkeys(_paper(load_catalogue()[encoder]) for encoder in family.encoders))),
    ]
    return f"| {' | '.join(cells)} |"


def _told(family: Family, field: str) -> str:
    """Values of a fact; with counts if there are several."""
    found = family.values(field)
    if len(found) == 1:
        return _word(next(iter(found)))
    return _in_short([f"{_word(value)} {n}" for value, n in found.items()])


def _files_by_family() -> dict[str, list[str]]:
    """Names of card files, that of the family's own name first."""
    files: dict[str, list[str]] = defaultdict(list)
    for path, content in read_card_files().items():
        if path.parent.name == "metadata":
            files[tomllib.loads(content.decode()).get("family", path.stem)].append(path.name)
    return {family: sorted(names, key=lambda name: (name != f"{family}.toml", name)) for family, names in files.items()}


def _many(n: int, one: str, several: str) -> str:
    return f"{n:,} {one if n == 1 else several}"


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
        hints = get_type_hints(hint)
        for field in fields(hint):
            dotted = f"{part}.{field.name}"
            rows.append(_field_row(dotted, _takes(hints[field.name]), in_tables[dotted], read_meanings()[dotted]))
    return "\n".join(rows)


def _field_row(dotted: str, takes: str, columns: list[Any], meaning: str) -> str:
    names = ", ".join(f"`{column.name}`" for column in columns)
    return f"| `{dotted}` | {takes} | {names} | {meaning} |"


def _takes(hint: Any) -> str:
    text = describe_expected(hint)
    words = " or one of the words " + ", ".join(repr(reason.value) for reason in Missing)
    return text.replace(words, " †").replace("'", "`")


def _word(value: Any) -> str:
    return value.value if isinstance(value, Missing) else str(value)


def _paper(card: EncoderCard) -> str:
    if isinstance(card.paper.url, Missing):
        return _word(card.paper.title)
    return f"[{card.paper.url.rsplit('/', 1)[-1]}]({card.paper.url})"


def licences_table() -> str:
    """One row a licence of weights or code that a card names."""
    of_weights, named = Counter[str](), set()
    for card in load_catalogue().values():
        for count, fact in ((True, card.licence.weights), (False, card.licence.code)):
            ids = [] if isinstance(fact, Missing) else list(parse_licence_ids(fact))
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
    """One row per study: its name and its question."""
    rows = ["| study | question |", "|---|---|"]
    rows += [
        f"| [{study.name}]({study.path.name}{'/' * study.path.is_dir()}) | {study.question} |"
        for study in list_studies().values()
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


def feature_metrics_table(metrics: Mapping[str, FeatureMetric]) -> str:
    """One row per metric of features of one kind."""
    rows = ["| metric | `zoo metric` | needs | better | source |", "|---|---|---|---|---|"]
    better = {True: "higher", False: "lower", None: "neither"}
    for one in metrics.values():
        rows.append(f"| {one.title} | `{one.name}` | {one.needs} | {better[one.higher_is_better]} | {one.source} |")
    return "\n".join(rows)


def curve_protocol_row(task: TransferTask) -> str:
    """One row for learning curves of a task: what is trained, with every option of the recipe and every rule."""
    settings = describe_recipe(Recipe())
    rules = settings.pop("rules")
    options = "; ".join(f"{name} {json.dumps(value)}" for name, value in settings.items())
    told = "; ".join(f"{name}: {rule}" for name, rule in rules.items())
    meaning = (
        f"learning curve, {task.meaning}: encoder and {task.decoder}, trained by the {task.loss}, or a control of the "
        f"same architecture. {told}"
    )
    return f"| `{format_base_protocol(task)}` | {meaning} | Recipe: {options} |"


def all_protocols_table() -> str:
    """Those of probes, those of metrics of features, and those of learning curves."""
    of_features = map(format_protocol_row, FEATURE_PROTOCOLS)
    return "\n".join([format_protocols_table(), *of_features, *map(curve_protocol_row, TASKS.values())])


def reported_protocols_table() -> str:
    """One row a way in which somebody came by a reported number."""
    rows = ["| protocol | meaning |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{one.name}` | {one.meaning} |" for one in reported_values.PROTOCOLS.values())])


def reported_metrics_table() -> str:
    """One row per metric of reported numbers."""
    rows = ["| metric | unit | better | meaning |", "|---|---|---|---|"]
    for one in reported_values.METRICS.values():
        better = "higher" if one.higher_is_better else "lower"
        rows.append(f"| `{one.name}` | {' or '.join(one.units)} | {better} | {one.meaning} |")
    return "\n".join(rows)


def standings_table() -> str:
    """One row a standing of those who measured."""
    rows = ["| standing | measured by |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{name}` | {meaning} |" for name, meaning in reported_values.STANDINGS.items())])


_COMPARED = {  # rows of two protocols -> words
    ("linear_probe_error", "train -> val"): "full-shot error",
    ("linear_probe_error", "train 5-shot -> val"): "5-shot error",
    ("linear_probe_error", "train -> train"): "approximation + usability",
    ("probe_generalization", "train -> val"): "probe generalization",
    ("encoder_generalization", "train -> val"): "encoder generalization",
}
_PAIRS = (("ssl-risk-decomposition", "zoo-logistic-3"), ("zoo-logistic-2", "zoo-logistic-3"))


def protocol_differences() -> str:
    """By how much two protocols differ on encoders that have both, by data set and risk, from results/."""
    rows = ["| the second less the first | images | risk | encoders with both | mean | standard deviation | range |"]
    rows.append("|---|---|---|--:|--:|--:|---|")
    means = average_over_seeds(measurements(metrics=sorted({metric for metric, _ in _COMPARED})))
    for first, second in _PAIRS:
        before = len(rows)
        for dataset in dict.fromkeys(mean.dataset for mean in means):
            for (metric, split), words in _COMPARED.items():
                some = [one for one in means if (one.dataset, one.metric, one.split) == (dataset, metric, split)]
                by = [
                    {
                        one.encoder: one.value
                        for one in some
                        if one.protocol in (name, name.replace("zoo-", "zoo-risk-"))
                    }
                    for name in (first, second)
                ]
                apart = [by[1][name] - by[0][name] for name in by[0] if name in by[1]]
                if len(apart) > 1:
                    numbers = f"{mean_of(apart):+.1f} | {stdev(apart):.1f} | {min(apart):+.1f} to {max(apart):+.1f}"
                    rows.append(f"| `{first}`, `{second}` | {dataset} | {words} | {len(apart)} | {numbers} |")
        if len(rows) == before:
            rows.append(f"| `{first}`, `{second}` | none | all | 0 | | | |")
    return "\n".join(rows)


_CHOSEN_FROM = (
    "pocket_simclr_rn_shapes", "pocket_sup_rn_shapes", "pocket_simclr_rn_shapes_d24", "pocket_sup_rn_shapes_d24",
)  # fmt: skip
_OF_DEVICES = ("images/s", "memory")  # columns that differ from machine to machine


def counters_table(kind: str) -> str:
    """What counters of operations say of the networks of a kind, as they print it and as a share of ours."""
    found = json.loads((ROOT / "docs" / "counters.json").read_text(encoding="utf-8"))
    networks = [network for network in found["counted"] if network.startswith("ViT") == (kind == "transformers")]

    def cell(network: str, counter: str) -> str:
        counted, each = found["counted"][network][counter], found["operations_each"][counter]
        if isinstance(counted, str):
            return "fails"
        return f"{counted / 1e9:.2f} ({each * counted / found['ours'][network]:.1%})".replace("%)", " %)")

    rows = [["counter, in 1e9", "counts", *networks]]
    rows += [["**zoo**", "operations", *(f"**{found['ours'][network] / 1e9:.2f}**" for network in networks)]]
    for counter, each in found["operations_each"].items():
        unit = "operations" if each == 1 else "multiply-adds"
        rows.append([counter, unit, *(cell(network, counter) for network in networks)])
    rows.insert(1, ["---", "---", *["---:"] * len(networks)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def counters_versions() -> str:
    """When and with what was counted."""
    found = json.loads((ROOT / "docs" / "counters.json").read_text(encoding="utf-8"))
    versions = ", ".join(f"{package} {version}" for package, version in found["versions"].items())
    return f"Counted on {found['made']} with Python {found['python']}, {versions}."


def choice_of_digits() -> str:
    """What the example of ``zoo choose`` answers, without what depends on the device."""
    choice = choose("digits", encoders=_CHOSEN_FROM, device="cpu")
    (ranked,) = choice.build_tables()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        print_table(replace(ranked, columns=[one for one in ranked.columns if one.heading not in _OF_DEVICES]))
    said = [line for text in ranked.answer for line in textwrap.wrap(text, 120, break_long_words=False)]
    return "\n".join(["```", ranked.title, "", printed.getvalue().rstrip("\n"), "", *said, "```"])


_ROW = {"encoder": "sup_efficientnet_lite0", "metric": "linear_probe_error", "split": "train 5-shot -> val"}
_SAYS = {
    "encoder": "what was measured: `zoo show` has its card",
    "metric": "what was measured about it: the top-1 error of a linear probe on frozen features",
    "dataset": "on which images",
    "split": "what the probe was trained on and tested on: here 5 labels per class, and all test images",
    "n_train": "training images of the probe",
    "seed": "which draw of these labels; other rows have others, and tables show their mean and range",
    "value": "the number, with every digit",
    "unit": "its unit: an error in percent, so that lower is better",
    "ci_low": "lower end of the 95 % interval, over test images",
    "ci_high": "its upper end",
    "protocol": "by which probe, with all its options: compare within one",
    "source": "who measured it: this project; an arXiv number is a paper's",
    "date": "when",
}


def annotated_row() -> str:
    """One row of the results, a line per column, with what the column says."""
    rows = measurements(metrics=_ROW["metric"], encoders=_ROW["encoder"])
    one = next(row for row in rows if row.split == _ROW["split"] and row.protocol == "zoo-logistic-3")
    cells = [f"| `{name}` | {getattr(one, name)} | {says} |" for name, says in _SAYS.items()]
    return "\n".join(["| column | this row | what it says |", "|---|---|---|", *cells])


def recommended() -> str:
    """What the first command of the README prints."""
    options = "--labels 10000 --max-parameters 100M --licence permissive --top 3"
    table, *_ = CliRunner().invoke(command_line, ["recommend", *options.split()]).stdout.split("\n=")
    return f"```\n$ zoo recommend {options}\n{table.rstrip()}\n```"


def facts_of_the_package() -> str:
    """What a reader wants to know first, as the project's own files have it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    pythons = re.search(r"python: \[(.+)\]", workflow)
    assert pythons is not None
    cards = load_catalogue()
    facts = [
        f"Python {' '.join(re.findall(r'[0-9.]+', pythons[1]))}",
        f"{project['license']} licence",
        f"{len(cards):,} encoders",
        f"{len(list_families(cards))} families",
        f"{len(list_studies())} studies",
    ]
    return " · ".join(f"`{fact}`" for fact in facts)


GENERATED: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"facts": facts_of_the_package, "recommend": recommended},
    "docs/reading.md": {"row": annotated_row},
    "docs/choosing.md": {"choice": choice_of_digits},
    "docs/families.md": {"glance": families_at_a_glance, "counts": families_counts, "families": families_tables},
    "docs/label-free.md": {
        "label_free": partial(feature_metrics_table, LABEL_FREE_METRICS),
        "scores": partial(feature_metrics_table, TRANSFERABILITY_SCORES),
    },
    "docs/costs.md": {
        "counters_of_transformers": partial(counters_table, "transformers"),
        "counters_of_others": partial(counters_table, "others"),
        "counters_versions": counters_versions,
    },
    "docs/probes.md": {"protocol_differences": protocol_differences},
    "metadata/README.md": {"licences": licences_table, "fields": fields_table},
    "analysis/README.md": {"studies": studies_table},
    "results/README.md": {
        "metrics": metrics_table,
        "protocols": all_protocols_table,
        "reported_protocols": reported_protocols_table,
        "reported_metrics": reported_metrics_table,
        "standings": standings_table,
    },
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
    renewed[CHECKSUMS] = format_checksums()
    for file, new in renewed.items():
        path = ROOT / file
        is_fresh = path.is_file() and path.read_text() == new
        if not is_fresh:
            path.write_text(new)
        print(f"{file}: {'fresh' if is_fresh else 'renewed'}", file=sys.stderr)


if __name__ == "__main__":
    main()
