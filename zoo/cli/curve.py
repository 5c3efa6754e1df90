"""``zoo curve``: calibrated learning curves of encoders on a task, with figures and rows in the user's results."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.answers import make_table
from ..cards.catalogue import load_catalogue
from ..datasets.sources import DENSE_KINDS, FOLDER_OPTIONS, KINDS, TABLE_OPTIONS, format_sources_help
from ..errors import QueryError, StoreError, UnknownName, ZooError, format_count
from ..evaluation.curves.recipe import TASKS, Recipe
from ..files import get_cache_folder, parse_local_folder, replace_file
from ..progress import ProgressBar
from .engine_options import (
    CPUS_OPTION,
    OF_WORKERS,
    PROCESS_OPTIONS,
    EngineOptions,
    open_recorded_run,
    rebuild_command,
)
from .measure_options import (
    COLUMN_OPTIONS,
    DATA_OPTIONS,
    SPLIT_OPTIONS,
    add_options,
    add_recording_options,
    build_counts_document,
    list_copies_notes,
    log_image_sources,
    parse_settings,
    record_measured_rows,
    reject_unused_columns,
    reject_unused_source,
    require_images_exist,
    select_source_options,
)
from .options import FoldedCommand, complete_encoder_names, reject_unused_options
from .output import add_json_option, log_progress, print_answer, print_json, print_notes, print_table

if TYPE_CHECKING:
    from ..evaluation.bootstrap import Interval
    from ..evaluation.curves.curve import CalibratedCurve
    from ..evaluation.curves.data import TransferData
    from ..evaluation.curves.report import CurveReport
    from ..evaluation.curves.runs import CurveJob, CurveRun, UnfinishedParts
    from ..evaluation.curves.training import TrainingStep

DATA_HELP = f"""\b
DATA is, for a classification, one of
{format_sources_help(KINDS)}
\b
and for depth or normals one of
{format_sources_help(DENSE_KINDS)}"""
_MOST_SEEDS = 1000
_WHAT = (
    click.option("--task", type=click.Choice(list(TASKS)), help="May be left out where the data allow one only."),
    click.option(
        "--regimes",
        default="auto",
        show_default=True,
        metavar="LIST",
        help="Numbers of labels by comma, as 50,200,1k,all; auto: from where scratch is near the constant baseline "
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
)
_TRAINING = (
    click.option("--learning-rates", metavar="LIST", help="By comma; the best on the validation part is taken."),
    click.option("--epochs", type=float, help="Passes over the labels."),
    click.option("--batch-size", type=int, help="Images per step of the optimizer."),
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
_NAMED = ("epochs", "batch_size", "precision")
_EPILOG = """\b
Examples:
  zoo curve pocket_simclr_rn_shapes shapes --task normals --regimes 50,200,1k,all
  zoo curve dino_rn50 mocov2_rn50_ep800 ./birds --device cuda --precision bfloat16 --workers 8
  zoo curve dino_vitS16 ./rooms --task depth --frozen --seeds 0,1 --out figures
