"""Evaluations, risk decompositions and metrics of predictions, as tables and as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ..cards.answers import AnswerColumn, AnswerTable, format_ends, make_interval_columns, make_table, read_table
from ..cards.schema import Missing
from ..errors import ZooError, format_count, format_range
from .measure_options import build_counts_document, list_skipped_notes
from .output import print_answer

if TYPE_CHECKING:
    from ..evaluation.bootstrap import Interval
    from ..evaluation.classification import ClassificationMetrics, ClassResult, TaggingMetrics
    from ..evaluation.evaluating import Evaluation
    from ..evaluation.measuring import ProbeRun, SettingResult
    from ..evaluation.multilabel import TagEvaluation
    from ..evaluation.refit import RefittedProbe
    from ..evaluation.regression import RegressionEvaluation, RegressionMetrics
    from ..evaluation.risk import RiskReport
    from ..features import Features
    from ..looking.mistakes import Mistakes

Document = Mapping[str, Any]


# --- errors and components -------------------------------------------------------------------------------------------


def print_evaluation(found: Evaluation, document: Document, notes: Sequence[str] = ()) -> None:
    """Prints errors by label setting, the components and the label law; then notes, also those on the images."""
    print_shown_evaluation(build_shown_evaluation(found, document), notes)


def print_shown_evaluation(shown: Document, notes: Sequence[str] = ()) -> None:
    """Prints what :func:`build_shown_evaluation` has made, with notes on the images."""
    notes = [*shown["doubts"], *notes, *shown["notes"]]
    print_answer(*map(read_table, shown["tables"]), notes=notes, more=shown["more"])


def build_shown_evaluation(found: Evaluation, document: Document) -> dict[str, Any]:
    """What a terminal shows of an evaluation, for JSON."""
    laws = [one["predicted"] for one in document["errors"] if one["predicted"]]
    law, law_notes = _describe_law(document["law"])
    few = sorted({run.n_tuning for one in found.settings for run in one.runs if run.n_tuning is not None})
    n_tuning = format_range(f"{few[0]:,}", f"{few[-1]:,}") if few else ""
    tuning = f"probes with few labels were tuned on {n_tuning} further training images"
    unit = "percent of the test images, lower is better; 95 % intervals over images and seeds, given these probes"
    caveats = sorted({caveat for one in laws for caveat in one["caveats"]})
    return {
        "tables": [one.as_texts() for one in (*_build_evaluation_tables(found, document), *law)],
        "doubts": [
            *(one.text for one in found.pooled[-1:]),
            *list_risk_doubts(found.risk),
            *_left_out(document["left_out"]),
            *_problems(document),
        ],
        "notes": list_scaling_notes(document),
        "more": [f"{unit}; protocol {document['protocol']}", *[tuning] * bool(few), *law_notes, *caveats],
    }


def _build_evaluation_tables(found: Evaluation, document: Document) -> list[AnswerTable]:
    from ..evaluation.bootstrap import Interval

    laws = {one["setting"]: one["predicted"] for one in document["errors"] if one["predicted"]}
    ends = ("ci_low", "ci_high")
    predicted = {name: Interval(value=one["error"], **{end: one[end] for end in ends}) for name, one in laws.items()}
    return found.build_tables(predicted)


def render_evaluation_page(
    found: Evaluation | TagEvaluation | RegressionEvaluation,
    document: Document,
    mistakes: Mistakes,
    images: Any,
    notes: Sequence[str] = (),
) -> str:
    """A page of an evaluation: errors, the decomposition, and what the probe with all labels gets wrong."""
    from ..evaluation.evaluating import Evaluation
    from ..looking.mistakes_page import build_mistake_sections, render_mistakes_page

    if not isinstance(found, Evaluation):
        value, ends = _points(document["metrics"]["metrics"]["tag_average_precision"])
        answers, tables = [f"The mean average precision is {value} % ({ends}, 95 % interval over images)."], []
        kind = "Linear"
        figures: list[dict[str, Any]] = []
    else:
        figures = _draw_curve(found)
        wrong = mistakes.n_wrong or 0
        answers = [
            f"With all {document['n_train']:,} labels {wrong:,} of {mistakes.n_test:,} test images are predicted "
            f"wrongly: {100 * wrong / mistakes.n_test:.1f} %.",
            *(f"{one.text[:1].upper()}{one.text[1:]}." for one in found.pooled[-1:]),
        ]
        kind = found.kind.capitalize()
        tables = _build_evaluation_tables(found, document)
        tables[0] = replace(tables[0], title="Errors by number of labels, in percent of the test images")
        notes = [*list_risk_doubts(found.risk), *notes]
    return render_mistakes_page(
        f"What {document['encoder']} gets wrong on {document['dataset']}",
        answers,
        build_mistake_sections(mistakes, images),
        tables=tables,
        figures=figures,
        notes=[*mistakes.notes, *notes],
        facts=f"{kind} probe {document['protocol']}; 95 % intervals over images and seeds.",
    )


def _draw_curve(found: Evaluation) -> list[dict[str, Any]]:
    """The learning curve, where probes had several numbers of labels."""
    from ..choosing.comparing import LabelCurve, LabelPoint
    from ..choosing.figures import draw_label_curve
    from ..looking.pages import render_figure

    by_labels = {one.runs[0].n_train: one for one in found.settings}
    points = tuple(
        LabelPoint(n_labels=n, error=one.error, n_draws=len(one.runs)) for n, one in sorted(by_labels.items())
    )
    if len(points) < 2:
        return []
    curve = LabelCurve(
        encoder=found.train.origin.encoder, points=points, expected=(), exponent=None, floor=None, refusal=""
    )
    told = ", ".join(f"{one.error.value:.1f} % with {one.n_labels:,}" for one in points)
    figure = render_figure(
        partial(draw_label_curve, [curve]),
        title="Learning curve",
        caption="Error of the probe by its number of labels. Bars: 95 % intervals over images and seeds.",
        alt=f"Error by number of labels: {told}.",
        name="curve",
    )
    return [figure]


def _make_title(found: Document, labels: str) -> dict[str, Any]:
    images = f"{found['n_train']:,} training and {format_count(found['n_test'], 'test image')}"
    about = f": {images}, {labels}, {format_count(found['dim'], 'dimension')}"
    return {"title": f"{found['encoder']} on {found['dataset']}", "about": about}


def _problems(found: Document) -> list[str]:
    """Notes on probes that did not converge or could not be stored, and on images that could not be read."""
    notes = []
    runs = [run for result in _results_in(found) for run in result["runs"]]
    n_open = sum(run["report"].get("converged") is False for run in runs) + len(found.get("not_converged", ()))
    if n_open:
        notes.append(f"{format_count(n_open, 'probe')} did not converge; see their reports with --json")
    if not_kept := found.get("not_kept"):
        notes.append(f"{format_count(len(not_kept), 'measured probe')} could not be stored: {not_kept[0]}")
    return notes + list_skipped_notes([f"{part}: {one}" for part, images in found["skipped"].items() for one in images])


def _left_out(left_out: Mapping[str, str]) -> list[str]:
    return [f"{name} was left out: {why}" for name, why in left_out.items()]


_TELLING_POINTS = 2.0  # between the tuning errors of features as prepared and unscaled


def list_scaling_notes(found: Document) -> list[str]:
    """A note on the label settings whose tuning error is much lower as tuned than of unscaled features, if any.

    It claims no gain: the lowest of several errors on the same rows is lower in noise, too.
    """
    said = []
    for one in found.get("errors", ()):
        tuned = one.get("preparation")
        if tuned is None or None in (tuned["error"], tuned["as_they_are"]):
            continue
        if tuned["as_they_are"] - tuned["error"] <= _TELLING_POINTS:
            continue
        chosen, n = max(tuned["chosen"].items(), key=lambda one: one[1])
        n_seeds = sum(tuned["chosen"].values())
        where = "" if n == n_seeds else f" in {n} of {n_seeds} seeds"
        said.append(f"{one['setting']} {chosen}{where} ({tuned['error']:.1f} for {tuned['as_they_are']:.1f} %)")
    return [f"features are prepared as tuned (tuning error, for that unscaled): {', '.join(said)}"] if said else []


def _results_in(found: Document) -> list[Document]:
    """Label settings of a document, and nearest neighbours, with their runs; none of images with tags."""
    return [*found.get("errors", ()), *([found["neighbours"]] if found.get("neighbours") else ())]


_MOST_WITH_INTERVALS = 8  # encoders in a table


def print_many(documents: Sequence[Document], notes: Sequence[str] = ()) -> None:
    """Prints what was measured of many encoders, a line each; then notes on the images."""
    from ..evaluation.risk import format_component

    first, errors = documents[0], []
    for one in documents:
        if "errors" in one:
            errors.append({result["setting"]: result for result in one["errors"]})
            errors[-1] |= {"nearest neighbours": one["neighbours"]} if one["neighbours"] else {}
        else:
            precision = one["metrics"]["metrics"].get("tag_average_precision")
            errors.append({} if precision is None else {"mean average precision": precision})
    tables = [
        AnswerTable(
            title=first["encoder"] if len(documents) == 1 else f"{len(documents)} encoders",
            about=f" on {first['dataset']}: {first['n_train']:,} training and "
            f"{format_count(first['n_test'], 'test image')}",
            columns=_list_points("dimensions", [f"{one['dim']:,}" for one in documents], documents, errors),
        )
    ]
    risks = [one.get("decomposition") for one in documents]
    important = []
    if any(risks):
        parts = [
            {}
            if risk is None
            else {format_component(part): found for part, found in risk["parts"].items() if found}
            | {"full-shot error": risk["full_shot_error"]}
            for risk in risks
        ]
        columns = _list_points("order", [risk["order"] if risk else "" for risk in risks], documents, parts)
        title = "Components of the full-shot errors, in percentage points"
        tables.append(AnswerTable(title=title, columns=columns))
        important += sorted({risk["warning"] or risk["assumption"] for risk in risks if risk})
    for one in documents:
        important += [f"{one['encoder']}: {note}" for note in (*_left_out(one["left_out"]), *_problems(one))]
    unit = "percent, higher is better" if "tags" in first else "percent of the test images, lower is better"
    unit = "unexplained variance in percent, lower is better" if "target" in first else unit
    protocols = ", ".join(dict.fromkeys(one["protocol"] for one in documents))
    prepared = [f"{one['encoder']}: {note}" for one in documents for note in list_scaling_notes(one)]
    reading = f"{unit}; protocol {protocols}; 95 % intervals with --json"
    print_answer(*tables, notes=[reading, *important, *notes, *prepared])


def _list_points(
    what: str, cells: Sequence[str], documents: Sequence[Document], found: Sequence[Mapping[str, Document]]
) -> list[AnswerColumn]:
    """The encoders, a cell of each, and a column of values by name, with their intervals if they are few."""
    has_intervals = len(documents) <= _MOST_WITH_INTERVALS

    def form(one: Document) -> str:
        value, ends = _points(one)
        return f"{value} ({ends})" if ends and has_intervals else value

    columns = [AnswerColumn("encoder", [one["encoder"] for one in documents])]
    columns.append(AnswerColumn(what, cells, has_numbers=True))
    for name in dict.fromkeys(name for one in found for name in one):
        columns.append(AnswerColumn(name, [one.get(name) for one in found], form=form, has_numbers=True))
    return columns


def print_risk(report: RiskReport, notes: Sequence[str] = ()) -> None:
    """Prints the components of the full-shot error, and notes on them."""
    print_answer(*report.build_tables(has_sum=False), notes=[*list_risk_doubts(report), *notes])


def list_risk_doubts(report: RiskReport | None) -> list[str]:
    """What else than its assumption a decomposition rests on."""
    notes: list[str] = []
    if report is None:
        return notes
    if report.is_unstable:
        notes.append(
            f"the probes of different parts of the images disagree by more than the images explain (p = "
            f"{report.disagreement:.1g}), so that intervals given these probes are too short"
        )
    if "approximation" not in report.intervals:
        notes.append("approximation and usability cannot be separated without a supervised twin (--supervised)")
    if report.refit is None:
        notes.append("intervals do not include the choice of training images; --refit 20 adds it")
    return notes


def _describe_law(law: Document | None) -> tuple[list[AnswerTable], list[str]]:
    """The label scaling law on other data than ImageNet-1K, and notes on it."""
    if law is None or (law["fitted"] is None and law["extrapolated"] is None):
        return [], [] if law is None else [law["not_fitted"]]
    if one := law["fitted"]:
        labels = ", ".join(f"{n:,}" for n in one["n_labels"])
        said = (
            f"exponent {one['exponent']:.2f} ({one['ci_low']:.2f} to {one['ci_high']:.2f}), fitted to "
            f"{one['n_settings']} errors with {labels} labels of these images, which it misses by "
            f"{one['mean_absolute_miss']:.1f} points on average and {one['largest_miss']:.1f} at most"
        )
        return [AnswerTable(title="How the error falls with labels", answer=[said])], []
    missed = law["extrapolated"]["missed_elsewhere"]
    errors = ", ".join(f"{one['setting']} {one['error']:.1f}" for one in law["extrapolated"]["errors"])
    said = (
        f"{errors or 'no number of labels between one per class and all'} percent; on "
        f"{' and '.join(missed['datasets'])} it was off by {missed['mean_absolute']:.1f} points on average and "
        f"{missed['largest']:.1f} at most, over {format_count(missed['n'], 'error')} of {missed['n_encoders']} "
        "encoders"
    )
    return [AnswerTable(title="ImageNet's law, extrapolated", answer=[said])], [law["not_fitted"]]


def _points(found: Document) -> tuple[str, str]:
    return f"{found['value']:.1f}", format_ends(found["ci_low"], found["ci_high"])


def _predictions(evaluation: Evaluation) -> dict[str, dict[str, Any]]:
    """Errors that the scaling law expects in each few-shot setting, by name.

    Empty without the standard decomposition, and on other data than those that the law was fitted on.
    """
    report = evaluation.risk
    if report is None or report.order != "standard":
        return {}
    from ..analysis.label_prediction import is_law_known

    if not is_law_known(report):
        return {}
    few = [result for result in evaluation.settings if not result.setting.is_full]
    n_labels = {result.setting.name: result.runs[0].n_train for result in few}
    possible = {name: n for name, n in n_labels.items() if report.n_classes <= n <= report.n_train}
    if not possible:
        return {}
    from ..analysis.label_prediction import predict_labels

    found = predict_labels(report, possible.values(), seed=report.seed)
    return {name: asdict(one) for name, one in zip(possible, found, strict=True)}


def _law_elsewhere(evaluation: Evaluation) -> dict[str, Any] | None:
    """The label scaling law on other data than ImageNet-1K, as JSON.

    "fitted" has the exponent that fits the errors with few labels, or is null with the reason under "not_fitted"; then
    "extrapolated" has the errors by ImageNet's law, and how far it was off elsewhere. None without the standard
    decomposition, and on ImageNet-1K, where "predicted" of each error has the law.
    """
    report = evaluation.risk
    if report is None or report.order != "standard":
        return None
    from ..analysis.label_prediction import fit_exponent, is_law_known, measure_misses_elsewhere, predict_labels

    if is_law_known(report):
        return None
    few = [result for result in evaluation.settings if not result.setting.is_full]
    try:
        return {"fitted": asdict(fit_exponent(report, few, seed=report.seed)), "not_fitted": None, "extrapolated": None}
    except ZooError as error:
        why = str(error)
    n_labels = {result.setting.name: result.runs[0].n_train for result in few} or _usual_labels(report)
    possible = {name: n for name, n in n_labels.items() if report.n_classes <= n < report.n_train}
    try:
        expected = predict_labels(report, possible.values(), seed=report.seed)
        missed = asdict(measure_misses_elsewhere())
    except ZooError as error:  # such as a damaged file of results, which is no reason to print nothing
        return {"fitted": None, "not_fitted": f"{why} {error}", "extrapolated": None}
    errors = [
        {"setting": name, "n_train": one.n_labels, "error": one.error}
        for name, one in zip(possible, expected, strict=True)
    ]
    return {"fitted": None, "not_fitted": why, "extrapolated": {"errors": errors, "missed_elsewhere": missed}}


def _usual_labels(report: RiskReport) -> dict[str, int]:
    """Labels of the published few-label settings, by name."""
    from ..evaluation.measuring import PUBLISHED_SETTINGS, label_setting

    found = {}
    for setting in map(label_setting, PUBLISHED_SETTINGS):
        if setting.n_per_class is not None:
            found[setting.name] = setting.n_per_class * report.n_classes
        elif setting.percent is not None:
            found[setting.name] = max(report.n_classes, round(report.n_train * setting.percent / 100))
    return found


def build_evaluation_document(evaluation: Evaluation) -> dict[str, Any]:
    """An evaluation as JSON."""
    train, test = evaluation.train, evaluation.test
    predicted = _predictions(evaluation)
    return {
        **_of_features(train, test),
        "n_classes": len(train.classes),
        "protocol": evaluation.protocols.errors.name,
        "probe": evaluation.protocols.reason,
        "errors": [
            _setting(result) | {"predicted": predicted.get(result.setting.name)} for result in evaluation.settings
        ],
        "pooling": [_setting(one.linear) | {"gain": _interval(one.gain)} for one in evaluation.pooled] or None,
        "left_out": evaluation.left_out,
        "neighbours": None if evaluation.neighbours is None else _setting(evaluation.neighbours),
        "decomposition": None if evaluation.risk is None else build_risk_document(evaluation.risk),
        "pooled_decomposition": None if evaluation.pooled_risk is None else build_risk_document(evaluation.pooled_risk),
        "law": _law_elsewhere(evaluation),
        "copies": build_counts_document(evaluation.copies),
        "groups": build_counts_document(evaluation.groups),
        "not_kept": list(evaluation.problems),
        "features": {"train": train.where or None, "val": test.where or None},
    }


def _of_features(train: Features, test: Features) -> dict[str, Any]:
    from ..features.origin import build_origin_document

    return {
        "encoder": train.origin.encoder,
        "dataset": train.origin.dataset,
        "n_train": len(train.y),
        "n_test": len(test.y),
        "dim": train.dim,
        "skipped": {"train": [one.image for one in train.skipped], "val": [one.image for one in test.skipped]},
        "origin": {"train": build_origin_document(train.origin), "val": build_origin_document(test.origin)},
    }


def build_risk_document(report: RiskReport) -> dict[str, Any]:
    """A decomposition as JSON; an unknown component is null."""
    refit: dict[str, Any] | None = None
    if report.refit is not None:
        replicates = {name: values.tolist() for name, values in report.refit.replicates.items()}
        refit = {"n": report.refit.n, **_parts(report.refit.intervals), "replicates": replicates}
    return {
        "order": report.order,
        **_parts(report.intervals),
        "risks": {name: {"split": risk.split, **_interval(risk.error)} for name, risk in report.risks.items()},
        "n_train": report.n_train,
        "n_test": report.n_test,
        "assumption": report.assumption,
        "warning": report.warning or None,
        "intervals": "over images and seeds, given these probes",
        "probes_disagree": None if report.disagreement is None else report.is_unstable,
        "probes_p_value": report.disagreement,
        "refit": refit,
    }


def _parts(intervals: Mapping[str, Interval]) -> dict[str, Any]:
    from ..evaluation.risk import COMPONENTS

    parts = {part: _interval(intervals[part]) if part in intervals else None for part in COMPONENTS}
    return {"parts": parts, "full_shot_error": _interval(intervals["full_shot_error"])}


def _setting(result: SettingResult) -> dict[str, Any]:
    return {
        "setting": result.setting.name,
        "split": result.setting.split,
        "n_train": result.runs[0].n_train,
        **_interval(result.error),
        "preparation": _preparation(result.runs),
        "runs": [
            {"seed": run.seed, "value": run.error_percent, "n_tuning": run.n_tuning, "report": _plain(run.report)}
            for run in result.runs
        ],
    }


def _preparation(runs: Sequence[ProbeRun]) -> dict[str, Any] | None:
    """The preparations that probes chose, with their numbers, and mean errors on the tuning rows, in percent.

    None of probes of unscaled features; an error is null where it was not measured.
    """
    from ..evaluation.scaling import AS_THEY_ARE

    choices = [run.report.get("choice", run.report) for run in runs]
    if not all(choice.get("preparations") for choice in choices):
        return None
    chosen = [choice["preparation"] for choice in choices]
    tried = [{one["preparation"]: one["validation_error_percent"] for one in each["preparations"]} for each in choices]

    def mean_of(names: Sequence[str]) -> float | None:
        errors = [each.get(name) for each, name in zip(tried, names, strict=True)]
        known = [error for error in errors if error is not None]
        return fmean(known) if len(known) == len(errors) else None

    return {
        "chosen": dict(Counter(chosen).most_common()),
        "error": mean_of(chosen),
        "as_they_are": mean_of([AS_THEY_ARE] * len(tried)),
        "cross_validated": any("n_folds" in choice for choice in choices),
    }


def _interval(found: Interval) -> dict[str, Any]:
    return {"value": found.value, "ci_low": found.ci_low, "ci_high": found.ci_high}


def _plain(value: Any) -> Any:
    """A probe's report as JSON, with numbers that are not finite as text."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, Missing):
        return None
    if isinstance(value, float) and value - value != 0:
        return str(value)
    return value


