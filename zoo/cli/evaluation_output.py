"""Evaluations, risk decompositions and metrics of predictions, as tables and as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

from ..cards.schema import Missing
from ..errors import ZooError, format_count, format_range
from .measure_options import build_copies_document, build_groups_document, list_skipped_notes
from .output import print_notes, print_table, wrap_text

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

PARTS = {
    "approximation": "approximation",
    "usability": "usability",
    "approximation_plus_usability": "approximation + usability",
    "probe_generalization": "probe generalization",
    "encoder_generalization": "encoder generalization",
}


# --- errors and components -------------------------------------------------------------------------------------------


def build_error_table(found: Document) -> tuple[list[str], list[list[str]]]:
    """Headers and rows of the errors by label setting of a document."""
    has_law = any(one["predicted"] for one in found["errors"])
    rows = []
    for one in _results_in(found):
        run, law = one["runs"][0], one.get("predicted")
        name = one["setting"] if "predicted" in one else f"full, {run['report']['k']} nearest neighbours"
        row = [name, f"{one['n_train']:,}", *_points(one), str(len(one["runs"]))]
        if has_law:
            row += [f"{law['error']:.1f}", _ends(law["ci_low"], law["ci_high"])] if law else ["", ""]
        rows.append(row)
    return ["labels", "number", "error %", "interval", "seeds"] + ["law predicts", "interval"] * has_law, rows


def print_evaluation(found: Document, notes: Sequence[str] = ()) -> None:
    """Prints errors by label setting, the decomposition and the label law of a document; then notes on the images."""
    _print_title(found, format_count(found["n_classes"], "class", "classes"))
    click.echo()
    has_law = any(one["predicted"] for one in found["errors"])
    headers, rows = build_error_table(found)
    if rows:
        print_table(headers, rows, right=range(1, len(headers)))
    if found["decomposition"] is not None:
        print_risk(found["encoder"], found["decomposition"], is_last=False)
    law_notes = _print_law(found["law"])
    important = [*_left_out(found["left_out"]), *_problems(found), *notes, *list_scaling_notes(found)]
    runs = [run for result in found["errors"] for run in result["runs"]]
    few = sorted({run["n_tuning"] for run in runs if run["n_tuning"] is not None})
    n_tuning = format_range(f"{few[0]:,}", f"{few[-1]:,}") if few else ""
    tuning = f"probes with few labels were tuned on {n_tuning} further training images"
    unit = "percent of the test images, lower is better; 95 % intervals over images and seeds, given these probes"
    more = [f"{unit}; protocol {found['protocol']}", *[tuning] * bool(few), *law_notes]
    if has_law:
        more += sorted(
            {caveat for one in found["errors"] if one["predicted"] for caveat in one["predicted"]["caveats"]}
        )
    risk = found["decomposition"]
    print_notes([*([] if risk is None else _risk_notes(risk)), *important], more)


def render_evaluation_page(found: Document, mistakes: Mistakes, images: Any, notes: Sequence[str] = ()) -> str:
    """A page of an evaluation: errors, the decomposition, and what the probe with all labels gets wrong."""
    from ..looking.mistakes_page import build_mistake_sections, render_mistakes_page

    if "tags" in found:
        precision = found["metrics"]["metrics"]["tag_average_precision"]
        value, ends = _points(precision)
        answer, tables = f"The mean average precision is {value} % ({ends}, 95 % interval over images).", []
    else:
        wrong = mistakes.n_wrong or 0
        answer = (
            f"With all {found['n_train']:,} labels {wrong:,} of {mistakes.n_test:,} test images are predicted wrongly: "
            f"{100 * wrong / mistakes.n_test:.1f} %."
        )
        tables = [("Errors by number of labels, in percent of the test images", *build_error_table(found))]
        if (risk := found["decomposition"]) is not None:
            tables.append(("Components of the full-shot error, in percentage points", *build_risk_table(risk)))
            notes = [*_risk_notes(risk), *notes]
    return render_mistakes_page(
        f"What {found['encoder']} gets wrong on {found['dataset']}",
        [answer],
        build_mistake_sections(mistakes, images),
        tables=tables,
        notes=[*mistakes.notes, *notes],
        facts=f"Linear probe {found['protocol']}; 95 % intervals over images and seeds.",
    )


def _print_title(found: Document, labels: str) -> None:
    click.echo(
        click.style(f"\n{found['encoder']} on {found['dataset']}", bold=True)
        + f": {found['n_train']:,} training and {format_count(found['n_test'], 'test image')}, {labels}, "
        + format_count(found["dim"], "dimension")
    )


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


_TELLING_POINTS = 2.0  # between the tuning errors of features as prepared and as they are


def list_scaling_notes(found: Document) -> list[str]:
    """A note on the label settings whose tuning error is much lower as tuned than of the features as they are, if any.

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
    return [f"features are prepared as tuned (tuning error, for that as they are): {', '.join(said)}"] if said else []


