"""What ``zoo curve`` prints and writes: tables a metric, figures, and one document with everything."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import StoreError
from ..files import replaced
from .output import print_notes, print_table, wrapped

if TYPE_CHECKING:
    from ..evaluation.curves.curve import CalibratedCurve, CurvePoint
    from ..evaluation.curves.data import TransferData
    from ..evaluation.curves.measuring import CurveReport
    from ..evaluation.curves.runs import CurveRun
    from ..evaluation.intervals import Interval

_READING = (
    "risk: lower is better; cR: calibrated risk, 1 is the blind guess and 0 maximal supervision; scratch: its cR; "
    "gain: share of it that the encoder takes away; it needs: labels with which scratch reaches the encoder's risk",
    "CCI: calibrated cumulative improvement over scratch, from its cR with the fewest labels to that with the most; "
    "0 is worth nothing",
)
_INTERVALS = "interval: 95 %, over the choice of test images and seeds"
_IMAGES_ONLY = (
    "images only: 95 % interval over the choice of test images; with one seed it leaves out how much seeds vary, and "
    "holds the truth far less often than that where they do"
)
_DECIMALS = {"percent": 1, "degrees": 1}  # of the risks in these units; of others four digits of the blind guess


def default_folder(data: TransferData) -> Path:
    """Where figures go unless a folder is named."""
    from ..files import cache_folder

    return cache_folder() / "curves" / "figures" / f"{_plain(data.name)}-{data.task.name}"


def print_curves(curves: Sequence[CalibratedCurve], *, told: Collection[str] = ()) -> list[str]:
    """Curves of one metric: every regime of every encoder, then the controls and what comes of it, then the notes.

    Notes that were ``told`` before, of another metric, are not repeated; those that were printed are returned.
    """
    from ..evaluation.curves.texts import in_unit, label_of, words_of

    first = curves[0]
    words = words_of(first.metric)
    tested = "" if first.n_test is None else f", {first.n_test:,} test images"
    title = click.style(f"{words[0].upper()}{words[1:]} on {first.dataset}", bold=True)
    click.echo(f"\n{title}{in_unit(first.unit)}{tested}")
    for line in _controls(curves):
        click.echo(wrapped(line))
    images_only = any(curve.images_only for curve in curves)
    around = "images only" if images_only else "interval"
    headers = ["labels", "risk", around, "cR", around, "scratch", "gain", "it needs"]
    by_curve = {label_of(curve): [_cells(point, _decimals(curve)) for point in curve.points] for curve in curves}
    if sys.stdout.isatty():  # which is too narrow for one table
        for label, rows in by_curve.items():
            click.echo(click.style(f"\n{label}", bold=True))
            print_table(headers, rows, right=range(len(headers)))
    else:
        every = [[label, *row] for label, rows in by_curve.items() for row in rows]
        click.echo()
        print_table(["encoder", *headers], every, right=range(1, len(headers) + 1))
    click.echo()
    summary = [[label_of(curve), *_improvement(curve)] for curve in curves]
    print_table(["encoder", "CCI", around, "over cR of scratch"], summary, right=(1, 2, 3))
    notes = [
        note for note in (*_READING, _IMAGES_ONLY if images_only else _INTERVALS, *notes_of(curves)) if note not in told
    ]
    print_notes(notes)
    return notes


def notes_of(curves: Sequence[CalibratedCurve]) -> list[str]:
    """What a reader must know of these curves; a note of several encoders once, with their names."""
    from ..evaluation.curves.texts import label_of

    by_note: dict[str, list[str]] = {}
    for curve in curves:
        for note in curve.notes:
            by_note.setdefault(note, []).append(label_of(curve))
    return [
        note if len(names) == len(curves) else f"{', '.join(names)}: {note}" for note, names in by_note.items()
    ]  # fmt: skip


def document_of(report: CurveReport, metrics: Sequence[str]) -> dict[str, Any]:
    """Everything as JSON has it; curves of the metrics that are shown."""
    return {
        "dataset": report.data.name,
        "task": report.data.task.name,
        "regimes": list(report.regimes),
        "seeds": list(report.request.seeds),
        "recipe": asdict(report.request.recipe),
        "maximal": report.request.maximal,
        "notes": list(report.notes),
        "curves": [json_of(curve.as_dict()) for curve in report.curves if curve.metric in metrics],
        "runs": [
            {"encoder": name, **_run(run)} for (name, _), runs in report.runs.items() for run in runs
        ],
    }  # fmt: skip


def write_figures(report: CurveReport, metrics: Sequence[str], folder: Path) -> list[Path]:
    """Curves of each metric and the strip of a dense task, as PNG and SVG, and all numbers as ``curves.json``.

    Raises
    ------
    StoreError
        If a file cannot be written.
    """
    from ..evaluation.curves.examples import strip_of
    from ..evaluation.curves.figures import curves_figure, strip_figure
    from ..evaluation.drawing import save, style

    by_metric = [[curve for curve in report.curves if curve.metric == metric] for metric in metrics]
    figures = [curves_figure(curves) for curves in by_metric if curves]
    names = [one.name for one in report.candidates]
    strip = strip_of(
        report.data, report.runs, encoders=names, preprocess=report.candidates[0].preprocess,
        frozen=report.request.recipe.frozen,
    )  # fmt: skip
    if strip is not None:
        figures.append(strip_figure(strip))
    captions = [{"file": f"{one.name}.png", "title": one.title, "caption": one.caption} for one in figures]
    paths: list[Path] = []
    try:
        with style():
            for figure in figures:
                paths += save(figure.draw(), folder / figure.name)
        text = json.dumps(document_of(report, metrics) | {"figures": captions}, indent=1, ensure_ascii=False)
        with replaced(folder / "curves.json") as file:
            file.write((text + "\n").encode())
    except OSError as error:
        raise StoreError(
            f"The figures could not be written into {folder} ({error.strerror}); make room, or name another folder "
            "with --out; the finished runs are kept."
        ) from error
    return [*paths, folder / "curves.json"]


def json_of(value: Any) -> Any:
    """What JSON holds: numbers of numpy become Python's, and one that is not finite null."""
    if isinstance(value, Mapping):
        return {str(key): json_of(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_of(inner) for inner in value]
    if hasattr(value, "tolist"):
        return json_of(value.tolist())
    return None if isinstance(value, float) and value - value != 0 else value


def _run(run: CurveRun) -> dict[str, Any]:
    return {
        "control": run.control, "n_requested": run.n_requested, "n_actual": run.n_actual, "seed": run.seed,
        "risks": {metric: run.risk(metric) for metric in run.risks}, "report": json_of(run.report),
    }  # fmt: skip


def _cells(point: CurvePoint, decimals: int) -> list[str]:
    share = point.relative_improvement
    needs = f"{point.scratch_limit:,.0f}"
    return [
        f"{point.n_requested:,}" + f" ({point.n_actual:,})" * (point.n_actual != point.n_requested),
        *_value(point.risk, decimals), *_value(point.calibrated, 2),
        f"{point.calibrated_scratch.value:z.2f}",
        "" if share is None else f"{100 * share.value:z.0f} %",
        needs if point.scratch_bound == "=" else f"{point.scratch_bound} {needs}",
    ]  # fmt: skip


def _controls(curves: Sequence[CalibratedCurve]) -> list[str]:
    """One line of the controls, or one for each of several architectures."""
    from ..evaluation.curves.texts import label_of

    names: dict[str, list[str]] = {}
    for curve in curves:
        blind, maximal = (_in_words(one, _decimals(curve)) for one in (curve.blind, curve.maximal))
        text = f"blind guess {blind}, maximal supervision {maximal}"
        names.setdefault(text, []).append(label_of(curve))
    return [text if len(names) == 1 else f"{', '.join(labels)}: {text}" for text, labels in names.items()]


def _improvement(curve: CalibratedCurve) -> list[str]:
    if curve.improvement is None or curve.improvement_range is None:
        return ["not identified", "", ""]
    return [*_value(curve.improvement, 2), " to ".join(f"{end:z.2f}" for end in curve.improvement_range)]


def _decimals(curve: CalibratedCurve) -> int:
    """Of risks in print: a depth may be in metres, or in whole thousandths of them."""
    if curve.unit in _DECIMALS:
        return _DECIMALS[curve.unit]
    return max(0, 3 - math.floor(math.log10(curve.blind.value))) if curve.blind.value > 0 else 4


def _in_words(found: Interval, decimals: int) -> str:
    value, ends = _value(found, decimals)
    return f"{value} ({ends})" if ends else value


def _value(found: Interval, decimals: int) -> list[str]:
    value = f"{found.value:z.{decimals}f}"
    if found.ci_low is None or found.ci_high is None:
        return [value, ""]
    return [value, f"{found.ci_low:z.{decimals}f} to {found.ci_high:z.{decimals}f}"]


def _plain(text: str) -> str:
    """A text as a part of a path on every system."""
    return re.sub(r"[^\w.+-]", "_", text) or "_"