# --- metrics of predictions ------------------------------------------------------------------------------------------

TITLES = {
    "error": "error",
    "balanced_error": "balanced error",
    "auroc": "AUROC",
    "average_precision": "average precision",
    "log_loss": "log loss",
    "calibration_error": "calibration error",
    "adaptive_calibration_error": "calibration error, adaptive bins",
    "tag_average_precision": "mean average precision",
    "tag_error": "error of a tag",
    "any_tag_error": "any tag wrong",
}
_MOST_CLASSES = 20  # with a line each
_MOST_COLUMNS = 12  # of a confusion matrix
_N_CONFUSIONS = 10


def print_measured(
    found: Evaluation | TagEvaluation | RegressionEvaluation,
    document: Document,
    kept: RefittedProbe | None,
    notes: Sequence[str],
) -> None:
    """Prints what was measured of one encoder, the metrics of its probe with all labels, and notes on the images."""
    from ..evaluation.classification import ClassificationMetrics
    from ..evaluation.multilabel import TagEvaluation
    from ..evaluation.regression import RegressionEvaluation

    if isinstance(found, RegressionEvaluation):
        _print_numbers(document, notes)
        return
    if isinstance(found, TagEvaluation):
        _print_tags(found, notes)
        return
    print_evaluation(found, document, notes)
    if kept is not None:
        assert isinstance(kept.metrics, ClassificationMetrics)
        images = format_count(kept.n_different, "image")
        other = f"the probe that was kept differs on {images}: two classes are as likely there"
        print_classification(kept.metrics, "The probe with all labels", [other] * bool(kept.n_different))