def _results_in(found: Document) -> list[Document]:
    """Label settings of a document, and nearest neighbours, with their runs; none of images with tags."""
    return [*found.get("errors", ()), *([found["neighbours"]] if found.get("neighbours") else ())]


_MOST_WITH_INTERVALS = 8  # encoders in a table


def print_many(documents: Sequence[Document], notes: Sequence[str] = ()) -> None:
    """Prints what was measured of many encoders, a line each; then notes on the images."""
    first = documents[0]
    what = first["encoder"] if len(documents) == 1 else f"{len(documents)} encoders"
    click.echo(
        click.style(f"\n{what} on {first['dataset']}", bold=True)
        + f": {first['n_train']:,} training and {format_count(first['n_test'], 'test image')}\n"
    )
    errors = []
    for one in documents:
        if "errors" in one:
            errors.append({result["setting"]: result for result in one["errors"]})
            errors[-1] |= {"nearest neighbours": one["neighbours"]} if one["neighbours"] else {}
        else:
            precision = one["metrics"]["metrics"].get("tag_average_precision")
            errors.append({} if precision is None else {"mean average precision": precision})
    _print_points("dimensions", [f"{one['dim']:,}" for one in documents], documents, errors)
    risks = [one.get("decomposition") for one in documents]
    important = []
    if any(risks):
        click.echo("\nComponents of the full-shot errors, in percentage points\n")
        parts = [
            {}
            if risk is None
            else {words: risk["parts"][part] for part, words in PARTS.items() if risk["parts"][part]}
            | {"full-shot error": risk["full_shot_error"]}
            for risk in risks
        ]
        _print_points("order", [risk["order"] if risk else "" for risk in risks], documents, parts)
        important += sorted({risk["warning"] or risk["assumption"] for risk in risks if risk})
    for one in documents:
        important += [f"{one['encoder']}: {note}" for note in (*_left_out(one["left_out"]), *_problems(one))]
    unit = "percent, higher is better" if "tags" in first else "percent of the test images, lower is better"
    unit = "unexplained variance in percent, lower is better" if "target" in first else unit
    protocols = ", ".join(dict.fromkeys(one["protocol"] for one in documents))
    prepared = [f"{one['encoder']}: {note}" for one in documents for note in list_scaling_notes(one)]
    print_notes([f"{unit}; protocol {protocols}; 95 % intervals with --json", *important, *notes, *prepared])


def _print_points(
    what: str, cells: Sequence[str], documents: Sequence[Document], found: Sequence[Mapping[str, Document]]
) -> None:
    """One line an encoder: its name, a cell, and a value a column, with its interval if they are few."""
    columns = list(dict.fromkeys(name for one in found for name in one))
    rows = []
    for document, cell, one in zip(documents, cells, found, strict=True):
        points = []
        for column in columns:
            value, ends = _points(one[column]) if column in one else ("", "")
            points.append(f"{value} ({ends})" if ends and len(documents) <= _MOST_WITH_INTERVALS else value)
        rows.append([document["encoder"], cell, *points])
    print_table(["encoder", what, *columns], rows, right=range(1, len(columns) + 2))


def build_risk_table(risk: Document) -> tuple[list[str], list[list[str]]]:
    """Headers and rows of the components of the full-shot error."""
    refit, rows = risk["refit"], []
    for part, words in (PARTS | {"full_shot_error": "full-shot error"}).items():
        is_sum = part == "approximation_plus_usability" and risk["parts"]["approximation"] is not None
        one = risk[part] if part in risk else risk["parts"][part]
        if one is not None and not is_sum:
            refitted = refit and (refit[part] if part in refit else refit["parts"][part])
            rows.append([words, *_points(one), *([_points(refitted)[1]] if refitted else [])])
    return ["part", "points", "given these probes"] + ["with refits"] * (refit is not None), rows


def print_risk(encoder: str, risk: Document, *, is_last: bool = True) -> None:
    """Prints the components of the full-shot error, and notes on them if nothing follows."""
    click.echo(f"\nComponents of the full-shot error of {encoder}, in percentage points\n")
    headers, rows = build_risk_table(risk)
    print_table(headers, rows, right=range(1, len(headers)))
    if is_last:
        print_notes(_risk_notes(risk))


def _risk_notes(risk: Document) -> list[str]:
    notes = [risk["warning"] or risk["assumption"]]
    if risk["probes_disagree"]:
        notes.append(
            f"the probes of different parts of the images disagree by more than the images explain (p = "
            f"{risk['probes_p_value']:.1g}), so that intervals given these probes are too short"
        )
    if risk["parts"]["approximation"] is None:
        notes.append("approximation and usability cannot be separated without a supervised twin (--supervised)")
    if risk["refit"] is None:
        notes.append("intervals do not include the choice of training images; --refit 20 adds it")
    return notes