"""


@click.command("curve", cls=FoldedCommand, epilog=f"{DATA_HELP}\n\n{_EPILOG}")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_encoder_names)
@click.argument("spec", metavar="DATA", callback=require_images_exist)
@partial(add_options, options=(*_WHAT, *DATA_OPTIONS, *_TRAINING, *_WORKERS))
@click.option(
    "--out",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where figures and curves.json go.  [default: a folder of the data and task in the cache]",
)
@add_recording_options
@add_json_option
def curve_command(
    names: tuple[str, ...], spec: str, folder: Path | None, source: str, record: bool, as_json: bool, **options: Any
) -> None:
    """Show what pre-training is worth on a task.

    Every encoder is trained on more and more labels of the task, and so is its architecture from scratch; errors are
    put between those of a constant baseline and of maximal supervision. The answer is how much lower the encoder's
    curve is, and how many labels scratch needs to catch up.

    Every run is kept as soon as it is finished: the same command goes on where it was if it was stopped, and a further
    encoder of the same architecture shares the runs from scratch. All risks become rows of your results.
    """
    reject_unused_source(record=record)
    ids = list(dict.fromkeys(load_catalogue().id_of(name) for name in names))
    data = _data_of(spec, options, record=record)
    report = _measured(ids, spec, data, options)
    if isinstance(report, ZooError):
        if as_json:
            k, n = report.part
            runs = {"done": report.n_done, "all": report.n_jobs, "folder": str(report.at)}
            print_json({"part": {"k": k, "n": n}, "runs": runs})
        else:
            print_notes([str(report)])
        return
    plain_name = re.sub(r"[^\w.+-]", "_", data.name)
    out = folder or get_cache_folder() / "curves" / "figures" / f"{plain_name}-{data.task.name}"
    if not as_json:  # before anything can go wrong with figures and results
        for curves in _by_metric(report):
            print_curves(curves)
    problems, written, recorded = [], list[Path](), None
    try:
        written = write_figures(report, out)
    except ZooError as error:
        problems.append(str(error))
    if record:
        from ..evaluation.curves.report import make_curve_rows

        recorded = record_measured_rows(partial(make_curve_rows, report, source=source))
        problems += [recorded.problem] * bool(recorded.problem)
    if as_json:
        extra = {
            "copies": _about_images(data)[0],
            "files": [str(path) for path in written],
            "recorded": recorded.document if recorded else None,
            "problems": problems,
        }
        print_json(build_curve_document(report) | extra)
    else:
        notes = [*collect_notes(report.curves), *report.notes, *_about_images(data)[1]]
        files = ", ".join(path.name for path in written if path.suffix != ".svg")
        files_notes = [f"wrote {files} into {out}; the figures are there as svg too"] * bool(written)
        print_notes([*files_notes, *(recorded.notes if recorded else ()), *notes], _READING)
    sys.stdout.flush()
    if problems:
        raise click.ClickException(" ".join(problems))


def _data_of(spec: str, options: dict[str, Any], *, record: bool) -> TransferData:
    """The data that the arguments name; refuses options without effect, and other images than were recorded."""
    from ..evaluation.curves.data import get_image_set, resolve_task, transfer_data
    from ..results.recording import require_same_images

    task = resolve_task(spec) if options["task"] is None else options["task"]
    if task in ("depth", "normals"):
        idle = (*COLUMN_OPTIONS, "fold_labels", *TABLE_OPTIONS, *FOLDER_OPTIONS)
        reject_unused_options(idle, f"{spec!r} is no data set of classes, and has no columns")
    reject_unused_columns(spec)
    log_progress(f"looking at {spec}")
    data = transfer_data(spec, task, **select_source_options(options))
    if not data.is_split_here:
        reject_unused_options(SPLIT_OPTIONS, f"{spec!r} says itself which images are to be tested on")
    log_image_sources([get_image_set(data.train), get_image_set(data.test)])
    if record:
        images = {
            "images": {"train": get_image_set(data.train).fingerprint, "val": get_image_set(data.test).fingerprint}
        }
        if data.task.is_dense:
            images[data.task.name] = {"train": data.train.fingerprint, "val": data.test.fingerprint}
        require_same_images(data.name, images)
    return data


def _measured(
    ids: Sequence[str], spec: str, data: TransferData, options: dict[str, Any]
) -> CurveReport | UnfinishedParts:
    """Checks the options before any weights are fetched, then measures, or does what this part of the work can."""
    from torch import nn

    from ..evaluation.curves.data import select_regime_subset
    from ..evaluation.curves.models import candidate
    from ..evaluation.curves.report import (
        CurveRequest,
        build_curve_spec,
        learning_curves,
        parse_regimes,
        resolve_regimes,
    )
    from ..evaluation.curves.runs import UnfinishedParts
    from ..evaluation.curves.training import Training
    from ..features.computing import choose_device

    recipe, seeds, device = _recipe_of(options), parse_seeds(options["seeds"]), options["device"]
    is_auto = options["regimes"].strip().lower() == "auto"
    regimes = None if is_auto else parse_regimes(options["regimes"])
    if regimes is not None:
        reject_unused_options(("count",), "the regimes are given by --regimes", remedy=", or take --regimes auto")
        for n in resolve_regimes(regimes, len(data.train), name=data.name):
            select_regime_subset(data.train, n, seed=seeds[0], validation_share=recipe.validation_share)
    engine = _engine_of(options, is_auto=is_auto)
    choose_device(nn.Identity(), device)
    request = CurveRequest(
        regimes=regimes, seeds=seeds, recipe=recipe, maximal=options["maximal"], count=options["count"]
    )
    progress: Any = TrainingProgress()  # a CurveProgress, whose module imports PyTorch
    candidates = []
    for name in ids:
        log_progress(f"{name}: weights")
        candidates.append(candidate(name))
    measure = partial(
        learning_curves,
        candidates,
        data,
        request,
        folder=engine.folder,
        how=Training(device=device, n_workers=options["n_workers"]),
        progress=progress,
    )
    asked = build_curve_spec(candidates, data, request, command=rebuild_command(spec))
    with open_recorded_run(engine, asked, device) as (workers, journal):
        try:
            if not engine.is_used:
                return measure(n_processes=options["n_processes"], journal=journal)
            return measure(executor=workers, resources=engine.resources(device), journal=journal)
        except UnfinishedParts as unfinished:  # which is how a part ends
            return unfinished


def _engine_of(options: Mapping[str, Any], *, is_auto: bool) -> EngineOptions:
    """The workers that train, and where the runs go; refuses options without effect and parts of unknown work."""
    where = options["runs_folder"]
    folder = get_cache_folder() / "curves" if where is None else parse_local_folder(where)
    if folder is None:
        raise QueryError(f"Got --to {where}, expected a folder for finished runs; name one that all workers reach.")
    names = ("on", "part", "cpus_each", "gpus_each", "mixed_versions")
    engine = EngineOptions(where=folder, stored="float32", **{name: options[name] for name in names})
    if not engine.is_used:
        reject_unused_options(OF_WORKERS, "no engine is asked for", remedy=", or add --on")
    else:
        reject_unused_options(("n_processes",), "--on says what trains", remedy=", or write --on local:N")
    if engine.part is not None and is_auto:
        raise QueryError(
            f"Got --part {engine.part[0]}/{engine.part[1]} with --regimes auto, expected numbers of labels, as "
            "50,200,1k,all: those that auto proposes follow from runs of all parts."
        )
    return engine


def _recipe_of(options: dict[str, Any]) -> Recipe:
    """How networks are to be trained; refuses settings that do not exist or are given twice."""
    given: dict[str, Any] = {name: options[name] for name in _NAMED if options[name] is not None}
    if options["learning_rates"] is not None:
        given["learning_rates"] = _rates_of(options["learning_rates"])
    known = [field.name for field in fields(Recipe) if field.name != "frozen"]
    for name, value in parse_settings(options["changed"]).items():
        if name not in known:
            raise UnknownName("setting of the recipe", name, known, hint=f"There are {', '.join(known)}.")
        if name in given:
            raise QueryError(f"Got {name} by its own option and by --set, expected it once.")
        if isinstance(value, str) and name not in ("precision", "learning_rates"):
            raise QueryError(f"Got --set {name}={value}, expected a number.")
        given[name] = _rates_of(str(value)) if name == "learning_rates" else value
    return Recipe(frozen=options["frozen"], **given)


def _rates_of(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.strip("[]").split(","))
    except ValueError:
        raise QueryError(f"Got the learning rates {text!r}, expected numbers by comma, as 3e-4,1e-3.") from None


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds from their number, or from a list.

    >>> parse_seeds("3"), parse_seeds("7,1"), parse_seeds("5,")
    ((0, 1, 2), (7, 1), (5,))
    """
    parts = [part.strip() for part in text.removesuffix(",").split(",")]
    seeds = tuple(int(part) for part in parts if re.fullmatch(r"\d{1,9}", part, re.ASCII))
    if len(seeds) == len(parts) and "," not in text and seeds[0] <= _MOST_SEEDS:
        seeds = tuple(range(seeds[0]))
    elif len(set(seeds)) < len(parts) or "," not in text:
        seeds = ()
    if not 1 <= len(seeds) <= _MOST_SEEDS:
        raise QueryError(
            f"Got --seeds {text!r}, expected their number from 1 to {_MOST_SEEDS}, or different seeds by comma, as "
            "0,1,2."
        )
    return seeds