def build_probe_document(kept: RefittedProbe) -> dict[str, Any]:
    """Metrics of the probe with all labels as JSON."""
    return kept.metrics.as_dict() | {"n_judged_otherwise": kept.n_different}


def _print_tags(found: TagEvaluation, notes: Sequence[str]) -> None:
    """Prints what was measured on images with tags, and what does not apply to them."""
    from ..evaluation.multilabel import NOT_FOR_TAGS

    document = build_tagging_document(found)
    problems = [f"the tag {tag!r} has no probe: {why}" for tag, why in found.left_out.items()]
    if found.left_out or found.metrics.left_out:
        problems.append("not recorded in your results: the mean average precision is not over all tags")
    protocol = f"protocol {found.protocol.name}; C chosen on {format_count(found.n_tuning, 'training image')}"
    important = [*problems, *_problems(document), *notes]
    title = AnswerTable(**_make_title(document, f"{len(document['tags'])} tags"))
    print_tagging(found.metrics, "One probe per tag, with all labels", important, [NOT_FOR_TAGS, protocol], [title])


def build_tagging_document(found: TagEvaluation) -> dict[str, Any]:
    """What was measured on images with tags as JSON."""
    from ..evaluation.multilabel import NOT_FOR_TAGS

    return {
        **_of_features(found.train, found.test),
        "tags": list(found.train.tags),
        "protocol": found.protocol.name,
        "metrics": found.metrics.as_dict(),
        "chosen": {"C": found.chosen},
        "n_tuning": found.n_tuning,
        "left_out": found.left_out,
        "not_applicable": NOT_FOR_TAGS,
        "not_converged": list(found.not_converged),
    }


