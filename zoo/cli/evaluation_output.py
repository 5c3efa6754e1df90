"""Evaluations and risk decompositions as tables and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ..cards.schema import Missing
from ..errors import ZooError
from .measure_options import copies_document, copies_notes, groups_document, groups_notes, skipped_notes
from .output import print_notes, print_table, wrapped

if TYPE_CHECKING:
    from ..analysis.label_prediction import LabelPrediction
    from ..evaluation.bootstrap import Interval
    from ..evaluation.evaluating import Evaluation
    from ..evaluation.measuring import SettingResult
    from ..evaluation.risk import RiskReport


PARTS = {
    "approximation": "approximation",
    "usability": "usability",
    "approximation_plus_usability": "approximation + usability",
    "probe_generalization": "probe generalization",
    "encoder_generalization": "encoder generalization",
}


def print_evaluation(evaluation: Evaluation, *, on_images: Sequence[str] = ()) -> None:
    """Prints errors by label setting, the decomposition, and notes; ``on_images`` are notes on how images are read."""
    train, test = evaluation.train, evaluation.test
    click.echo(
        click.style(f"\n{train.origin.encoder} on {train.origin.dataset}", bold=True)
        + f": {len(train.y):,} training and {len(test.y):,} test images, {len(train.classes)} classes, "
        f"{train.dim:,} dimensions\n"
    )
    predicted = predictions(evaluation)
    if evaluation.settings or evaluation.neighbours is not None:
        _print_errors(evaluation, predicted)
    if evaluation.risk is not None:
        print_risk(evaluation.risk)
    _print_law(law_elsewhere(evaluation))
    notes = [
        "percent of the test images, lower is better; 95 % intervals over images and seeds, given these probes; "
        f"protocol {evaluation.protocols.errors.name}"
    ]
    notes += copies_notes(evaluation.copies) + groups_notes(evaluation.groups, has_intervals=True)
    if evaluation.problems:
        notes.append(f"{len(evaluation.problems)} measured probes could not be stored: {evaluation.problems[0]}")
    notes += [f"{name} was left out: {why}" for name, why in evaluation.left_out.items()]
    notes += on_images
    skipped = [f"{part.origin.split}: {one.image}" for part in (train, test) for one in part.skipped]
    notes += skipped_notes(skipped, n_named=5)
    runs = [run for result in evaluation.settings for run in result.runs if not run.refitted]
    few = sorted({run.n_tuning for run in runs if run.n_tuning is not None})
    if few:
        chosen = " or ".join(f"{n:,}" for n in few) if len(few) < 4 else f"{few[0]:,} to {few[-1]:,}"
        notes.append(f"settings of probes with few labels were chosen on {chosen} further labelled training images")
    notes += _not_converged(evaluation)
    if predicted:
        told = evaluation.risk.warning if evaluation.risk is not None else ""
        notes += sorted({caveat for one in predicted.values() for caveat in one.caveats} - {told})
    print_notes(notes)


def _print_errors(evaluation: Evaluation, predicted: dict[str, LabelPrediction]) -> None:
    headers = ["labels", "number", "error", "interval", "seeds"] + ["law predicts", "interval"] * bool(predicted)
    rows = []
    for result in evaluation.settings:
        row = [result.setting.name, f"{result.runs[0].n_train:,}", *_points(result.error), str(len(result.runs))]
        if predicted:
            one = predicted.get(result.setting.name)
            row += [f"{one.error:.1f}", _ends(one.ci_low, one.ci_high)] if one else ["", ""]
        rows.append(row)
    if evaluation.neighbours is not None:
        run = evaluation.neighbours.runs[0]
        name = f"full, {run.report['k']} nearest neighbours"
        rows.append([name, f"{run.n_train:,}", *_points(evaluation.neighbours.error), "1"] + ["", ""] * bool(predicted))
    print_table(headers, rows, right=[1, 2, 3, 4, 5, 6][: len(headers) - 1])


_MOST_WITH_INTERVALS = 8  # encoders in a table


def print_many(documents: Sequence[Mapping[str, Any]], *, on_images: Sequence[str] = ()) -> None:
    """Prints what was measured of many encoders, a line each, from documents as ``zoo evaluate`` gives them."""
    first = documents[0]
    what = first["encoder"] if len(documents) == 1 else f"{len(documents)} encoders"
    click.echo(
        click.style(f"\n{what} on {first['dataset']}", bold=True)
        + f": {first['n_train']:,} training and {first['n_test']:,} test images\n"
    )
    with_intervals = len(documents) <= _MOST_WITH_INTERVALS
    errors = [_errors_by_name(document) for document in documents]
    names = list(dict.fromkeys(name for one in errors for name in one))
    _print_points("dimensions", [f"{one['dim']:,}" for one in documents], documents, names, errors, with_intervals)
    unit = "percent, higher is better" if "tags" in first else "percent of the test images, lower is better"
    beside = "with 95 % intervals" if with_intervals else "95 % intervals with --json"
    protocols = ", ".join(dict.fromkeys(document["protocol"] for document in documents))
    notes = [f"{unit}; {beside}; protocol {protocols}"]
    risks = [document.get("decomposition") for document in documents]
    if any(risks):
        click.echo("\nWhere the full-shot errors come from, in percentage points\n")
        parts = [
            {}
            if risk is None
            else {PARTS[part]: found for part, found in risk["parts"].items() if found}
            | {"full-shot error": risk["full_shot_error"]}
            for risk in risks
        ]
        shown = [words for words in (*PARTS.values(), "full-shot error") if any(words in one for one in parts)]
        _print_points(
            "order", [risk["order"] if risk else "" for risk in risks], documents, shown, parts, with_intervals
        )
        notes += sorted({risk["warning"] or risk["assumption"] for risk in risks if risk})
    for document in documents:
        name = document["encoder"]
        notes += [f"{name}: {one} was left out: {why}" for one, why in document["left_out"].items()]
        if not_kept := document.get("not_kept"):
            notes.append(f"{name}: {len(not_kept)} measured probes could not be stored: {not_kept[0]}")
        skipped = [f"{part}: {image}" for part, images in document["skipped"].items() for image in images]
        notes += [f"{name}: {note}" for note in skipped_notes(skipped, n_named=2)]
        runs = [run for result in _results_in(document) for run in result["runs"]]
        n_open = sum(run["report"].get("converged") is False for run in runs) + len(document.get("not_converged", ()))
        notes += [f"{name}: {n_open} probes did not converge; see their reports with --json"] * bool(n_open)
    print_notes([*notes, *on_images])


def _results_in(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Label settings of a document, and nearest neighbours, with their runs; none of images with tags."""
    return [*document.get("errors", ()), *([document["neighbours"]] if document.get("neighbours") else ())]