def _print_law(law: Document | None) -> list[str]:
    """Prints the label scaling law on other data than ImageNet-1K; returns notes on it."""
    if law is None or (law["fitted"] is None and law["extrapolated"] is None):
        return [] if law is None else [law["not_fitted"]]
    if one := law["fitted"]:
        labels = ", ".join(f"{n:,}" for n in one["n_labels"])
        click.echo("\nHow the error falls with labels\n")
        click.echo(
            wrap_text(
                f"exponent {one['exponent']:.2f} ({one['ci_low']:.2f} to {one['ci_high']:.2f}), fitted to "
                f"{one['n_settings']} errors with {labels} labels of these images, which it misses by "
                f"{one['mean_absolute_miss']:.1f} points on average and {one['largest_miss']:.1f} at most"
            )
        )
        return []
    missed = law["extrapolated"]["missed_elsewhere"]
    errors = ", ".join(f"{one['setting']} {one['error']:.1f}" for one in law["extrapolated"]["errors"])
    click.echo("\nImageNet's law, extrapolated\n")
    click.echo(
        wrap_text(
            f"{errors or 'no number of labels between one per class and all'} percent; on "
            f"{' and '.join(missed['datasets'])} it was off by {missed['mean_absolute']:.1f} points on average and "
            f"{missed['largest']:.1f} at most, over {format_count(missed['n'], 'error')} of {missed['n_encoders']} "
            "encoders"
        )
    )
    return [law["not_fitted"]]


def _points(found: Document) -> tuple[str, str]:
    return f"{found['value']:.1f}", _ends(found["ci_low"], found["ci_high"])


def _ends(low: float | None, high: float | None, *, digits: int = 1) -> str:
    return "" if low is None or high is None else f"{low:.{digits}f} to {high:.{digits}f}"


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
        "left_out": evaluation.left_out,
        "neighbours": None if evaluation.neighbours is None else _setting(evaluation.neighbours),
        "decomposition": None if evaluation.risk is None else build_risk_document(evaluation.risk),
        "law": _law_elsewhere(evaluation),
        "copies": build_copies_document(evaluation.copies),
        "groups": build_groups_document(evaluation.groups),
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
    parts = {part: _interval(intervals[part]) if part in intervals else None for part in PARTS}
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

    None of probes that take features as they are; an error is null where it was not measured.
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
    print_evaluation(document, notes)
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
    _print_title(document, f"{len(document['tags'])} tags")
    problems = [f"the tag {tag!r} has no probe: {why}" for tag, why in found.left_out.items()]
    if found.left_out or found.metrics.left_out:
        problems.append("not recorded in your results: the mean average precision is not over all tags")
    protocol = f"protocol {found.protocol.name}; C chosen on {format_count(found.n_tuning, 'training image')}"
    important = [*problems, *_problems(document), *notes]
    print_tagging(found.metrics, "One probe a tag, with all labels", important, [NOT_FOR_TAGS, protocol])


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

    _print_title(found, f"{found['n_numbers']:,} numbers ({found['target']})")
    click.echo()
    rows = [[one["setting"], f"{one['n_train']:,}", *_of_metrics(one["metrics"])] for one in found["errors"]]
    print_table(["labels", "number", *_NUMBER_HEADERS], rows, right=range(1, 10))
    units = f"MAE and RMSE in the unit of {found['target']!r}; 95 % intervals over images and seeds, given these probes"
    important = [*_left_out(found["left_out"]), *_problems(found), *notes]
    print_notes(important, [f"{units}; protocol {found['protocol']}; recorded: 1 - R2 in percent", NOT_FOR_NUMBERS])


_NUMBER_HEADERS = ["R2", "interval", "MAE", "interval", "RMSE", "interval", "Spearman", "interval"]


def _of_metrics(metrics: Mapping[str, Document]) -> list[str]:
    """Values and intervals of metrics of numbers; errors have three digits that count, whatever their unit."""
    cells = []
    for name, one in metrics.items():
        digits = 2
        if name.endswith("error") and one["value"]:
            digits = max(0, 2 - math.floor(math.log10(one["value"])))
        cells += [f"{one['value']:.{digits}f}", _ends(one["ci_low"], one["ci_high"], digits=digits)]
    return cells


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
        "copies": build_copies_document(found.copies),
        "groups": build_groups_document(found.groups),
    }


def print_regression(found: RegressionMetrics, of: str) -> None:
    """Prints metrics of the predicted numbers of somebody."""
    click.echo(f"\n{of}, on {format_count(found.n_images, 'image')}\n")
    print_table(_NUMBER_HEADERS, [_of_metrics(found.as_dict()["metrics"])], right=range(8))


