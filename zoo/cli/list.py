"""``zoo list``, ``show`` and ``compare``: encoders as a table, one with everything known, several by differences."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ..cards.catalogue import catalogue
from ..cards.schema import EncoderCard, Missing, fact_text
from ..cards.wording import facts_by_part, label_of
from ..results.derived import seed_means
from ..results.facts import (
    FACTS,
    Fact,
    Subject,
    find_fact,
    parsed_condition,
    points,
    satisfying,
    sorted_by,
    subjects,
    values,
)
from ..results.reported import reported_numbers
from ..results.reported_values import ReportedNumber
from ..results.values import SETTINGS, SeedMean, Summary
from .facts import (
    LEGEND,
    WRONG,
    but_of_experiments,
    cell,
    cells,
    left_out,
    marks,
    marks_in,
    matching,
    matching_among,
    notes_of_experiments,
)
from .options import (
    column_name,
    column_names,
    dataset_option,
    encoder_names,
    exclude_wrong_option,
    family_option,
    given_options,
    refuse_idle,
)
from .output import (
    NothingFound,
    entry,
    is_easy_to_read,
    json_option,
    print_json,
    print_notes,
    print_table,
    record,
    size,
    wrapped,
)

if TYPE_CHECKING:
    from ..cards.costs import Cost

_DEFAULT_COLUMNS = "encoder,architecture,z_dim,n_parameters,train_test,reported,licence"
_CLOSER = (("architecture", ""), ("licence", "commercial_use"), ("reported", ""), ("commercial_use", ""))
"""Default columns that a narrow terminal does without, one after the other, and what stands there instead."""
_VARIANT = "  "  # before the id of one that stands below another variant of its network
_OF_VARIANTS = "indented: a variant of the network above, of another input size, training or features"
_NOT_OF_FAMILIES = ("all_encoders", "condition", "sort", "descending", "columns", "dataset", "exclude_wrong", "limit")
_LIST_EXAMPLES = """\b
Examples:
  zoo list dinov2
  zoo list 'SigLIP 2' 384
  zoo list --families pathology
  zoo list 'msn_vit*' --columns encoder,z_layer,train_test,error_3shot
  zoo list --where 'family == "vit" and 300 <= z_dim <= 768' --sort train_test
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
@click.argument("words", nargs=-1, metavar="[WORD]...", shell_complete=encoder_names)
@family_option
@click.option("--all", "all_encoders", is_flag=True, help="Every encoder, on a terminal too.")
@click.option("--families", "by_family", is_flag=True, help="Families and how many encoders each has.")
@click.option("--where", "condition", metavar="EXPR", help="Only encoders for which this is true.")
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
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most this many encoders.")
@click.option("--help-columns", is_flag=True, help="List the columns and what they mean, and exit.")
@json_option
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

    A WORD is found in ids, families, methods, names at timm and on the Hugging Face Hub, architectures and data of
    pretraining; case and separators do not matter, and of several words all must be found. A glob such as 'dino*' is
    compared with ids. Without anything, a terminal shows the families.

    With --json all columns are printed, under their published names, unless --columns says otherwise. With --dataset
    only encoders that were measured there are listed.

    Encoders of an experiment, such as the family "randomised", are listed only if they are asked for by name or family:
    by --family, a WORD or glob that finds no other, or in a condition.
    """
    if by_family:
        refuse_idle(_NOT_OF_FAMILIES, "families have none of it", remedy=", or --families")
    if descending and sort is None:
        raise click.UsageError("Got --descending without --sort, expected the column to sort by.")
    for option, given in (("--sort", sort), ("--columns", columns), ("--where", condition)):
        if given is not None and not given.strip():
            raise click.UsageError(f"Got an empty text for {option}; leave the option out, or say what you mean by it.")
    if help_columns:
        _explain_columns(as_json)
        return
    if by_family or not (words or given_options() or not sys.stdout.isatty()):
        _list_families(words, families, as_json)
        return
    wanted = FACTS if as_json and columns is None else _columns(columns or _DEFAULT_COLUMNS)
    risks_wanted = any(fact.from_results for fact in wanted.values())
    select = partial(
        _select,
        words,
        condition,
        sort,
        descending,
        risks_wanted=risks_wanted,
        exclude_wrong=exclude_wrong,
        dataset=dataset,
    )
    found = select(families)
    listed = found[:limit]
    if as_json:
        facts = [values(fact, listed) for fact in wanted.values()]
        records = [
            {"encoder": subject.id, **record(dict(zip(wanted, of_one, strict=True)))}
            for subject, *of_one in zip(listed, *facts, strict=True)
        ]
        on = {} if dataset is None else {"dataset": dataset}
        print_json({**on, "n_matching": len(found), "encoders": records})
    elif listed:
        grouped = sort is None and next(iter(wanted)) == "encoder" and sys.stdout.isatty()
        listed, variants = _by_network(listed) if grouped else (listed, set())
        shown = _print_subjects(wanted, listed, variants, are_default=columns is None)
        count = f"{len(listed)} of {len(found)}" if len(listed) < len(found) else f"{len(found)}"
        explained = [*[_OF_VARIANTS] * bool(variants), *marks_in(shown), *left_out(listed)]
        explained += notes_of_experiments(subject.id for subject in listed)
        where = "" if dataset is None else f" measured on {dataset}"
        print_notes([f"{count} encoder{'s' if len(found) != 1 else ''}{where}    {LEGEND}", *explained])
    if not found:
        unasked = [] if families else select(catalogue().experiments)
        raise NothingFound(_why_nothing(words, families, condition, dataset, [one.id for one in unasked]))


def _list_families(words: Sequence[str], families: Sequence[str], as_json: bool) -> None:
    from .families import family_records, print_families  # the other listing does without

    found = matching(words, families)
    if as_json:
        print_json({"n_encoders": len(found), "families": family_records(found)})
    elif found:
        print_families(found)
    if not found:
        raise NothingFound(_why_nothing(words, families, None, None, []))


def _print_subjects(
    wanted: Mapping[str, Fact], listed: Sequence[Subject], variants: Collection[str], *, are_default: bool
) -> dict[Fact, list[str]]:
    """Prints a table, and returns its columns.

    Default columns are fewer where they would break cells, above all ids, which people copy.
    """
    columns = {name: cells(fact, listed) for name, fact in wanted.items()}
    if variants:
        columns["encoder"] = [_VARIANT * (encoder in variants) + encoder for encoder in columns["encoder"]]
    for name, instead in [("", ""), *(_CLOSER if are_default else ())]:
        if instead:
            columns[instead] = cells(FACTS[instead], listed)
        columns.pop(name, None)
        rows = list(zip(*columns.values(), strict=True))
        numbers = {position for position, column in enumerate(columns) if "number" in find_fact(column).kind}
        if is_easy_to_read(list(columns), rows, right=numbers, n_whole=len(columns)):
            break
    print_table(list(columns), rows, right=numbers)
    return {find_fact(name): texts for name, texts in columns.items()}


def _by_network(listed: Sequence[Subject]) -> tuple[list[Subject], set[str]]:
    """The encoders with all variants of a network together, and the ids of those that stand below another variant."""
    from ..cards.families import networks

    by_id = {subject.id: subject for subject in listed}
    groups = networks(listed[0].cards, list(by_id))
    ordered = [by_id[encoder] for group in groups for encoder in group]
    return ordered, {encoder for group in groups for encoder in group[1:]}


def _columns(names: str) -> dict[str, Fact]:
    """Columns by their names as given, which head the table."""
    given = [name.strip() for name in names.split(",") if name.strip()]
    if not given:
        raise click.UsageError(f"Got {names!r} for --columns, expected names of columns such as {_DEFAULT_COLUMNS}.")
    twice = [name for name, n in Counter(given).items() if n > 1]
    if twice:
        raise click.UsageError(f"Got {', '.join(twice)} more than once for --columns, expected each column once.")
    return {name: find_fact(name) for name in given}


def _select(
    words: Sequence[str],
    condition: str | None,
    sort: str | None,
    descending: bool,
    families: Sequence[str],
    *,
    risks_wanted: bool,
    exclude_wrong: bool,
    dataset: str | None,
) -> list[Subject]:
    sort_fact = None if sort is None else find_fact(sort)
    parsed, reads_results = (None, False) if condition is None else parsed_condition(condition)
    risks_wanted = risks_wanted or reads_results or dataset is not None
    risks_wanted = risks_wanted or (sort_fact is not None and sort_fact.from_results)
    cards, texts = catalogue(), (condition or "").casefold()
    if not families and any(name.casefold() in texts for name in cards.experiments):
        ids = matching_among(cards.with_unlisted, words)  # the condition asks for them
    else:
        ids = matching(words, families)
    found = subjects(ids, with_risks=risks_wanted, exclude_wrong=exclude_wrong, dataset=dataset)
    if dataset is not None:
        found = [subject for subject in found if subject.measured is not None]
    if parsed is not None:
        found = satisfying(parsed, found)
    return sorted_by(sort_fact, found, descending=descending) if sort_fact else found


def _why_nothing(
    words: Sequence[str], families: Sequence[str], condition: str | None, dataset: str | None, unasked: Sequence[str]
) -> str:
    text = " ".join(words)
    name = f"has a name like {text!r}" if words else ""
    truth = f"satisfies {condition}" if condition is not None else ""
    measured = f"was measured on {dataset}" if dataset is not None else ""
    of_family = f" of the family {' or '.join(families)}" if families else ""
    sentence = f"No encoder{of_family} {' and '.join(part for part in (name, truth, measured) if part)}"
    if unasked:
        return f"{sentence} {but_of_experiments(unasked)}"
    finder = catalogue().finder
    likes = finder.instead_of(words)
    if likes:
        return f"{sentence}; did you mean {' or '.join(likes)}?"
    if len(words) > 1 and all(map(finder.count, words)):
        return (
            f"{sentence}: {', '.join(f'{word!r} finds {finder.count(word):,}' for word in words)}, and none meets all."
        )
    return f"{sentence}."


def _explain_columns(as_json: bool) -> None:
    if as_json:
        explained = [
            {"name": fact.name, "other_name": fact.other_name or None, "kind": fact.kind, "unit": fact.unit or None}
            | {"meaning": fact.meaning}
            for fact in FACTS.values()
        ]
        print_json({"columns": explained})
        return
    print_table(["column", "kind", "meaning"], [[fact.name, fact.kind, _meaning(fact)] for fact in FACTS.values()])


def _meaning(fact: Fact) -> str:
    unit = f", in {fact.unit}" if fact.from_results and fact.unit else ""
    return f"{fact.meaning}{unit}{f'; also called {fact.other_name}' if fact.other_name else ''}"


_LAST_SECTIONS = ("weights", "licence")


@click.command("show", epilog="\b\nExample:\n  zoo show dino_vitS16")
@click.argument("name", shell_complete=encoder_names)
@json_option
def show_command(name: str, as_json: bool) -> None:
    """Show everything known of one encoder.

    With --json the facts stand under the dotted names of the card, such as "representation.dim". What was measured on
    other data sets than ImageNet-1K, or by others than the study, has a section each, with its source.
    """
    (subject,) = subjects([name], with_risks=True)
    elsewhere: dict[tuple[str, str], list[SeedMean]] = {}  # by data set and source
    for mean in seed_means(subject.id):
        elsewhere.setdefault((mean.dataset, mean.source), []).append(mean)
    reported = reported_numbers(subject.card.id)
    if as_json:
        print_json(_show_document(subject.card, subject.measured, elsewhere, reported))
    else:
        click.echo("\n".join(_lines(subject.card, subject.measured, elsewhere, reported)))


def _show_document(
    card: EncoderCard,
    summary: Summary | None,
    elsewhere: Mapping[tuple[str, str], Sequence[SeedMean]],
    reported: Sequence[ReportedNumber],
) -> dict[str, Any]:
    from ..cards.gates import access_words, licence_terms  # which a listing does without, as the next one
    from .risks import risk_record

    facts = {f"{part}.{name}": value for part, values in facts_by_part(card).items() for name, value in values.items()}
    split = record({"released": card.released, **facts})
    missing = split.pop("missing")
    errata = [
        record({"field": erratum.field, "published": erratum.published, "reason": erratum.reason})
        for erratum in card.errata
    ]
    return {
        "encoder": card.id,
        "family": card.family,
        "facts": split,
        "missing": missing,
        "licence_terms": record(licence_terms(card)),
        "access": access_words(card),
        "errata": errata,
        "cost": _cost_document(card),
        "results": None if summary is None else risk_record(summary),
        "other_results": [asdict(mean) for means in elsewhere.values() for mean in means],
        "reported": [asdict(number) for number in reported],
    }


def _known_cost(card: EncoderCard) -> Cost | None:
    from ..cards.costs import shipped_costs

    shipped = shipped_costs().get(card.id)
    if shipped is not None:
        return shipped
    from ..choosing.constraints import known_cost  # which computes it, for an encoder of the user's

    return known_cost(card)


def _cost_document(card: EncoderCard) -> dict[str, Any] | None:
    """The same as JSON; null where it is not known."""
    from ..cards.costs import BATCH_SIZE, memory_bytes

    cost = _known_cost(card)
    if cost is None:
        return None
    memory = {device: memory_bytes(cost, BATCH_SIZE, device=device) for device in ("cuda", "cpu")}
    return {**asdict(cost), "batch_size": BATCH_SIZE, "memory_bytes": memory}


def _lines(
    card: EncoderCard,
    summary: Summary | None,
    elsewhere: Mapping[tuple[str, str], Sequence[SeedMean]],
    reported: Sequence[ReportedNumber],
) -> list[str]:
    from .terms import term_lines  # which a listing does without

    parts = facts_by_part(card)
    lines = [click.style(card.id, bold=True), *entry("released", fact_text(card.released))]
    for part in parts:
        if part == "reported" and reported:
            from .reported import reported_lines  # which a listing does without

            lines += reported_lines(card, reported)
        elif part not in _LAST_SECTIONS:
            lines += _section(part.capitalize(), parts[part])
        if part == "architecture" and card.patch_grid is not None:
            lines += entry("patch grid", "{} x {}".format(*card.patch_grid))
    lines += [*_cost(card), *_risks(summary)]
    if elsewhere:
        from .risks import section_lines

        for means in elsewhere.values():
            lines += section_lines(means)
    for part in _LAST_SECTIONS:
        lines += [*_section(part.capitalize(), parts[part]), *term_lines(card, part)]
    return lines + _errata(card, summary)


def _cost(card: EncoderCard) -> list[str]:
    """What a forward pass takes, computed from the network."""
    from ..cards.costs import BATCH_SIZE, memory_bytes  # which a listing does without

    title, cost = "Cost (computed, in float32)", _known_cost(card)
    lines = ["", click.style(title, bold=True)]
    if cost is None:
        return [*lines, "  not known"]
    on_gpu, on_cpu = (memory_bytes(cost, BATCH_SIZE, device=device) for device in ("cuda", "cpu"))
    lines += entry("operations", f"{cost.gflops:.3g} GFLOPs an image of {cost.px} px; a multiply-add is two")
    lines += entry("parameters", f"{size(cost.parameter_bytes)} with buffers")
    lines += entry("activations", f"{size(cost.activation_bytes)} an image, the most alive at once")
    batches = f"for batches of {BATCH_SIZE}, with a margin for what allocators and kernels add"
    return lines + entry("memory", f"{size(on_gpu)} of a GPU with CUDA's context, {size(on_cpu)} of a CPU; {batches}")


def _section(title: str, values: dict[str, Any]) -> list[str]:
    """Known facts a line each; below them the names of missing ones, by reason."""
    lines = ["", click.style(title, bold=True)]
    for name, value in values.items():
        if not isinstance(value, Missing):
            label, unit = label_of(name)
            lines += entry(label, fact_text(value) + unit)
    for reason in Missing:
        absent = [label_of(name)[0] for name, value in values.items() if value is reason]
        if absent:
            lines += entry(f"({reason.value})", ", ".join(absent))
    return lines


def _risks(summary: Summary | None) -> list[str]:
    from .risks import component_lines

    title = "Error of a linear probe on ImageNet-1K (percent, lower is better)"
    lines = ["", click.style(wrapped(title), bold=True)]
    if summary is None:
        return [*lines, "  not measured"]
    for setting in SETTINGS:
        error = summary.errors.get(setting.name)
        text = "not measured" if error is None else f"{error:.1f}"
        lines += entry(f"{setting.name} ({setting.n_labels:,} labels)", text)
    lines += ["", click.style(wrapped("Components of the error with 100% (percentage points, signed)"), bold=True)]
    if summary.decomposition is None:
        return [*lines, "  not measured"]
    for label, text in component_lines(summary.decomposition):
        lines += entry(label, text)
    return lines


def _errata(card: EncoderCard, summary: Summary | None) -> list[str]:
    results = summary.errata if summary else ()
    if not card.errata and not results:
        return []
    lines = ["", click.style("Errata", bold=True)]
    for erratum in card.errata:
        lines += entry(erratum.field, f"published: {fact_text(erratum.published)}")
        lines += entry("", erratum.reason)
    for result in results:
        metric = "all measurements" if result.metric == "*" else result.metric.replace("_", " ")
        left_out = " Left out of recommendations." if result.exclude else ""
        lines += entry(metric, f"{result.kind}: {result.reason}{left_out}")
    return lines


_NOT_COMPARED = ("encoder", "month", "year", "n_errata")  # the name is the heading, released says month and year
_ALWAYS_IN_JSON = ("approx_is_assumed", "is_wrong")  # without which the risks beside them can be misread


@click.command("compare", epilog="\b\nExample:\n  zoo compare dino_vitS16 dino_vitS16_last")
@click.argument("names", nargs=-1, required=True, metavar="NAME NAME...", shell_complete=encoder_names)
@dataset_option
@exclude_wrong_option
@json_option
def compare_command(names: tuple[str, ...], dataset: str | None, exclude_wrong: bool, as_json: bool) -> None:
    """Show in which facts encoders differ.

    Facts that are the same for all of them are left out; risks are always shown, for two encoders with the second
    minus the first. They are of ImageNet-1K; --dataset gives those of another data set.
    """
    compared = subjects(names, with_risks=True, exclude_wrong=exclude_wrong, dataset=dataset)
    if len({subject.id for subject in compared}) < max(len(compared), 2):
        raise click.UsageError(f"Got {' '.join(names)}, expected at least two different encoders.")
    facts = [fact for fact in FACTS.values() if fact.name not in _NOT_COMPARED]
    risks = [fact for fact in facts if fact.is_risk]
    same = [fact for fact in facts if fact not in risks and len({fact.of(subject) for subject in compared}) == 1]
    differing = [fact for fact in facts if fact not in risks and fact not in same]
    if as_json:
        on = {} if dataset is None else {"dataset": dataset}
        print_json({**on, **_compare_document(compared, differing, risks)})
        return
    ids = [subject.id for subject in compared]
    if differing:
        print_table(["", *ids], [[fact.name, *_cells(fact, compared)] for fact in differing])
        click.echo()
    rows = [
        [fact.other_name or fact.name, *_cells(fact, compared), *_difference_cells(fact, compared)] for fact in risks
    ]
    headers = [
        "risk, in percent" + (f", on {dataset}" if dataset is not None else ""),
        *ids,
        *["difference"] * (len(ids) == 2),
    ]
    print_table(headers, rows, right=range(1, len(headers)))
    explained = [*marks([*differing, *risks], compared), *left_out(compared)]
    print_notes([f"{len(same)} facts are the same    {LEGEND}", *explained])


def _cells(fact: Fact, compared: list[Subject]) -> list[str]:
    return [cell(fact, subject) for subject in compared]


def _difference(fact: Fact, compared: list[Subject]) -> float | None:
    """Second minus first; None where one is missing or zero by assumption."""
    if fact.name == "approx" and any(subject.approximation_is_assumed for subject in compared):
        return None
    first, second = (fact.of(subject) for subject in compared)
    if isinstance(first, Missing) or isinstance(second, Missing):
        return None
    return float(second) - float(first)


def _difference_cells(fact: Fact, compared: list[Subject]) -> list[str]:
    if len(compared) != 2:
        return []
    difference = _difference(fact, compared)
    if difference is None:
        return [""]
    mark = WRONG if any(subject.is_wrong for subject in compared) else ""
    return [("+" if difference >= 0.05 else "") + points(difference) + mark]


def _compare_document(compared: list[Subject], differing: list[Fact], risks: list[Fact]) -> dict[str, Any]:
    always = [fact for fact in map(FACTS.__getitem__, _ALWAYS_IN_JSON) if fact not in differing]
    facts = [*differing, *risks, *always]
    records = [
        {"encoder": subject.id, **record({fact.name: fact.of(subject) for fact in facts})} for subject in compared
    ]
    document: dict[str, Any] = {"differing": [fact.name for fact in differing], "encoders": records}
    if len(compared) == 2:
        document["difference"] = {fact.name: _difference(fact, compared) for fact in risks}
    return document