def _print_numbers(found: Document, notes: Sequence[str]) -> None:
    """Prints what was measured on images that are labelled with numbers, and what does not apply to them."""
    from ..evaluation.regression import NOT_FOR_NUMBERS

    errors = found["errors"]
    columns = [
        AnswerColumn("labels", [one["setting"] for one in errors]),
        AnswerColumn("number", [one["n_train"] for one in errors]),
        *_list_regression_columns([one["metrics"] for one in errors]),
    ]
    units = f"MAE and RMSE in the unit of {found['target']!r}; 95 % intervals over images and seeds, given these probes"
    print_answer(
        AnswerTable(**_make_title(found, f"{found['n_numbers']:,} numbers ({found['target']})"), columns=columns),
        notes=[*_left_out(found["left_out"]), *_problems(found), *notes],
        more=[f"{units}; protocol {found['protocol']}; recorded: 1 - R2 in percent", NOT_FOR_NUMBERS],
    )


def _list_regression_columns(metrics: Sequence[Mapping[str, Document]]) -> list[AnswerColumn]:
    """Values and intervals of metrics of numbers; errors have three digits that count, whatever their unit."""

    def digits(name: str, one: Document) -> int:
        is_sized = name.endswith("error") and one["value"]
        return max(0, 2 - math.floor(math.log10(one["value"]))) if is_sized else 2

    columns = []
    for name, heading in zip(metrics[0], ("R2", "MAE", "RMSE", "Spearman"), strict=True):
        found = [(one[name], digits(name, one[name])) for one in metrics]
        values = [f"{one['value']:.{n}f}" for one, n in found]
        ends = [format_ends(one["ci_low"], one["ci_high"], digits=n) for one, n in found]
        columns += [AnswerColumn(heading, values, has_numbers=True), AnswerColumn("interval", ends, has_numbers=True)]
    return columns


