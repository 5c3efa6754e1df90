"""``zoo evaluate``: features, tuned probes in every label setting, the risk decomposition, and rows in the results."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards import catalogue
from ..errors import ZooError
from .image_options import IMAGES_HELP, featurising, image_options, images_document, opened, refuse_other_images
from .measured import document_of, print_evaluation, recording
from .options import encoder_names, refuse_idle
from .output import json_option, print_json, print_notes
from .probe_options import (
    PART_NAMES,
    part_options,
    probe_options,
    refuse_idle_probes,
    refuse_idle_source,
    request_of,
    say,
    setting_options,
)

if TYPE_CHECKING:
    from ..datasets import ImageData
    from ..evaluation.evaluating import Evaluation, Request
    from ..evaluation.featurising import Featurising

_EPILOG = """\b
Examples:
  zoo evaluate pocket_simclr_rn_shapes shapes
  zoo evaluate dino_vitS16 dino_vitS16@cls:11 ./birds --settings full,5-shot --device cuda
  zoo evaluate dino_rn50 /data/imagenet --dataset imagenet-1k --decompose --supervised sup_rn50 --workers 8
"""


@click.command("evaluate", epilog=f"{IMAGES_HELP}\n\n{_EPILOG}")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=encoder_names)
@click.argument("images", metavar="IMAGES")
@image_options
@setting_options
@probe_options
@part_options
@click.option("--decompose", is_flag=True, help="Also where the full-shot error comes from (Algorithm 1).")
@click.option(
    "--supervised",
    metavar="NAME|PERCENT",
    shell_complete=encoder_names,
    help="Supervised twin, or its training error: splits approximation from usability.",
)
@click.option(
    "--out",
    "root",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where features and measured probes are kept.  [default: in the cache]",
)
@click.option("--source", default="own", show_default=True, help="Who measured, as the results say it.")
@click.option("--record/--no-record", default=True, show_default=True, help="Add the numbers to your results.")
@json_option
def command(
    names: tuple[str, ...], images: str, decompose: bool, supervised: str | None, root: Path | None, source: str,
    record: bool, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Measure encoders on your labelled images.

    Features are computed once and kept, and so is each probe as soon as it is measured: the same command goes on where
    it was if it was stopped. Every number becomes a row of your results.
    """
    from ..datasets.imagefiles import notes_on
    from ..evaluation.featurising import evaluations_folder

    if not decompose:
        refuse_idle(("supervised", *PART_NAMES), "no error is decomposed", remedy=", or add --decompose")
    refuse_idle_probes(options)
    refuse_idle_source(record=record)
    ids = list(dict.fromkeys(catalogue().id_of(name) for name in names))
    request = request_of(options, decompose=decompose)
    data = opened(images, options)
    if record:
        refuse_other_images(data)
    folder, how = root or evaluations_folder(), featurising(options)
    twin = _twin(supervised, data, folder, how)
    found: list[dict[str, Any]] = []
    failed: list[tuple[str, ZooError]] = []
    problems: list[str] = []
    for name in ids:
        try:
            evaluation = _evaluated(name, data, folder, how, request, twin)
        except ZooError as error:
            if len(ids) == 1:
                raise
            failed.append((name, error))
            click.echo(f"{name}: {error}", err=True)
            continue
        if not as_json:  # before anything can go wrong with the results
            print_evaluation(evaluation, on_images=notes_on([data.train, data.val]))
            sys.stdout.flush()
        recorded = None
        if record:
            recorded = recording(partial(_rows, evaluation, source))
            problems += [f"{name}: {recorded.problem}"] * bool(recorded.problem)
        if as_json:
            document = document_of(evaluation) | {"images": images_document(data)}
            problem = recorded.problem if recorded else ""
            done = recorded.document if recorded else None
            found.append(document | {"recorded": done, "not_recorded": problem or None})
        elif recorded:
            print_notes(recorded.notes)
            sys.stdout.flush()
    if as_json:
        print_json({"evaluations": found, "failed": [{"encoder": name, "error": str(error)} for name, error in failed]})
    if failed:
        problems.append(f"{len(failed)} of {len(ids)} encoders could not be measured; see above.")
    if problems:
        raise click.ClickException(" ".join(problems))


def _evaluated(name: str, data: ImageData, root: Path, how: Featurising, request: Request, twin: Any) -> Evaluation:
    from dataclasses import replace

    from ..evaluation.evaluating import evaluate
    from ..evaluation.featurising import featurise_data, runs_folder
    from ..features import Bar

    say(f"{name}: features of {data.name}")
    features = featurise_data(name, data, root=root, how=how, progress=lambda part: Bar())
    return evaluate(
        features["train"], features["val"], replace(request, supervised=twin), card=catalogue()[name],
        kept=runs_folder(root, name), tell=lambda text: say(f"{name}: {text}"),
    )  # fmt: skip


def _twin(supervised: str | None, data: ImageData, root: Path, how: Featurising) -> Any:
    """Features of the twin on the training images, its recorded training error, or None."""
    if supervised is None:
        return None
    try:
        return float(supervised)
    except ValueError:
        pass  # the name of an encoder
    from ..evaluation.featurising import featurise_data
    from ..features import Bar

    say(f"{supervised}: features of {data.name} (train)")
    return featurise_data(supervised, data, root=root, how=how, parts=("train",), progress=lambda part: Bar())["train"]


def _rows(evaluation: Evaluation, source: str) -> Mapping[Any, Mapping[str, Any]]:
    from ..evaluation.evaluation_rows import rows_of_evaluation

    return rows_of_evaluation(evaluation, source=source)