_READING = (
    "CCI: calibrated cumulative improvement over scratch, from its cR with the fewest labels to that with the most; "
    "0 is worth nothing, 1 as much as all labels",
    "risk: lower is better; cR: calibrated risk, 1 is the constant baseline and 0 maximal supervision; scratch: its "
    "cR; gain: share of it that the encoder takes away; it needs: labels with which scratch reaches the encoder's risk",
    "interval: 95 %, over the choice of test images and seeds; images only: over test images alone, for one seed says "
    "nothing of how much seeds vary",
)
_DECIMALS = {"percent": 1, "degrees": 1}  # of the risks in these units; of others four digits of the constant baseline


def print_curves(curves: Sequence[CalibratedCurve]) -> None:
    """Prints curves of one metric: the improvement of every encoder, the controls, and every regime."""
    from ..evaluation.curves.curve import format_curve_label, format_metric_name, format_unit

    first = curves[0]
    words, tested = (
        format_metric_name(first.metric),
        "" if first.n_test is None else f", {format_count(first.n_test, 'test image')}",
    )
    around = "images only" if any(curve.images_only for curve in curves) else "interval"
    summary = []
    for curve in curves:
        cells = ["not identified", "", ""]
        if curve.improvement is not None and curve.improvement_range is not None:
            cells = [*_value(curve.improvement, 2), " to ".join(f"{end:z.2f}" for end in curve.improvement_range)]
        summary.append([format_curve_label(curve), *cells])
    controls: dict[str, list[str]] = {}  # one line, or one for each of several architectures
    for curve in curves:
        shown = (" ".join(_value(one, _decimals(curve), "({})")).strip() for one in (curve.blind, curve.maximal))
        controls.setdefault("constant baseline {}, maximal supervision {}".format(*shown), []).append(
            format_curve_label(curve)
        )
    said = {
        "title": f"{words[0].upper()}{words[1:]} on {first.dataset}",
        "about": f"{format_unit(first.unit)}{tested}",
        "answer": [text if len(controls) == 1 else f"{', '.join(some)}: {text}" for text, some in controls.items()],
    }
    print_answer(make_table(["encoder", "CCI", around, "over cR of scratch"], summary, numbers=(1, 2, 3), **said))
    click.echo()
    headers = ["labels", "risk", around, "cR", around, "scratch", "gain", "it needs"]
    by_curve = {format_curve_label(curve): _regimes(curve) for curve in curves}
    if sys.stdout.isatty():  # which is too narrow for one table
        for label, rows in by_curve.items():
            click.echo(click.style(label, bold=True))
            print_table(make_table(headers, rows, numbers=range(len(headers))))
    else:
        every = [[label, *row] for label, rows in by_curve.items() for row in rows]
        print_table(make_table(["encoder", *headers], every, numbers=range(1, len(headers) + 1)))