def print_classification(
    found: ClassificationMetrics, of: str, notes: Sequence[str] = (), more: Sequence[str] = ()
) -> None:
    """Prints metrics, classes and confusions of the predictions of somebody; then notes on them."""
    click.echo(f"\n{of}, on {format_count(found.n_images, 'image')}\n")
    _print_metrics(found.metrics)
    worst = sorted(found.per_class, key=lambda one: -one.error.value if one.error else 1.0)
    _print_classes("class", "classes with the largest errors", found.per_class, worst, most=_N_CONFUSIONS)
    if len(found.classes) <= _MOST_COLUMNS:
        click.echo("\nConfusion matrix: rows are classes, columns what they are predicted as\n")
        rows = [
            [name, *(f"{n:,}" if n else "." for n in counts)]
            for name, counts in zip(found.classes, found.confusion.tolist(), strict=True)
        ]
        print_table(["class", *found.classes], rows, right=range(1, len(found.classes) + 1))
    elif pairs := found.confusions(_N_CONFUSIONS):
        click.echo("\nMost frequent confusions\n")
        print_table(["class", "predicted as", "images"], [[a, b, f"{n:,}"] for a, b, n in pairs], right=[2])
    ranked = f"of {found.positive!r}" if found.positive is not None else "means over classes, each against the rest"
    ranks = f"AUROC and average precision (AP) are {ranked}; " if "auroc" in found.metrics else ""
    chance, calibration = found.calibration, []
    if chance.by_chance is not None and chance.p_value is not None:
        is_off = "miscalibrated" if chance.p_value <= 0.05 else "no miscalibration detected"
        calibration.append(
            f"{is_off}: 1 in 40 calibrated probes has a calibration error above {chance.by_chance:.1f} percent on so "
            f"many images (p = {chance.p_value:.2g})"
        )
    left_out = [f"{what}: {why}" for what, why in found.left_out.items()]
    units = f"percent (log loss in nats); {ranks}{_intervals(found)}"
    print_notes([*notes, *left_out, *calibration], [units, *more])


def print_tagging(found: TaggingMetrics, of: str, notes: Sequence[str] = (), more: Sequence[str] = ()) -> None:
    """Prints metrics and tags; then notes on them."""
    click.echo(f"\n{of}, on {format_count(found.n_images, 'image')}\n")
    _print_metrics(found.metrics)
    worst = sorted(found.per_tag, key=lambda one: one.average_precision.value if one.average_precision else 101.0)
    _print_classes("tag", "tags with the smallest average precision", found.per_tag, worst, most=_MOST_CLASSES)
    units = f"percent, a tag is predicted above a probability of a half; {_intervals(found)}"
    left_out = [f"{what}: {why}" for what, why in found.left_out.items()]
    print_notes([*notes, *left_out], [units, *more])


def _print_metrics(metrics: dict[str, Interval]) -> None:
    from ..evaluation.classification import HIGHER_IS_BETTER, UNITS

    rows = [
        [
            TITLES[name],
            f"{one.value:.3f}" if UNITS[name] == "nats" else f"{one.value:.1f}",
            _ends(one.ci_low, one.ci_high, digits=3 if UNITS[name] == "nats" else 1),
            UNITS[name],
            "higher" if name in HIGHER_IS_BETTER else "lower",
        ]
        for name, one in metrics.items()
    ]
    print_table(["metric", "value", "interval", "unit", "better"], rows, right=[1, 2])


def _print_classes(
    what: str, which: str, everyone: Sequence[ClassResult], worst: Sequence[ClassResult], *, most: int
) -> None:
    """A line for each class or tag; of many, the worst."""
    is_cut = len(everyone) > _MOST_CLASSES
    shown = worst[:most] if is_cut else everyone
    click.echo(f"\nThe {len(shown)} of {len(everyone):,} {which}\n" if is_cut else f"\nEach {what}\n")
    rows = [
        [
            one.name or "(none)",
            f"{one.n_images:,}",
            f"{one.n_predicted:,}",
            *_of_class(one.error),
            *_of_class(one.auroc),
            *_of_class(one.average_precision),
        ]
        for one in shown
    ]
    headers = [what, "images", "predicted", "error %", "interval", "AUROC", "interval", "AP", "interval"]
    print_table(headers, rows, right=range(1, len(headers)))


def _intervals(found: ClassificationMetrics | TaggingMetrics) -> str:
    if not found.n_draws:
        return "without intervals"
    over = "images" if found.n_groups is None else f"the {format_count(found.n_groups, 'group')} of images"
    return f"95 % intervals by {found.n_draws:,} resamples of {over}, given this probe"


def _of_class(found: Interval | None) -> tuple[str, str]:
    return ("", "") if found is None else _points(_interval(found))
