"""``zoo list`` and ``compare``: encoders or families as a table, and how encoders differ."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ..cards.answers import make_column_table, make_table
from ..cards.catalogue import load_catalogue
from ..cards.schema import Missing
from ..errors import format_count, format_range
from ..results.derived import find_measured_encoders
from ..results.facts import (
    FACTS,
    OTHER_PROTOCOL,
    OTHERS,
    Fact,
    Subject,
    find_fact,
    format_points,
    get_column_values,
    list_subjects,
    mark_protocols,
    parse_condition,
    select_satisfying,
    sort_by_column,
)
from ..results.values import IMAGENET, SETTINGS
from ..results.wording import format_column_label
from .facts import (
    LEGEND,
    WRONG,
    build_expected_record,
    describe_left_out_encoders,
    describe_only_experiments,
    estimate_unmeasured,
    explain_marks,
    format_cell,
    format_cells,
    format_expected,
    list_expected_notes,
    list_experiment_notes,
    list_older_parts_notes,
    list_protocol_notes,
    load_expected_cells,
    search_cards,
    search_encoders,
)
from .options import (
    column_name,
    column_names,
    complete_encoder_names,
    dataset_option,
    exclude_wrong_option,
    family_option,
    get_given_options,
    only_limit_option,
    reject_unused_options,
    where_option,
)
from .output import (
    NothingFound,
    add_json_option,
    fit_table,
    make_record,
    print_json,
    print_notes,
    print_table,
    wrap_text,
)

if TYPE_CHECKING:
    from ..choosing.expectations import ExpectedError

_ERROR = SETTINGS[0].column
_DEFAULT_COLUMNS = f"encoder,architecture,z_dim,n_parameters,{_ERROR},reported,licence"
_SPARE = ("architecture", "z_dim", "reported", "licence")  # that a narrow terminal does without, in this order
_OF_OTHERS = (
    "what others measured on a data set, such as others_eurosat or others_cifar_100: with labels before nearest "
    "neighbours before texts, in percent, higher is better; 'zoo results --dataset NAME' has all"
)
_LIST_EXAMPLES = """\b
Examples:
  zoo list dinov2
  zoo list 'SigLIP 2' 384
  zoo list --families pathology
  zoo list 'msn_vit*' --columns encoder,z_layer,train_test,error_3shot
  zoo list --where 'family == "vit" and 300 <= z_dim <= 768' --sort train_test
  zoo list --where 'others_eurosat > 90' --columns encoder,others_eurosat,z_dim
  zoo list --dataset shapes --sort error_5shot --columns encoder,error_5shot,usability
  zoo list --where '"jigsaw" in augmentations or missing(augmentations)'
  zoo list --where '`train-nperclass-5_test` < 40' --sort error_5shot --limit 10