def build_regression_document(found: RegressionEvaluation) -> dict[str, Any]:
    """What was measured on images that are labelled with numbers as JSON; errors are 1 - R2 in percent."""
    train = found.train
    return {
        **_of_features(train, found.test),
        "target": train.target,
        "n_numbers": len(set(train.y.tolist())),
        "protocol": found.protocol.name,
        "errors": [
            {
                "setting": one.setting.name,
                "n_train": one.n_train,
                **_interval(one.metrics.unexplained),
                **one.metrics.as_dict(),
                "runs": [
                    {"seed": seed, "value": of_run.unexplained.value, "report": report}
                    for seed, (of_run, report) in one.runs.items()
                ],
            }
            for one in found.settings
        ],
        "left_out": found.left_out,
        "neighbours": None,
        "metrics": found.kept.metrics.as_dict(),
        "copies": build_counts_document(found.copies),
        "groups": build_counts_document(found.groups),
    }


def print_regression(found: RegressionMetrics, of: str) -> None:
    """Prints metrics of the predicted numbers of somebody."""
    title = f"{of}, on {format_count(found.n_images, 'image')}"
    print_answer(AnswerTable(title=title, columns=_list_regression_columns([found.as_dict()["metrics"]])))


def print_classification(
    found: ClassificationMetrics, of: str, notes: Sequence[str] = (), more: Sequence[str] = ()
) -> None:
    """Prints metrics, classes and confusions of the predictions of somebody; then notes on them."""
    worst = sorted(found.per_class, key=lambda one: -one.error.value if one.error else 1.0)
    tables = [
        _build_metrics_table(found, of),
        _build_classes_table("class", "classes with the largest errors", found.per_class, worst[:_N_CONFUSIONS]),
    ]
    if len(found.classes) <= _MOST_COLUMNS:
        counts = zip(found.classes, found.confusion.T.tolist(), strict=True)
        columns = [AnswerColumn(name, some, form=lambda n: f"{n:,}" if n else ".") for name, some in counts]
        title = "Confusion matrix: rows are classes, columns what they are predicted as"
        tables.append(AnswerTable(title=title, columns=[AnswerColumn("class", found.classes), *columns]))
    elif pairs := found.confusions(_N_CONFUSIONS):
        rows = [[a, b, f"{n:,}"] for a, b, n in pairs]
        headings = ["class", "predicted as", "images"]
        tables.append(make_table(headings, rows, numbers=[2], title="Most frequent confusions"))
    ranked = f"of {found.positive!r}" if found.positive is not None else "means over classes, each against the rest"
    ranks = f"AUROC and average precision (AP) are {ranked}; " if "auroc" in found.metrics else ""
    chance, calibration = found.calibration, []
    if chance.by_chance is not None and chance.p_value is not None:
        is_off = "miscalibrated" if chance.p_value <= 0.05 else "no miscalibration detected"
        calibration.append(
            f"{is_off}: 1 in 40 calibrated probes has a calibration error above {chance.by_chance:.1f} percent on so "
            f"many images (p = {chance.p_value:.2g})"
        )
    units = f"percent (log loss in nats); {ranks}{_intervals(found)}"
    print_answer(*tables, notes=[*notes, *_left_out_metrics(found), *calibration], more=[units, *more])


