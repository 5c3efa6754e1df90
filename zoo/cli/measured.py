"""What was measured of an encoder, as tables and as a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ..metadata import Missing
from .output import print_notes, print_table

if TYPE_CHECKING:
    from ..analysis.label_prediction import LabelPrediction
    from ..evaluation.evaluating import Evaluation
    from ..evaluation.intervals import Interval
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
    """Errors by label setting, the decomposition, and how to read them, with notes on how images are read."""
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
    notes = [
        f"percent of the test images, lower is better; 95 % intervals; protocol {evaluation.protocols.errors.name}"
    ]
    notes += [f"{name} was left out: {why}" for name, why in evaluation.left_out.items()]
    notes += on_images
    if skipped := [f"{part.origin.split}: {one.image}" for part in (train, test) for one in part.skipped]:
        notes.append(f"{len(skipped):,} images could not be read and were left out: {', '.join(skipped[:5])}")
    runs = [run for result in evaluation.settings for run in result.runs if not run.refitted]
    few = sorted({run.n_tuning for run in runs if run.n_tuning is not None})
    if few:
        chosen = " or ".join(f"{n:,}" for n in few)
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
            row += [f"{one.error:.1f}", f"{one.ci_low:.1f} to {one.ci_high:.1f}"] if one else ["", ""]
        rows.append(row)
    if evaluation.neighbours is not None:
        run = evaluation.neighbours.runs[0]
        name = f"full, {run.report['k']} nearest neighbours"
        rows.append([name, f"{run.n_train:,}", *_points(evaluation.neighbours.error), "1"] + ["", ""] * bool(predicted))
    print_table(headers, rows, right=[1, 2, 3, 4, 5, 6][: len(headers) - 1])


def print_risk(report: RiskReport) -> None:
    """The parts of the full-shot error."""
    click.echo(f"\nWhere the full-shot error of {report.encoder} comes from, in percentage points\n")
    total = report.intervals["full_shot_error"]
    rows = [
        [words, *_points(report.intervals[part])]
        for part, words in PARTS.items()
        if part in report.intervals and not _is_sum_of_shown(part, report)
    ]
    rows.append(["full-shot error", *_points(total)])
    print_table(["part", "points", "interval"], rows, right=[1, 2])
    notes = [f"order: {report.order}; parts are signed and add up to the error"]
    if "approximation" not in report.intervals:
        notes.append("without a supervised twin (--supervised) approximation and usability are known as a sum only")
    print_notes([*notes, report.warning or report.assumption])


def _is_sum_of_shown(part: str, report: RiskReport) -> bool:
    return part == "approximation_plus_usability" and "approximation" in report.intervals


def predictions(evaluation: Evaluation) -> dict[str, LabelPrediction]:
    """What the scaling law expects in each few-shot setting, by name; empty without the standard decomposition."""
    report = evaluation.risk
    if report is None or report.order != "standard":
        return {}
    few = [result for result in evaluation.settings if not result.setting.is_full]
    n_labels = {result.setting.name: result.runs[0].n_train for result in few}
    possible = {name: n for name, n in n_labels.items() if report.n_classes <= n <= report.n_train}
    if not possible:
        return {}
    from ..analysis.label_prediction import predict_labels

    return dict(zip(possible, predict_labels(report, possible.values(), seed=report.seed), strict=True))


def document_of(evaluation: Evaluation) -> dict[str, Any]:
    """Everything as JSON has it."""
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
        "skipped": {"train": [one.image for one in train.skipped], "val": [one.image for one in test.skipped]},
        "features": {"train": _folder(train), "val": _folder(test)},
        "origin": {"train": asdict(train.origin), "val": asdict(test.origin)},
    }


def risk_document(report: RiskReport) -> dict[str, Any]:
    """The decomposition as JSON has it; a part that is not known is null."""
    return {
        "order": report.order,
        "parts": {
            part: _interval(report.intervals[part]) if part in report.intervals else None for part in PARTS
        },
        "full_shot_error": _interval(report.intervals["full_shot_error"]),
        "risks": {name: {"split": risk.split, **_interval(risk.error)} for name, risk in report.risks.items()},
        "n_train": report.n_train,
        "n_test": report.n_test,
        "assumption": report.assumption,
        "warning": report.warning or None,
    }  # fmt: skip


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
    if found.ci_low is None or found.ci_high is None:
        return [f"{found.value:.1f}", ""]
    return [f"{found.value:.1f}", f"{found.ci_low:.1f} to {found.ci_high:.1f}"]


def _not_converged(evaluation: Evaluation) -> list[str]:
    runs = [run for result in evaluation.settings for run in result.runs]
    n = sum(run.report.get("converged") is False for run in runs)
    return [f"{n} of {len(runs)} probes did not converge; see their reports with --json"] if n else []


def _folder(features: Any) -> str | None:
    return None if features.folder is None else str(features.folder)


def _plain(value: Any) -> Any:
    """Reports of probes hold what JSON has, numbers that are not finite apart."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, Missing):
        return None
    if isinstance(value, float) and value - value != 0:
        return str(value)
    return value
