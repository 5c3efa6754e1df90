"""``zoo curve``: calibrated learning curves of encoders on a task, with figures and rows in the user's results."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.catalogue import catalogue
from ..datasets.opening import DENSE_KINDS, KINDS, help_on
from ..errors import QueryError, StoreError, UnknownName, ZooError
from ..evaluation.curves.progress import CurveProgress, TimeLeft, time_text
from ..files import local_folder, replaced
from .engine_options import CPUS_OPTION, OF_WORKERS, PROCESS_OPTIONS, Engine
from .measure_options import (
    COLUMN_OPTIONS,
    DATA_OPTIONS,
    SPLIT_OPTIONS,
    TABLE_OPTIONS,
    copies_document,
    copies_notes,
    recording,
    recording_options,
    refuse_idle_columns,
    refuse_idle_source,
    settings_of,
    source_options,
    tell_first,
    with_options,
)
from .options import encoder_names, refuse_idle
from .output import json_option, print_json, print_notes, print_table, say, wrapped

if TYPE_CHECKING:
    from ..datasets.images import Copies
    from ..evaluation.bootstrap import Interval
    from ..evaluation.curves.curve import CalibratedCurve, CurvePoint
    from ..evaluation.curves.inputs import TransferData
    from ..evaluation.curves.recipe import Recipe
    from ..evaluation.curves.report import CurveReport, CurveRequest
    from ..evaluation.curves.runs import CurveRun, Job, Unfinished
    from ..evaluation.curves.tuning import Step, Training

DATA_HELP = f"""\b
DATA is, for a classification, one of
{help_on(KINDS)}
\b
and for depth or normals one of
{help_on(DENSE_KINDS)}"""
_MOST_SEEDS = 1000


def _task_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from ..evaluation.curves.recipe import TASKS

    return [name for name in TASKS if name.startswith(incomplete)]


def _metric_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from ..evaluation.curves.recipe import TASKS

    chosen = [task for task in TASKS.values() if ctx.params.get("task") in (None, task.name)]
    return [name for task in chosen for name in task.metrics if name.startswith(incomplete)]


_WHAT = (
    click.option(
        "--task",
        metavar="TASK",
        shell_complete=_task_names,
        help="classification, depth or normals; may be left out where the data allow one only.",
    ),
    click.option(
        "--regimes",
        default="auto",
        show_default=True,
        metavar="LIST",
        help="Numbers of labels by comma, as 50,200,1k,all; auto: from where scratch is near the blind guess "
        "to where it is near maximal supervision.",
    ),
    click.option(
        "--count", type=click.IntRange(2, 100), default=5, show_default=True, help="How many regimes auto proposes."
    ),
    click.option(
        "--seeds",
        default="3",
        show_default=True,
        metavar="N|LIST",
        help="How many from 0 on, or which by comma: 0,1,2.",
    ),
    click.option("--frozen", is_flag=True, help="Train the decoder alone; the encoder stays as it is."),
    click.option(
        "--maximal",
        type=float,
        metavar="RISK",
        help="Risk of maximal supervision, instead of training it: percent of a classification, or the L1 error.",
    ),
    click.option(
        "--metric",
        "metrics",
        multiple=True,
        metavar="METRIC",
        shell_complete=_metric_names,
        help="Show this metric of the task.  [default: all of them]",
    ),
)
_TRAINING = (
    click.option("--learning-rates", metavar="LIST", help="By comma; the best on the validation part is taken."),
    click.option("--epochs", type=float, help="Passes over the labels."),
    click.option("--batch-size", type=int, help="Images a step of the optimizer."),
    click.option("--accumulate", type=int, help="Forward passes a step, where the memory is small."),
    click.option("--precision", metavar="NAME", help="Of the forward pass: float32, bfloat16 or float16."),
    click.option(
        "--set",
        "changed",
        metavar="NAME=VALUE",
        multiple=True,
        help="Another setting of the recipe, as least_steps=50. A changed recipe is named in the protocol. Repeatable.",
    ),
    click.option("--device", metavar="DEVICE", help="Where to train.  [default: a GPU if there is one]"),
    click.option("--workers", "n_workers", type=click.IntRange(0, 1024), default=0, help="Processes that decode."),
    click.option(
        "--processes",
        "n_processes",
        type=click.IntRange(1, 1024),
        default=1,
        show_default=True,
        help="Networks that are trained at once, by this machine.",
    ),
)
_WORKERS = (
    click.option(
        "--to",
        "runs_folder",
        metavar="FOLDER",
        help="Where finished runs are kept; all workers must reach it.  [default: in the cache]",
    ),
    *PROCESS_OPTIONS,
    CPUS_OPTION,
)
_NAMED = ("epochs", "batch_size", "accumulate", "precision")


def curve_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds all options but those of the output."""
    return with_options(command, (*_WHAT, *DATA_OPTIONS, *_TRAINING, *_WORKERS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a command line asks for, read and checked before any weights are fetched."""

    data: TransferData
    metrics: tuple[str, ...]  # that are shown
    request: CurveRequest
    how: Training
    n_processes: int
    engine: Engine  # whose folder has the finished runs


def plan_of(spec: str, options: dict[str, Any], *, record: bool) -> Plan:
    """Everything that the arguments and the options of :func:`curve_options` ask for.

    With ``record``, data whose results were measured on other images are refused.
    """
    from ..evaluation.curves.inputs import task_of
    from ..evaluation.curves.regimes import parse_regimes, regime_subset, resolved_regimes
    from ..evaluation.curves.report import CurveRequest

    task = task_of(spec) if options["task"] is None else options["task"]
    metrics = _metrics_of(task, options["metrics"], maximal=options["maximal"])
    recipe, seeds = _recipe_of(options), seeds_of(options["seeds"])
    is_auto = options["regimes"].strip().lower() == "auto"
    if task in ("depth", "normals"):
        idle = (*COLUMN_OPTIONS, "fold_labels", *TABLE_OPTIONS)
        refuse_idle(idle, f"{spec!r} is no data set of classes, and has no columns")
    refuse_idle_columns(spec)
    engine = _engine_of(options, is_auto=is_auto)
    if not is_auto:
        refuse_idle(("count",), "the regimes are given by --regimes", remedy=", or take --regimes auto")
    data = _data_of(spec, task, options)
    if record:
        _refuse_other_images(data)
    regimes = None if is_auto else parse_regimes(options["regimes"])
    if regimes is not None:
        for n in resolved_regimes(regimes, len(data.train), name=data.name):
            regime_subset(data.train, n, seed=seeds[0], validation_share=recipe.validation_share)
    request = CurveRequest(
        regimes=regimes, seeds=seeds, recipe=recipe, maximal=options["maximal"], count=options["count"]
    )
    how = _training_of(options["device"], n_workers=options["n_workers"])
    return Plan(data=data, metrics=metrics, request=request, how=how, n_processes=options["n_processes"], engine=engine)


def _engine_of(options: Mapping[str, Any], *, is_auto: bool) -> Engine:
    """The workers that train, and where the runs go; refuses options without effect and parts of unknown work."""
    from ..files import cache_folder

    where = options["runs_folder"]
    folder = cache_folder() / "curves" if where is None else local_folder(where)
    if folder is None:
        raise QueryError(
            f"Got --to {where}, expected a folder, for workers keep there how far a training is; name one that all "
            "of them reach."
        )
    given = {name: options[name] for name in ("on", "part", "cpus_each", "gpus_each", "mixed_versions")}
    engine = Engine(where=folder, stored="float32", **given)
    if not engine.is_used:
        refuse_idle(OF_WORKERS, "no engine is asked for", remedy=", or add --on")
    else:
        refuse_idle(("n_processes",), "--on says what trains", remedy=", or write --on local:N")
    if engine.part is not None and is_auto:
        raise QueryError(
            f"Got --part {engine.part[0]}/{engine.part[1]} with --regimes auto, expected numbers of labels, as "
            "50,200,1k,all: those that auto proposes follow from runs of all parts."
        )
    return engine


def _data_of(spec: str, task: str, options: dict[str, Any]) -> TransferData:
    """The data that the arguments name; refuses options that would do nothing to them."""
    from ..evaluation.curves.inputs import images_of, transfer_data

    say(f"looking at {spec}")
    data = transfer_data(spec, task, **source_options(options))
    if not data.is_split_here:
        refuse_idle(SPLIT_OPTIONS, f"{spec!r} says itself which images are to be tested on")
    tell_first([images_of(data.train), images_of(data.test)])
    return data


def _recipe_of(options: dict[str, Any]) -> Recipe:
    """How networks are to be trained; refuses settings that do not exist or are given twice."""
    from ..evaluation.curves.recipe import Recipe

    given: dict[str, Any] = {name: options[name] for name in _NAMED if options[name] is not None}
    if options["learning_rates"] is not None:
        given["learning_rates"] = rates_of(options["learning_rates"])
    for name, value in settings_of(options["changed"]).items():
        known = [field.name for field in fields(Recipe) if field.name != "frozen"]
        if name not in known:
            raise UnknownName("setting of the recipe", name, known, hint=f"There are {', '.join(known)}.")
        if name in given:
            raise QueryError(f"Got {name} by its own option and by --set, expected it once.")
        given[name] = rates_of(str(value)) if name == "learning_rates" else _number(name, value)
    return Recipe(frozen=options["frozen"], **given)


def _training_of(device: str | None, *, n_workers: int) -> Training:
    """Where networks are trained, which moves no number; refuses an unavailable device before weights are fetched."""
    from torch import nn

    from ..evaluation.curves.tuning import Training
    from ..features.computing import device_for

    device_for(nn.Identity(), device)
    return Training(device=device, n_workers=n_workers)


def rates_of(text: str) -> tuple[float, ...]:
    """Learning rates from text.

    >>> rates_of("3e-4,1e-3")
    (0.0003, 0.001)
    """
    try:
        return tuple(float(part) for part in text.strip("[]").split(","))
    except ValueError:
        raise QueryError(f"Got the learning rates {text!r}, expected numbers by comma, as 3e-4,1e-3.") from None


def seeds_of(text: str) -> tuple[int, ...]:
    """Seeds from their number, or from a list.

    >>> seeds_of("3"), seeds_of("7,1"), seeds_of("5,")
    ((0, 1, 2), (7, 1), (5,))
    """
    wrong = QueryError(
        f"Got --seeds {text!r}, expected their number from 1 to {_MOST_SEEDS}, or different seeds by comma, as 0,1,2."
    )
    parts = [part.strip() for part in text.removesuffix(",").split(",")]
    if not all(re.fullmatch(r"\d{1,9}", part, re.ASCII) for part in parts):
        raise wrong
    numbers = tuple(map(int, parts))
    if "," not in text:
        if not 1 <= numbers[0] <= _MOST_SEEDS:
            raise wrong
        return tuple(range(numbers[0]))
    if len(set(numbers)) < len(numbers) or len(numbers) > _MOST_SEEDS:
        raise wrong
    return numbers


def _metrics_of(task: str, given: Sequence[str], *, maximal: float | None) -> tuple[str, ...]:
    """Metrics of the task to show; with ``--maximal`` only the first, which that risk is of."""
    from ..evaluation.curves.recipe import task_named

    known = task_named(task).metrics
    for name in given:
        if name not in known:
            raise UnknownName("metric of the task", name, known, hint=f"It has {' and '.join(known)}.")
    chosen = tuple(name for name in known if name in given) or known
    if maximal is None:
        return chosen
    if chosen[0] != known[0]:
        raise QueryError(
            f"Got --maximal with --metric {chosen[0]}, expected {known[0]}, which the recorded risk is of."
        )
    return chosen[:1]


def _number(name: str, value: Any) -> Any:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | str)
        or (isinstance(value, str) and name != "precision")
    ):
        raise QueryError(f"Got --set {name}={value}, expected a number.")
    return value


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
    """Where figures go unless ``--out`` names a folder."""
    from ..files import cache_folder

    return cache_folder() / "curves" / "figures" / f"{_plain(data.name)}-{data.task.name}"


def print_curves(curves: Sequence[CalibratedCurve], *, shown_before: Collection[str] = ()) -> list[str]:
    """Prints curves of one metric: every regime of every encoder, the controls, the improvements, the notes.

    Notes in ``shown_before``, printed for another metric, are not repeated; returns those that were printed.
    """
    from ..evaluation.curves.curve import in_unit, label_of, words_of

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
        note
        for note in (*_READING, _IMAGES_ONLY if images_only else _INTERVALS, *notes_of(curves))
        if note not in shown_before
    ]
    print_notes(notes)
    return notes


def notes_of(curves: Sequence[CalibratedCurve]) -> list[str]:
    """Notes on these curves; a note on several encoders appears once, with their names."""
    from ..evaluation.curves.curve import label_of

    by_note: dict[str, list[str]] = {}
    for curve in curves:
        for note in curve.notes:
            by_note.setdefault(note, []).append(label_of(curve))
    return [note if len(names) == len(curves) else f"{', '.join(names)}: {note}" for note, names in by_note.items()]


def document_of(report: CurveReport, metrics: Sequence[str]) -> dict[str, Any]:
    """The report as JSON; curves of the shown metrics only."""
    return {
        "dataset": report.data.name,
        "task": report.data.task.name,
        "regimes": list(report.regimes),
        "seeds": list(report.request.seeds),
        "recipe": asdict(report.request.recipe),
        "maximal": report.request.maximal,
        "notes": list(report.notes),
        "curves": [json_of(curve.as_dict()) for curve in report.curves if curve.metric in metrics],
        "runs": [{"encoder": name, **_run(run)} for (name, _), runs in report.runs.items() for run in runs],
    }


def write_figures(report: CurveReport, metrics: Sequence[str], folder: Path) -> list[Path]:
    """Writes the curves of each metric and the strip of a dense task as PNG and SVG, and all numbers as
    ``curves.json``.
    """
    from ..evaluation.curves.figures import curves_figure, strip_figure
    from ..evaluation.curves.report import strip_of
    from ..evaluation.drawing import save, style

    by_metric = [[curve for curve in report.curves if curve.metric == metric] for metric in metrics]
    figures = [curves_figure(curves) for curves in by_metric if curves]
    names = [one.name for one in report.candidates]
    strip = strip_of(
        report.data,
        report.runs,
        encoders=names,
        preprocess=report.candidates[0].preprocess,
        frozen=report.request.recipe.frozen,
    )
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
    """A value as JSON: numpy numbers become Python's, and one that is not finite null."""
    if isinstance(value, Mapping):
        return {str(key): json_of(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_of(inner) for inner in value]
    if hasattr(value, "tolist"):
        return json_of(value.tolist())
    return None if isinstance(value, float) and value - value != 0 else value


def _run(run: CurveRun) -> dict[str, Any]:
    return {
        "control": run.control,
        "n_requested": run.n_requested,
        "n_actual": run.n_actual,
        "seed": run.seed,
        "risks": {metric: run.risk(metric) for metric in run.risks},
        "report": json_of(run.report),
    }


def _cells(point: CurvePoint, decimals: int) -> list[str]:
    share = point.relative_improvement
    needs = f"{point.scratch_limit:,.0f}"
    return [
        f"{point.n_requested:,}" + f" ({point.n_actual:,})" * (point.n_actual != point.n_requested),
        *_value(point.risk, decimals),
        *_value(point.calibrated, 2),
        f"{point.calibrated_scratch.value:z.2f}",
        "" if share is None else f"{100 * share.value:z.0f} %",
        needs if point.scratch_bound == "=" else f"{point.scratch_bound} {needs}",
    ]


def _controls(curves: Sequence[CalibratedCurve]) -> list[str]:
    """One line with the blind guess and maximal supervision, or one for each of several architectures."""
    from ..evaluation.curves.curve import label_of

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
    """Decimals of a printed risk: those of its unit, or as many as give the blind guess four digits."""
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


_EPILOG = """\b
Examples:
  zoo curve pocket_simclr_rn_shapes shapes --task normals --regimes 50,200,1k,all
  zoo curve dino_rn50 mocov2_rn50_ep800 ./birds --device cuda --precision bfloat16 --workers 8
  zoo curve dino_vitS16 ./rooms --task depth --frozen --seeds 0,1 --out figures
"""


@click.command("curve", epilog=f"{DATA_HELP}\n\n{_EPILOG}")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=encoder_names)
@click.argument("spec", metavar="DATA")
@curve_options
@click.option(
    "--out",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where figures and curves.json go.  [default: a folder of the data and task in the cache]",
)
@recording_options
@json_option
def curve_command(
    names: tuple[str, ...], spec: str, folder: Path | None, source: str, record: bool, as_json: bool, **options: Any
) -> None:
    """Show what pre-training is worth on a task.

    Every encoder is trained on more and more labels of the task, and so is its architecture from scratch; errors are
    put between those of a blind guess and of maximal supervision. The answer is how much lower the encoder's curve is,
    and how many labels scratch needs to catch up.

    Every run is kept as soon as it is finished: the same command goes on where it was if it was stopped, and a further
    encoder of the same architecture shares the runs from scratch. All risks become rows of your results.
    """
    refuse_idle_source(record=record)
    ids = list(dict.fromkeys(catalogue().id_of(name) for name in names))
    plan = plan_of(spec, options, record=record)
    data, metrics = plan.data, plan.metrics
    from ..evaluation.curves.runs import Unfinished

    try:
        report = _measured(ids, plan)
    except Unfinished as unfinished:
        _tell_unfinished(unfinished, as_json=as_json)
        return
    out = folder or default_folder(data)
    if not as_json:  # before anything can go wrong with figures and results
        shown_before: list[str] = []
        for metric in metrics:
            shown_before += print_curves(
                [curve for curve in report.curves if curve.metric == metric], shown_before=shown_before
            )
        print_notes([*report.notes, *copies_notes(_copies(data)), *_groups_notes(data)])
    problems: list[str] = []
    written: list[Path] = []
    recorded = None
    try:
        written = write_figures(report, metrics, out)
    except ZooError as error:
        problems.append(str(error))
    if record:
        recorded = recording(partial(_rows, report, source))
        problems += [recorded.problem] * bool(recorded.problem)
    if as_json:
        copies = _copies(data)
        print_json(
            document_of(report, metrics)
            | {
                "copies": copies_document(copies),
                "files": [str(path) for path in written],
                "recorded": recorded.document if recorded else None,
                "problems": problems,
            }
        )
    else:
        print_notes([*_of_written(written, out), *(recorded.notes if recorded else ())])
    sys.stdout.flush()
    if problems:
        raise click.ClickException(" ".join(problems))


def _measured(ids: Sequence[str], plan: Plan) -> CurveReport:
    from ..evaluation.curves.models import candidate
    from ..evaluation.curves.progress import CurveBar
    from ..evaluation.curves.report import learning_curves

    candidates = []
    for name in ids:
        say(f"{name}: weights")
        candidates.append(candidate(name))
    several = len({one.control_hash for one in candidates}) > 1
    measure = partial(
        learning_curves,
        candidates,
        plan.data,
        plan.request,
        folder=plan.engine.folder,
        how=plan.how,
        progress=CurveBar() if sys.stderr.isatty() else FinishedRuns(several=several),
    )
    if not plan.engine.is_used:
        return measure(n_processes=plan.n_processes)
    with plan.engine.executor(plan.how.device) as workers:
        return measure(executor=workers, resources=plan.engine.resources(plan.how.device))


def _tell_unfinished(unfinished: Unfinished, *, as_json: bool) -> None:
    """What a part of the work has done while other parts are at theirs."""
    if as_json:
        k, n = unfinished.part
        runs = {"done": unfinished.n_done, "all": unfinished.n_jobs, "folder": str(unfinished.at)}
        print_json({"part": {"k": k, "n": n}, "runs": runs})
    else:
        print_notes([str(unfinished)])


def _rows(report: CurveReport, source: str) -> Mapping[Any, Mapping[str, Any]]:
    from ..evaluation.curves.report import rows_of_curves

    return rows_of_curves(report, source=source)


def _refuse_other_images(data: TransferData) -> None:
    """Refuses other images than those recorded under this name, before anything is trained."""
    from ..evaluation.curves.inputs import images_of
    from ..results.recording import require_same_images

    images = {"images": {"train": images_of(data.train).fingerprint, "val": images_of(data.test).fingerprint}}
    if data.task.is_dense:
        images[data.task.name] = {"train": data.train.fingerprint, "val": data.test.fingerprint}
    require_same_images(data.name, images)


def _copies(data: TransferData) -> Copies | None:
    from ..datasets.images import copies_of
    from ..evaluation.curves.inputs import images_of

    train, test = images_of(data.train), images_of(data.test)
    return copies_of(train.contents, train.labels, test.contents, test.labels)


def _groups_notes(data: TransferData) -> list[str]:
    from ..datasets.images import shared_groups
    from ..evaluation.curves.inputs import images_of

    groups = shared_groups(images_of(data.train).groups, images_of(data.test).groups)
    if groups is None:
        return []
    over = f"intervals are over images, not over the {groups.n_test:,} groups of test images, and may be too short"
    return [over, *groups.notes()]


def _of_written(paths: Sequence[Path], folder: Path) -> list[str]:
    if not paths:
        return []
    names = [path.name for path in paths if path.suffix != ".svg"]
    return [f"wrote {', '.join(names)} into {folder}; the figures are there as svg too"]


class FinishedRuns(CurveProgress):
    """Progress as lines on stderr, one a run; with ``several`` architectures, controls name theirs."""

    def __init__(self, *, several: bool = False) -> None:
        self._several = several
        self._n_jobs = self._n_done = 0
        self._left = TimeLeft(0)

    def start(self, n_jobs: int, n_done: int, *, n_steps: int) -> None:
        """Prints how many runs there are and how many are already finished; nothing if all are."""
        if n_done < n_jobs:
            there = f", {n_done} of them finished before" if n_done else ""
            click.echo(f"{n_jobs} run{'s' * (n_jobs != 1)}{there}", err=True)
        self._n_jobs, self._n_done = n_jobs, n_done
        self._left = TimeLeft(n_steps)

    def step(self, job: Job, step: Step) -> None:
        """Counts steps, for the time left."""
        self._left.step(job, step.step / max(1, step.n_steps))

    def ended(self, job: Job, run: CurveRun | None) -> None:
        """Prints the risks of a run, or that it failed; the reason follows at the end."""
        self._left.ended(job)
        if run is None:
            click.echo(f"failed: {self._label(job)}", err=True)
            return
        self._n_done += 1
        found = ", ".join(f"{metric} {run.risk(metric):.4g}" for metric in run.risks)
        left = time_text(self._left.seconds()) if self._n_done < self._n_jobs else ""
        click.echo(f"{self._n_done} of {self._n_jobs}: {self._label(job)}: {found}{left and f' ({left})'}", err=True)

    def _label(self, job: Job) -> str:
        of_network = self._several and job.control in ("scratch", "maximal")
        return f"{job.label}, architecture of {job.candidate.name}" if of_network else job.label