\b
A condition has columns, texts in quotes, numbers, true and false; == != < <=
> >= in, not in; and, or, not; + - * /; missing(x), not_published(x) and
not_applicable(x). Texts are compared without regard to case. A comparison with
a missing value is not true.
"""


@click.command("list", epilog=_LIST_EXAMPLES)
@click.argument("words", nargs=-1, metavar="[WORD]...", shell_complete=complete_encoder_names)
@family_option
@click.option("--all", "all_encoders", is_flag=True, help="Every encoder, on a terminal too.")
@click.option("--families", "by_family", is_flag=True, help="Families and how many encoders each has.")
@where_option
@click.option(
    "--sort", metavar="COLUMN", shell_complete=column_name, help="Sort by this column; missing values come last."
)
@click.option("--descending", "--reverse", is_flag=True, help="Largest values first.")
@click.option(
    "--columns",
    metavar="A,B,...",
    shell_complete=column_names,
    help=f"Which columns to show, each of them once. [default: {_DEFAULT_COLUMNS}]",
)
@dataset_option
@exclude_wrong_option
@only_limit_option
@click.option("--help-columns", is_flag=True, help="List the columns and what they mean, and exit.")
@add_json_option
def list_command(
    words: tuple[str, ...],
    families: tuple[str, ...],
    all_encoders: bool,
    by_family: bool,
    condition: str | None,
    sort: str | None,
    descending: bool,
    columns: str | None,
    dataset: str | None,
    exclude_wrong: bool,
    limit: int | None,
    help_columns: bool,
    as_json: bool,
) -> None:
    """List encoders: filter, sort, choose columns.

    A WORD is looked for in ids, families, methods, names at timm and on the Hugging Face Hub, architectures and
    pretraining data, without regard to case and separators; all words must be found. A glob such as 'dino*' is compared
    with ids. Without arguments, a terminal shows the families.

    --json prints all columns unless --columns says otherwise. --dataset lists only encoders measured on it. Encoders
    of an experiment, such as the family "randomised", are listed only if named or asked for by --family.
    """
    if descending and sort is None:
        raise click.UsageError("Got --descending without --sort, expected the column to sort by.")
    for option, given in (("--sort", sort), ("--columns", columns), ("--where", condition)):
        if given is not None and not given.strip(" ,"):
            raise click.UsageError(f"Got an empty text for {option}; leave the option out, or say what you mean by it.")
    if help_columns:
        if as_json:
            columns_of_json = [
                {"name": fact.name, "other_name": fact.other_name or None, "kind": fact.kind, "unit": fact.unit or None}
                | {"meaning": fact.meaning}
                for fact in FACTS.values()
            ]
            print_json({"columns": columns_of_json})
            return
        rows = []
        for fact in FACTS.values():
            unit = f", in {fact.unit}" if fact.from_results and fact.unit else ""
            other = f"; also called {fact.other_name}" if fact.other_name else ""
            rows.append([fact.name, fact.kind, f"{fact.meaning}{unit}{other}"])
        rows.append([f"{OTHERS}DATASET", "number", _OF_OTHERS])
        print_table(make_table(["column", "kind", "meaning"], rows))
        return
    if by_family or not (words or get_given_options() or not sys.stdout.isatty()):
        _list_families(words, families, as_json)
        return
    wanted = FACTS if as_json and columns is None else _columns(columns or _DEFAULT_COLUMNS)
    asked = (words, condition, sort, descending, exclude_wrong, dataset)
    with_risks = any(fact.from_results for fact in wanted.values())
    found = _select(families, *asked, with_risks=with_risks)
    listed = found[:limit]
    if as_json:
        facts = [get_column_values(fact, listed) for fact in wanted.values()]
        records = [
            {"encoder": subject.id, **make_record(dict(zip(wanted, of_one, strict=True)))}
            for subject, *of_one in zip(listed, *facts, strict=True)
        ]
        on = {} if dataset is None else {"dataset": dataset}
        print_json({**on, "n_matching": len(found), "encoders": records})
    elif listed:
        known = [subject.summary for subject in listed if any(fact.is_risk for fact in wanted.values())]
        protocols = mark_protocols(known)
        expected = load_expected_cells(listed) if columns is None and dataset is None else {}
        shown = _print_subjects(wanted, listed, protocols, expected, are_default=columns is None)
        count = f"{len(listed)} of " * (len(listed) < len(found)) + format_count(len(found), "encoder")
        where = "" if dataset is None else f" measured on {dataset}"
        notes = [
            f"{count}{where}    {LEGEND}",
            *list_expected_notes(shown.get(FACTS[_ERROR], [])),
            *list_protocol_notes(protocols),
            *explain_marks(shown),
            *describe_left_out_encoders(listed),
        ]
        notes += list_older_parts_notes(known) * any(fact.unit == "percentage points" for fact in shown)
        print_notes(notes + list_experiment_notes(subject.id for subject in listed))
    if not found:
        unasked = [] if families else _select(load_catalogue().experiments, *asked, with_risks=with_risks)
        raise NothingFound(_explain_empty_list(words, families, condition, dataset, [one.id for one in unasked]))


def _print_subjects(
    wanted: Mapping[str, Fact],
    listed: Sequence[Subject],
    protocols: Mapping[str, str],
    expected: Mapping[str, str],
    *,
    are_default: bool,
) -> dict[Fact, list[str]]:
    """Prints a table, and returns its columns; of the default ones, those that the terminal has room for."""
    columns = {name: format_cells(fact, listed, protocols) for name, fact in wanted.items()}
    numbers = {name for name, fact in wanted.items() if "number" in fact.kind and not fact.is_of_others}
    if expected:
        columns[_ERROR] = [expected.get(one.id, cell) for one, cell in zip(listed, columns[_ERROR], strict=True)]
        numbers.remove(_ERROR)  # which intervals follow
    table = make_column_table(columns, numbers=numbers, spare=_SPARE if are_default else ())
    print_table(table)
    return {wanted[name]: columns[name] for name in fit_table(table).headings}


def _columns(names: str) -> dict[str, Fact]:
    """Columns by their names as given, which head the table."""
    given = [name.strip() for name in names.split(",") if name.strip()]
    twice = [name for name, n in Counter(given).items() if n > 1]
    if twice:
        raise click.UsageError(f"Got {', '.join(twice)} more than once for --columns, expected each column once.")
    return {name: find_fact(name) for name in given}


def _select(
    families: Sequence[str],
    words: Sequence[str],
    condition: str | None,
    sort: str | None,
    descending: bool,
    exclude_wrong: bool,
    dataset: str | None,
    *,
    with_risks: bool,
) -> list[Subject]:
    sort_fact = None if sort is None else find_fact(sort)
    parsed, reads_results = (None, False) if condition is None else parse_condition(condition)
    with_risks = with_risks or reads_results or dataset is not None or bool(sort_fact and sort_fact.from_results)
    cards, texts = load_catalogue(), (condition or "").casefold()
    if not families and any(name.casefold() in texts for name in cards.experiments):
        ids = search_cards(cards.with_unlisted, words)  # the condition asks for them
    else:
        ids = search_encoders(words, families)
    found = list_subjects(ids, with_risks=with_risks, exclude_wrong=exclude_wrong, dataset=dataset)
    if dataset is not None:
        found = [subject for subject in found if subject.measured is not None]
    if parsed is not None:
        found = select_satisfying(parsed, found)
    if sort_fact is None:
        is_glob = any(set(word) & set("*?[") for word in words)  # of words, the best matches come first
        return sorted(found, key=lambda subject: subject.id.casefold()) if is_glob else found
    found = sort_by_column(sort_fact, found, descending=descending)
    if sort_fact.is_risk:  # the order of one protocol says nothing of another
        order = [*mark_protocols(subject.summary for subject in found), ""]
        found.sort(key=lambda subject: order.index(subject.protocol(sort_fact)))
    return found


def _explain_empty_list(
    words: Sequence[str], families: Sequence[str], condition: str | None, dataset: str | None, unasked: Sequence[str]
) -> str:
    conditions = [f"has a name like {' '.join(words)!r}"] * bool(words)
    conditions += [f"satisfies {condition}"] * (condition is not None)
    conditions += [f"was measured on {dataset}"] * (dataset is not None)
    of_family = f" of the family {' or '.join(families)}" if families else ""
    sentence = f"No encoder{of_family} {' and '.join(conditions)}"
    if unasked:
        return f"{sentence} {describe_only_experiments(unasked)}"
    from ..results.evidence import list_datasets_called  # whose tables a listing does without

    if data := ", ".join(called := list_datasets_called(" ".join(words))):
        if len(called) > 1:
            return f"{sentence}, but data sets are called so, for 'zoo results --dataset': {data}."
        return (
            f"{sentence}, but a data set is called so: 'zoo list --descending --sort {OTHERS}{data}' sorts encoders by "
            f"what others measured on it, and 'zoo results --dataset {data}' has all."
        )
    finder = load_catalogue().finder
    if likes := finder.instead_of(words):
        return f"{sentence}; did you mean {' or '.join(likes)}?"
    if len(words) > 1 and all(map(finder.count, words)):
        each = ", ".join(f"{word!r} finds {finder.count(word):,}" for word in words)
        return f"{sentence}: {each}, and none meets all."
    return f"{sentence}."


# --- families --------------------------------------------------------------------------------------------------------


def _list_families(words: Sequence[str], families: Sequence[str], as_json: bool) -> None:
    from ..cards.search import list_families as families_of  # which the other listing does without

    ids = search_encoders(words, families)
    found = families_of(load_catalogue().listing(ids), ids)
    measured = find_measured_encoders(ids)
    n_measured = [sum(encoder in measured for encoder in one.encoders) for one in found]
    if as_json:
        records = [
            {
                "family": one.name,
                "n_encoders": len(one.encoders),
                "n_measured": n,
                "modes": _counts(one.values("objective.mode")),
                "domains": _counts(one.values("pretraining.domain")),
                "architectures": _counts(one.values("architecture.family")),
                "commercial_use": _counts(one.values("commercial_use")),
                "licences": _counts(one.values("licence.weights")),
                "networks": one.networks,
            }
            for one, n in zip(found, n_measured, strict=True)
        ]
        print_json({"n_encoders": len(ids), "families": records})
    if not ids:
        raise NothingFound(_explain_empty_list(words, families, None, None, []))
    if as_json:
        return
    released = [one.known("released") for one in found]
    columns = {
        "family": [one.name for one in found],
        "encoders": [str(len(one.encoders)) for one in found],
        "networks": [str(len(one.networks)) for one in found],
        "measured": [str(n or "-") for n in n_measured],
        "released": ["-".join(sorted({min(days)[:4], max(days)[:4]})) if days else "." for days in released],
        "trained by": [_words(one.known("objective.mode"), 1) for one in found],
        "architecture": [_words(one.known("architecture.family"), 2) for one in found],
        "commercial use": [_commercial(one.values("commercial_use")) for one in found],
    }
    numbers = ("encoders", "networks", "measured")
    print_table(make_column_table(columns, numbers=numbers, spare=("released", "trained by")))
    n_networks = sum(len(one.networks) for one in found)
    family = f"{len(found)} famil{'ies' if len(found) != 1 else 'y'}"
    print_notes(
        [
            f"{family}, {format_count(len(ids), 'encoder')}, {format_count(n_networks, 'network')}",
            "zoo list dinov3    the encoders of a family; or of a method, a name at timm, a data set",
            "zoo list --all     every encoder",
        ]
    )


def _counts(found: Counter[Any]) -> dict[str, int]:
    return {value.value if isinstance(value, Missing) else value: n for value, n in found.items()}


def _commercial(found: Counter[Any]) -> str:
    """Whether commercial use is allowed; for how many encoders, if it is for some."""
    uses = {use: n for use, n in found.items() if not isinstance(use, Missing)}
    if "yes" in uses and len(uses) > 1:
        return f"yes: {uses['yes']} of {sum(uses.values())}"
    return " or ".join(uses) or "-"


def _words(found: Sequence[Any], most: int) -> str:
    """The most frequent values, and how many others there are."""
    shown = ", ".join(str(value).replace("_", " ") for value in found[:most]) or "."
    return f"{shown} +{len(found) - most}" if len(found) > most else shown


# --- compare ---------------------------------------------------------------------------------------------------------

_NOT_COMPARED = ("encoder", "month", "year", "n_errata")  # the name is the heading, released says month and year
_TOLD_BY_MARKS = ("is_wrong", "approx_is_assumed", "protocol")
_ALWAYS_IN_JSON = ("approx_is_assumed", "is_wrong")  # without which the risks next to them can be misread


_COMPARE_EXAMPLES = """\b
Examples:
  zoo compare dino_vitS16 dino_vitS16_last
  zoo compare my_dino --published
  zoo compare my_dino --published --dataset birds --json