def _errors_by_name(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Value and interval of everything that has a column in a table of many encoders."""
    if "errors" not in document:
        found = document["metrics"]["metrics"].get("tag_average_precision")
        return {} if found is None else {"mean average precision": found}
    by_name = {one["setting"]: one for one in document["errors"]}
    return by_name | ({"nearest neighbours": document["neighbours"]} if document["neighbours"] else {})


def _print_points(
    what: str,
    cells: Sequence[str],
    documents: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    found: Sequence[Mapping[str, Mapping[str, Any]]],
    with_intervals: bool,
) -> None:
    """One line an encoder: its name, a cell, and a value a column, with its interval if that is wanted."""

    def point(one: Mapping[str, Any] | None) -> str:
        if one is None:
            return ""
        ends = _ends(one["ci_low"], one["ci_high"]) if with_intervals else ""
        return f"{one['value']:.1f}" + (f" ({ends})" if ends else "")

    rows = [
        [document["encoder"], cell, *(point(one.get(column)) for column in columns)]
        for document, cell, one in zip(documents, cells, found, strict=True)
    ]
    print_table(["encoder", what, *columns], rows, right=range(1, len(columns) + 2))


def print_risk(report: RiskReport) -> None:
    """Prints the components of the full-shot error."""
    click.echo(f"\nWhere the full-shot error of {report.encoder} comes from, in percentage points\n")
    shown = {part: words for part, words in PARTS.items() if not _is_sum_of_shown(part, report)}
    rows = [
        [words, *_points(report.intervals[part]), *_refitted(part, report)]
        for part, words in (shown | {"full_shot_error": "full-shot error"}).items()
        if part in report.intervals
    ]
    headers = ["part", "points", "given these probes"] + ["with refits"] * (report.refit is not None)
    print_table(headers, rows, right=range(1, len(headers)))
    notes = [f"order: {report.order}; parts are signed and add up to the error"]
    given = (
        '95 % intervals; "given these probes": over images and seeds, and not over what other training images would '
        "have made of the probes"
    )
    if report.refit is None:
        notes.append(f"{given}; --refit 20 trains them again on resampled images")
    else:
        notes.append(f'{given}; "with refits": also over that, by {report.refit.n} resamples of the images')
    if report.is_unstable:
        notes.append(_unstable(report))
    if "approximation" not in report.intervals:
        notes.append("without a supervised twin (--supervised) approximation and usability are known as a sum only")
    print_notes([*notes, report.warning or report.assumption])


def _refitted(part: str, report: RiskReport) -> list[str]:
    return [] if report.refit is None else _points(report.refit.intervals[part])[1:]


def _unstable(report: RiskReport) -> str:
    from ..evaluation.risk import LEVEL

    errors = ", ".join(f"{run.error_percent:.1f}" for run in report.risks["R_AS"].runs)
    return (
        f"the probes disagree: trained without one or another part of the images, they are wrong on it in {errors} "
        f"percent, which differ by more than the images explain (p = {report.disagreement:.1g}; with stable probes, "
        f"{100 * LEVEL:.0f} data set in 100 is said to be so), so that intervals given these probes are too short"
    )


def _is_sum_of_shown(part: str, report: RiskReport) -> bool:
    return part == "approximation_plus_usability" and "approximation" in report.intervals


def predictions(evaluation: Evaluation) -> dict[str, LabelPrediction]:
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

    return dict(zip(possible, predict_labels(report, possible.values(), seed=report.seed), strict=True))


def law_elsewhere(evaluation: Evaluation) -> dict[str, Any] | None:
    """The label scaling law on other data than ImageNet-1K, as JSON.

    "fitted" has the exponent that fits the errors with few labels, or is null with the reason under "not_fitted"; then
    "extrapolated" has the errors by ImageNet's law, and how far it was off elsewhere. None without the standard
    decomposition, and on ImageNet-1K, where "predicted" of each error has the law.
    """
    report = evaluation.risk
    if report is None or report.order != "standard":
        return None
    from ..analysis.label_prediction import fit_exponent, is_law_known, missed_elsewhere, predict_labels

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
        missed = asdict(missed_elsewhere())
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


def _print_law(law: dict[str, Any] | None) -> None:
    if law is None:
        return
    if law["fitted"] is not None:
        one = law["fitted"]
        labels = ", ".join(f"{n:,}" for n in one["n_labels"])
        click.echo("\nHow the error falls with labels\n")
        click.echo(
            wrapped(
                f"exponent {one['exponent']:.2f} ({one['ci_low']:.2f} to {one['ci_high']:.2f}), fitted to "
                f"{one['n_settings']} errors with {labels} labels of these images, which it misses by "
                f"{one['mean_absolute_miss']:.1f} points in the mean and {one['largest_miss']:.1f} at most"
            )
        )
        return
    if law["extrapolated"] is None:
        print_notes([law["not_fitted"]])
        return
    missed = law["extrapolated"]["missed_elsewhere"]
    errors = ", ".join(f"{one['setting']} {one['error']:.1f}" for one in law["extrapolated"]["errors"])
    predicted = f"{errors or 'no number of labels between one a class and all'} percent"
    was_off = (
        f"on {' and '.join(missed['datasets'])} it was off by {missed['mean_absolute']:.1f} points in the mean and "
        f"{missed['largest']:.1f} at most, over {missed['n']} errors of {missed['n_encoders']} encoders"
    )
    click.echo("\nImageNet's law, extrapolated\n")
    click.echo(wrapped(f"{predicted}; {was_off}"))
    print_notes([law["not_fitted"]])


def document_of(evaluation: Evaluation) -> dict[str, Any]:
    """An evaluation as JSON."""
    train, test = evaluation.train, evaluation.test
    predicted = predictions(evaluation)
    return {
        "encoder": train.origin.encoder,
        "dataset": train.origin.dataset,
        "n_train": len(train.y),
        "n_test": len(test.y),
        "n_classes": len(train.classes),
        "dim": train.dim,
        "protocol": evaluation.protocols.errors.name,
        "probe": evaluation.protocols.reason,
        "errors": [_setting(result) | _predicted(predicted.get(result.setting.name)) for result in evaluation.settings],
        "left_out": evaluation.left_out,
        "neighbours": None if evaluation.neighbours is None else _setting(evaluation.neighbours),
        "decomposition": None if evaluation.risk is None else risk_document(evaluation.risk),
        "law": law_elsewhere(evaluation),
        "copies": copies_document(evaluation.copies),
        "groups": groups_document(evaluation.groups),
        "not_kept": list(evaluation.problems),
        "skipped": {"train": [one.image for one in train.skipped], "val": [one.image for one in test.skipped]},
        "features": {"train": _folder(train), "val": _folder(test)},
        "origin": {"train": asdict(train.origin), "val": asdict(test.origin)},
    }


def risk_document(report: RiskReport) -> dict[str, Any]:
    """A decomposition as JSON; an unknown component is null."""
    return {
        "order": report.order,
        "parts": {part: _interval(report.intervals[part]) if part in report.intervals else None for part in PARTS},
        "full_shot_error": _interval(report.intervals["full_shot_error"]),
        "risks": {name: {"split": risk.split, **_interval(risk.error)} for name, risk in report.risks.items()},
        "n_train": report.n_train,
        "n_test": report.n_test,
        "assumption": report.assumption,
        "warning": report.warning or None,
        "intervals": "over images and seeds, given these probes",
        "probes_disagree": None if report.disagreement is None else report.is_unstable,
        "probes_p_value": report.disagreement,
        "refit": None
        if report.refit is None
        else {
            "n": report.refit.n,
            "parts": {
                part: _interval(report.refit.intervals[part]) if part in report.refit.intervals else None
                for part in PARTS
            },
            "full_shot_error": _interval(report.refit.intervals["full_shot_error"]),
            "replicates": {name: values.tolist() for name, values in report.refit.replicates.items()},
        },
    }


def _setting(result: SettingResult) -> dict[str, Any]:
    return {
        "setting": result.setting.name,
        "split": result.setting.split,
        "n_train": result.runs[0].n_train,
        **_interval(result.error),
        "runs": [
            {"seed": run.seed, "value": run.error_percent, "n_tuning": run.n_tuning, "report": _plain(run.report)}
            for run in result.runs
        ],
    }


def _predicted(one: LabelPrediction | None) -> dict[str, Any]:
    return {"predicted": None if one is None else asdict(one)}


def _interval(found: Interval) -> dict[str, Any]:
    return {"value": found.value, "ci_low": found.ci_low, "ci_high": found.ci_high}


def _points(found: Interval) -> list[str]:
    return [f"{found.value:.1f}", _ends(found.ci_low, found.ci_high)]


def _ends(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.1f} to {high:.1f}"


def _not_converged(evaluation: Evaluation) -> list[str]:
    runs = [run for result in evaluation.settings for run in result.runs]
    n = sum(run.report.get("converged") is False for run in runs)
    return [f"{n} of {len(runs)} probes did not converge; see their reports with --json"] if n else []


def _folder(features: Any) -> str | None:
    return features.where or None


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