def _regimes(curve: CalibratedCurve) -> list[list[str]]:
    rows = []
    for point in curve.points:
        share, needs = point.relative_improvement, f"{point.scratch_limit:,.0f}"
        cells = [
            f"{point.n_requested:,}" + f" ({point.n_actual:,})" * (point.n_actual != point.n_requested),
            *_value(point.risk, _decimals(curve)),
            *_value(point.calibrated, 2),
            f"{point.calibrated_scratch.value:z.2f}",
            "" if share is None else f"{100 * share.value:z.0f} %",
            needs if point.scratch_bound == "=" else f"{point.scratch_bound} {needs}",
        ]
        rows.append(cells)
    return rows


def _decimals(curve: CalibratedCurve) -> int:
    """Decimals of a printed risk: those of its unit, or as many as give the constant baseline four digits."""
    if curve.unit in _DECIMALS:
        return _DECIMALS[curve.unit]
    return max(0, 3 - math.floor(math.log10(curve.blind.value))) if curve.blind.value > 0 else 4


def _value(found: Interval, decimals: int, form: str = "{}") -> list[str]:
    value = f"{found.value:z.{decimals}f}"
    if found.ci_low is None or found.ci_high is None:
        return [value, ""]
    return [value, form.format(f"{found.ci_low:z.{decimals}f} to {found.ci_high:z.{decimals}f}")]


def collect_notes(curves: Sequence[CalibratedCurve]) -> list[str]:
    """Notes on these curves; a note on several appears once, with the names of the encoders unless it is of all."""
    from ..evaluation.curves.curve import format_curve_label

    by_note: dict[str, dict[str, None]] = {}
    for curve in curves:
        for note in curve.notes:
            by_note.setdefault(note, {})[format_curve_label(curve)] = None
    n = len({format_curve_label(curve) for curve in curves})
    return [note if len(names) == n else f"{', '.join(names)}: {note}" for note, names in by_note.items()]


def _by_metric(report: CurveReport) -> list[list[CalibratedCurve]]:
    metrics = dict.fromkeys(curve.metric for curve in report.curves)
    return [[curve for curve in report.curves if curve.metric == metric] for metric in metrics]


def build_curve_document(report: CurveReport) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "dataset": report.data.name,
        "task": report.data.task.name,
        "regimes": list(report.regimes),
        "seeds": list(report.request.seeds),
        "recipe": asdict(report.request.recipe),
        "maximal": report.request.maximal,
        "notes": list(report.notes),
        "curves": [_json_of(curve.as_dict()) for curve in report.curves],
        "runs": [
            {
                "encoder": name,
                "control": run.control,
                "n_requested": run.n_requested,
                "n_actual": run.n_actual,
                "seed": run.seed,
                "risks": {metric: run.risk(metric) for metric in run.risks},
                "report": _json_of(run.report),
            }
            for (name, _), runs in report.runs.items()
            for run in runs
        ],
    }