"""


@click.command("compare", epilog=_COMPARE_EXAMPLES)
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_encoder_names)
@click.option("--published", is_flag=True, help="Where one encoder stands among those that come with the zoo.")
@dataset_option
@exclude_wrong_option
@add_json_option
def compare_command(
    names: tuple[str, ...], published: bool, dataset: str | None, exclude_wrong: bool, as_json: bool
) -> None:
    """Show how encoders differ, or where one stands.

    Facts that are the same for all of them are left out; risks are always shown, for two encoders with the second
    minus the first, if they are by one protocol. They are of ImageNet-1K; --dataset gives those of another data set.
    What others measured of both by one protocol is a table of its own.

    --published ranks the error and the components of one encoder, such as your own, among published ones of like size
    and data, names the nearest by design choices, and says what the controlled and the linear study find of the choices
    in which they differ.
    """
    if published:
        if len(names) != 1:
            raise click.UsageError(f"Got {' '.join(names)} with --published, expected one encoder.")
        reject_unused_options(("exclude_wrong",), "--published leaves wrong measurements out")
        _print_published(names[0], dataset or IMAGENET, as_json)
        return
    from .reported_output import build_shared_records, find_shared_numbers, print_shared  # which a list does without

    compared = list_subjects(names, with_risks=True, exclude_wrong=exclude_wrong, dataset=dataset)
    if len({subject.id for subject in compared}) < max(len(compared), 2):
        raise click.UsageError(f"Got {' '.join(names)}, expected at least two different encoders.")
    facts = [fact for fact in FACTS.values() if fact.name not in _NOT_COMPARED]
    risks = [fact for fact in facts if fact.is_risk]
    differing = [fact for fact in facts if not fact.is_risk and len({fact.of(subject) for subject in compared}) > 1]
    is_pair = len(compared) == 2
    ids = list(dict.fromkeys(subject.id for subject in compared))
    by_others = find_shared_numbers(ids)
    differences = {fact.name: _difference(fact, compared) for fact in risks} if is_pair else {}
    expected = {} if dataset else {one.column: estimate_unmeasured(compared, one.n_labels) for one in SETTINGS}
    if as_json:
        shown = [*differing, *risks]
        shown += [fact for fact in map(FACTS.__getitem__, _ALWAYS_IN_JSON) if fact not in differing]
        document: dict[str, Any] = {} if dataset is None else {"dataset": dataset}
        document["differing"] = [fact.name for fact in differing]
        document["encoders"] = [
            {"encoder": one.id, **make_record({fact.name: fact.of(one) for fact in shown})}
            | {"expected": {name: build_expected_record(of[one.id]) for name, of in expected.items() if one.id in of}}
            for one in compared
        ]
        shared = {"measured_by_others": build_shared_records(by_others)}
        print_json(document | ({"difference": differences} if is_pair else {}) | shared)
        return
    _print_compared(compared, differing, risks, differences, expected, dataset)
    if by_others:
        print_shared(by_others, ids)


def _print_compared(
    compared: Sequence[Subject],
    differing: Sequence[Fact],
    risks: Sequence[Fact],
    differences: Mapping[str, float | None],
    expected: Mapping[str, Mapping[str, ExpectedError]],
    dataset: str | None,
) -> None:
    """The errors of all, then the facts in which they differ; lines on which nothing is known are left out."""
    known, ids = [subject.summary for subject in compared], [subject.id for subject in compared]
    protocols = mark_protocols(known)
    cells = {fact: [format_cell(fact, one, protocols) for one in compared] for fact in (*risks, *differing)}
    for setting in SETTINGS if expected else ():
        of, fact = format_expected(expected[setting.column], setting.n_labels), FACTS[setting.column]
        cells[fact] = [of.get(name, cell) for name, cell in zip(ids, cells[fact], strict=True)]
    mark = WRONG if any(subject.is_wrong for subject in compared) else ""
    rows = []
    for fact in risks:
        difference = differences.get(fact.name)
        plus = "+" if difference is not None and difference >= 0.05 else ""
        last = "" if difference is None else f"{plus}{format_points(difference)}{mark}"
        rows += [[format_column_label(fact), *cells[fact], *[last] * bool(differences)]] * (
            not _is_unknown(cells[fact])
        )
    headers = ["error, percent" + (f", on {dataset}" if dataset is not None else ""), *ids]
    headers += ["difference"] * bool(differences)
    print_table(make_table(headers, rows, numbers=range(1, len(headers))))
    told = [fact for fact in differing if fact.name not in _TOLD_BY_MARKS and not _is_unknown(cells[fact])]
    if told:
        click.echo()
        print_table(make_table(["", *ids], [[format_column_label(fact), *cells[fact]] for fact in told]))
    n_same = len(FACTS) - len(_NOT_COMPARED) - len(risks) - len(differing)
    shown = {fact: cells[fact] for fact in (*risks, *told)}
    notes = [
        *list_expected_notes(cell for fact in risks for cell in cells[fact]),
        f"{n_same} facts are the same    {LEGEND}",
        *list_protocol_notes(protocols),
    ]
    notes += explain_marks(shown)
    print_notes([*notes, *describe_left_out_encoders(compared), *list_older_parts_notes(known)])


def _is_unknown(cells: Sequence[str]) -> bool:
    return not set(cells) - {"?", ".", "-"}


def _difference(fact: Fact, compared: Sequence[Subject]) -> float | None:
    """Second minus first; None where one is missing or zero by assumption, or they are by two protocols."""
    if fact.name == "approx" and any(subject.approximation_is_assumed for subject in compared):
        return None
    if len({subject.protocol(fact) for subject in compared}) > 1:
        return None
    first, second = (fact.of(subject) for subject in compared)
    return None if isinstance(first, Missing) or isinstance(second, Missing) else float(second) - float(first)


def _print_published(name: str, dataset: str, as_json: bool) -> None:
    """Where an encoder stands among those that come with the zoo: ranks, the nearest, effects of choices, or JSON."""
    from ..choosing.published import compare_with_published  # and the libraries of studies

    found = compare_with_published(name, dataset=dataset)
    if as_json:
        print_json(asdict(found))
        return
    among = f"{found.encoder} among {format_count(len(found.group), 'encoder')} that come with the zoo, on {dataset}"
    click.echo(click.style(wrap_text(f"{among}: {found.group_words}"), bold=True) + "\n")
    rows = []
    for one in found.places:
        mark = OTHER_PROTOCOL * (one.rank is None)
        ends = "" if one.interval is None else " to ".join(map(format_points, one.interval))
        ranks = [
            "-" if one.rank is None else str(one.rank),
            f"{format_range(one.lowest, one.highest)}{mark}",
            str(one.n),
        ]
        words = format_column_label(FACTS[one.risk])
        rows.append([words, format_points(one.value) + mark, ends, *ranks, format_points(one.median), one.best])
    heads = ["risk", found.encoder, "95 %", "rank", "nine in ten", "of", "median", "best of the others"]
    print_table(make_table(heads, rows, numbers=range(1, 7), spare=("median", "of")))
    click.echo("\n" + wrap_text(found.answer) + "\n")
    rows = []
    for other in found.nearest:
        differing = "; ".join(f"{choice} {its}, {own}" for choice, (its, own) in other.differing.items())
        rows.append([other.encoder, f"{other.n_alike} of {found.n_said}", differing])
    print_table(
        make_table(
            ["nearest by design", "alike", f"differs in: its choice, that of {found.encoder}"], rows, numbers=[1]
        )
    )
    rows = []
    for effect in found.effects:
        if effect.value is not None and effect.ci_low is not None and effect.ci_high is not None:
            ends = f"{format_points(effect.ci_low)} to {format_points(effect.ci_high)}"
            on = format_column_label(FACTS[effect.outcome])
            rows.append([effect.term, on, f"{round(effect.value, 1) + 0.0:+.1f}", ends, effect.note])
    if rows:
        click.echo()
        print_table(
            make_table(["effect of", "on", "points", "95 %", "by which study, and of what"], rows, numbers=[2, 3])
        )
    silent = dict.fromkeys(one.term for one in found.effects if one.term not in {row[0] for row in rows})
    print_notes([*found.cautions, *[f"the studies do not tell of {'; '.join(silent)}"] * bool(silent)])