def print_tagging(
    found: TaggingMetrics,
    of: str,
    notes: Sequence[str] = (),
    more: Sequence[str] = (),
    before: Sequence[AnswerTable] = (),
) -> None:
    """Prints metrics and tags; then notes on them."""
    worst = sorted(found.per_tag, key=lambda one: one.average_precision.value if one.average_precision else 101.0)
    which = "tags with the smallest average precision"
    tables = [_build_metrics_table(found, of), _build_classes_table("tag", which, found.per_tag, worst[:_MOST_CLASSES])]
    units = f"percent, a tag is predicted above a probability of a half; {_intervals(found)}"
    print_answer(*before, *tables, notes=[*notes, *_left_out_metrics(found)], more=[units, *more])


def _left_out_metrics(found: ClassificationMetrics | TaggingMetrics) -> list[str]:
    return [f"{what}: {why}" for what, why in found.left_out.items()]


def _build_metrics_table(found: ClassificationMetrics | TaggingMetrics, of: str) -> AnswerTable:
    from ..evaluation.classification import HIGHER_IS_BETTER, UNITS

    rows = []
    for name, one in found.metrics.items():
        digits = 3 if UNITS[name] == "nats" else 1
        ends = format_ends(one.ci_low, one.ci_high, digits=digits)
        better = "higher" if name in HIGHER_IS_BETTER else "lower"
        rows.append([TITLES[name], f"{one.value:.{digits}f}", ends, UNITS[name], better])
    title = f"{of}, on {format_count(found.n_images, 'image')}"
    return make_table(["metric", "value", "interval", "unit", "better"], rows, numbers=[1, 2], title=title)


def _build_classes_table(
    what: str, which: str, everyone: Sequence[ClassResult], worst: Sequence[ClassResult]
) -> AnswerTable:
    """A line for each class or tag; of many, the worst."""
    is_cut = len(everyone) > _MOST_CLASSES
    shown = worst if is_cut else everyone
    columns = [
        AnswerColumn(what, [one.name or "(none)" for one in shown]),
        AnswerColumn("images", [one.n_images for one in shown]),
        AnswerColumn("predicted", [one.n_predicted for one in shown]),
        *make_interval_columns((one.error for one in shown), key=""),
        *make_interval_columns((one.auroc for one in shown), "AUROC", key=""),
        *make_interval_columns((one.average_precision for one in shown), "AP", key=""),
    ]
    title = f"The {len(shown)} of {len(everyone):,} {which}" if is_cut else f"Each {what}"
    return AnswerTable(title=title, columns=columns)


def _intervals(found: ClassificationMetrics | TaggingMetrics) -> str:
    if not found.n_draws:
        return "without intervals"
    over = "images" if found.n_groups is None else f"the {format_count(found.n_groups, 'group')} of images"
    return f"95 % intervals by {found.n_draws:,} resamples of {over}, given this probe"
