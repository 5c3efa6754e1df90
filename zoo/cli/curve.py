"""``zoo curve``: calibrated learning curves of encoders on a task, with figures, and rows in the results."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards import catalogue
from ..errors import ZooError
from .curve_options import DATA_HELP, curve_options, data_of, metrics_of, recipe_of, seeds_of, training_of
from .curve_output import default_folder, document_of, print_curves, write_figures
from .measured import copies_notes, recording
from .options import encoder_names
from .output import json_option, print_json, print_notes
from .probe_options import refuse_idle_source, say

if TYPE_CHECKING:
    from ..datasets.contents import Copies
    from ..evaluation.curves.data import TransferData
    from ..evaluation.curves.measuring import CurveReport, CurveRequest

_EPILOG = """\b
Examples:
  zoo curve pocket_simclr_rn_shapes shapes --task normals --regimes 50,200,1k,all
  zoo curve dino_rn50 moco_rn50_ep800 ./birds --device cuda --precision bfloat16 --workers 8
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
@click.option("--source", default="own", show_default=True, help="Who measured, as the results say it.")
@click.option("--record/--no-record", default=True, show_default=True, help="Add the numbers to your results.")
@json_option
def command(
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
    if options["task"] is None:
        from ..evaluation.curves.data import task_of

        options["task"] = task_of(spec)
    metrics = metrics_of(options)
    recipe, seeds = recipe_of(options), seeds_of(options["seeds"])
    data = data_of(spec, options)
    if record:
        _refuse_other_images(data)
    request = _request(data, options, seeds=seeds, recipe=recipe)
    report = _measured(ids, data, request, options)
    out = folder or default_folder(data)
    if not as_json:  # before anything can go wrong with figures and results
        told: list[str] = []
        for metric in metrics:
            told += print_curves([curve for curve in report.curves if curve.metric == metric], told=told)
        print_notes([*report.notes, *copies_notes(_copies(data))])
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
                "copies": None if copies is None else copies.as_dict(),
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


def _request(data: TransferData, options: dict[str, Any], *, seeds: tuple[int, ...], recipe: Any) -> CurveRequest:
    from ..evaluation.curves.measuring import CurveRequest
    from ..evaluation.curves.nested import regime_subset
    from ..evaluation.curves.regimes import parse_regimes, resolved_regimes

    text = options["regimes"]
    regimes = None if text.strip().lower() == "auto" else parse_regimes(text)
    if regimes is not None:  # refused before any weights are fetched
        for n in resolved_regimes(regimes, len(data.train), name=data.name):
            regime_subset(data.train, n, seed=seeds[0], validation_share=recipe.validation_share)
    return CurveRequest(regimes=regimes, seeds=seeds, recipe=recipe, maximal=options["maximal"], count=options["count"])


def _measured(ids: Sequence[str], data: TransferData, request: CurveRequest, options: dict[str, Any]) -> CurveReport:
    from ..evaluation.curves.candidates import candidate
    from ..evaluation.curves.measuring import learning_curves
    from ..evaluation.curves.progress import CurveBar
    from .curve_progress import FinishedRuns

    candidates, how = [], training_of(options)
    for name in ids:
        say(f"{name}: weights")
        candidates.append(candidate(name))
    several = len({one.control_hash for one in candidates}) > 1
    return learning_curves(
        candidates, data, request, how=how, n_processes=options["n_processes"],
        progress=CurveBar() if sys.stderr.isatty() else FinishedRuns(several=several),
    )  # fmt: skip


def _rows(report: CurveReport, source: str) -> Mapping[Any, Mapping[str, Any]]:
    from ..evaluation.curves.rows import rows_of_curves

    return rows_of_curves(report, source=source)


def _refuse_other_images(data: TransferData) -> None:
    """Before anything is trained."""
    from ..evaluation.curves.data import images_of
    from ..recording import require_same_images

    images = {"images": {"train": images_of(data.train).fingerprint, "val": images_of(data.test).fingerprint}}
    if data.task.is_dense:
        images[data.task.name] = {"train": data.train.fingerprint, "val": data.test.fingerprint}
    require_same_images(data.name, images)


def _copies(data: TransferData) -> Copies | None:
    from ..datasets.contents import copies_of
    from ..evaluation.curves.data import images_of

    train, test = images_of(data.train), images_of(data.test)
    return copies_of(train.contents, train.labels, test.contents, test.labels)


def _of_written(paths: Sequence[Path], folder: Path) -> list[str]:
    if not paths:
        return []
    names = [path.name for path in paths if path.suffix != ".svg"]
    return [f"wrote {', '.join(names)} into {folder}; the figures are there as svg too"]