def write_figures(report: CurveReport, folder: Path) -> list[Path]:
    """Writes the curves and the strip of a dense task as PNG and SVG, and all numbers as ``curves.json``."""
    from ..evaluation.curves.figures import make_curves_figure, make_prediction_strip, make_strip_figure
    from ..evaluation.drawing import save, use_style

    figures = [make_curves_figure(curves) for curves in _by_metric(report)]
    names = [one.name for one in report.candidates]
    strip = make_prediction_strip(report.data, report.runs, encoders=names, preprocess=report.candidates[0].preprocess)
    if strip is not None:
        figures.append(make_strip_figure(strip))
    captions = [{"file": f"{one.name}.png", "title": one.title, "caption": one.caption} for one in figures]
    paths: list[Path] = []
    try:
        with use_style():
            for figure in figures:
                paths += save(figure.draw(), folder / figure.name)
        text = json.dumps(build_curve_document(report) | {"figures": captions}, indent=1, ensure_ascii=False)
        with replace_file(folder / "curves.json") as file:
            file.write((text + "\n").encode())
    except OSError as error:
        raise StoreError(
            f"The figures could not be written into {folder} ({error.strerror}); make room, or name another folder "
            "with --out; the finished runs are kept."
        ) from error
    return [*paths, folder / "curves.json"]


def _json_of(value: Any) -> Any:
    """A value as JSON: one that is not finite becomes null."""
    if isinstance(value, Mapping):
        return {str(key): _json_of(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json_of(inner) for inner in value]
    return None if isinstance(value, float) and value - value != 0 else value


def _about_images(data: TransferData) -> tuple[dict[str, Any] | None, list[str]]:
    """Copies among the images as JSON, and notes on copies and groups."""
    from ..datasets.images import count_copies, count_shared_groups
    from ..evaluation.curves.data import get_image_set

    train, test = get_image_set(data.train), get_image_set(data.test)
    copies = count_copies(train.contents, train.labels, test.contents, test.labels)
    groups, notes = count_shared_groups(train.groups, test.groups), list_copies_notes(copies)
    if groups is not None:
        over = f"intervals are over images, not over the {groups.n_test:,} groups of test images, and may be too short"
        notes = [over, *groups.notes(), *notes]
    return build_counts_document(copies), notes


class TrainingProgress:
    """Progress on stderr: a bar over the steps of all runs on a terminal, else a line per run."""

    def __init__(self) -> None:
        self._bar = ProgressBar("steps")
        self._steps: dict[str, int] = {}  # done, by the key of a run
        self._n_jobs = self._n_done = 0

    def start(self, n_jobs: int, n_done: int, *, n_steps: int) -> None:
        """Says how many runs there are and how many are already finished; nothing if all are."""
        self._n_jobs, self._n_done, self._steps = n_jobs, n_done, {}
        if n_done < n_jobs:
            before = f", {n_done} of them finished before" if n_done else ""
            click.echo(f"{n_jobs} run{'s' * (n_jobs != 1)}{before}", err=True)
            self._bar.start("training", n_steps, 0)

    def began(self, job: CurveJob) -> None:
        """Shows nothing: the bar moves with the first step."""

    def step(self, job: CurveJob, step: TrainingStep) -> None:
        """Moves the bar."""
        self._advance(job, job.n_steps * step.step // max(1, step.n_steps))

    def ended(self, job: CurveJob, run: CurveRun | None) -> None:
        """Prints the risks of a run, or that it failed; the reason follows at the end."""
        self._n_done += run is not None
        self._advance(job, job.n_steps)
        if not sys.stderr.isatty():
            several = f", architecture of {job.candidate.name}" * (job.control in ("scratch", "maximal"))
            found = "failed" if run is None else ", ".join(f"{name} {run.risk(name):.4g}" for name in run.risks)
            click.echo(f"{self._n_done} of {self._n_jobs}: {job.label}{several}: {found}", err=True)

    def end(self) -> None:
        """Ends the bar."""
        self._bar.end()

    def _advance(self, job: CurveJob, n_steps: int) -> None:
        self._bar.advance(n_steps - self._steps.get(job.key, 0))
        self._steps[job.key] = n_steps
