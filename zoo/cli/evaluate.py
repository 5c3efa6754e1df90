"""``zoo evaluate``, ``features``, ``probe``, ``decompose``: features, tuned probes, and the risk decomposition."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.catalogue import catalogue
from ..errors import ZooError
from .evaluation_output import document_of, print_evaluation, print_risk, risk_document
from .measure_options import (
    IMAGES_HELP,
    PART_NAMES,
    as_number,
    copies_between,
    copies_document,
    copies_notes,
    device_option,
    featurising,
    image_options,
    images_document,
    opened,
    part_options,
    probe_options,
    recording,
    recording_options,
    refuse_idle_probes,
    refuse_idle_source,
    refuse_other_images,
    request_of,
    setting_options,
    skipped_notes,
)
from .options import encoder_names, refuse_idle
from .output import json_option, print_json, print_notes, print_table, say

if TYPE_CHECKING:
    from ..datasets import ImageData
    from ..evaluation.evaluating import Evaluation, Featurising, Request


_EVALUATE_EXAMPLES = """\b
Examples:
  zoo evaluate pocket_simclr_rn_shapes shapes
  zoo evaluate dino_vitS16 dino_vitS16@cls:11 ./birds --settings full,5-shot --device cuda
  zoo evaluate dino_rn50 /data/imagenet --dataset imagenet-1k --decompose --supervised sup_rn50 --workers 8
"""


@click.command("evaluate", epilog=f"{IMAGES_HELP}\n\n{_EVALUATE_EXAMPLES}")
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
@recording_options
@json_option
def evaluate_command(
    names: tuple[str, ...],
    images: str,
    decompose: bool,
    supervised: str | None,
    root: Path | None,
    source: str,
    record: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure encoders on your labelled images.

    Features are computed once and kept, and so is each probe as soon as it is measured: the same command goes on where
    it was if it was stopped. Every number becomes a row of your results.
    """
    from ..datasets.imagefiles import notes_on
    from ..evaluation.evaluating import evaluations_folder

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
    twin = _twin_to_featurise(supervised, data, folder, how)
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

    from ..evaluation.evaluating import evaluate, featurise_data, runs_folder
    from ..progress import Bar

    say(f"{name}: features of {data.name}")
    features = featurise_data(name, data, root=root, how=how, progress=lambda part: Bar("images"))
    return evaluate(
        features["train"],
        features["val"],
        replace(request, supervised=twin),
        card=catalogue()[name],
        cache=runs_folder(root, name),
        tell=lambda text: say(f"{name}: {text}"),
    )


def _twin_to_featurise(supervised: str | None, data: ImageData, root: Path, how: Featurising) -> Any:
    """Features of the twin on the training images, its recorded training error, or None."""
    if supervised is None or as_number(supervised) is not None:
        return as_number(supervised)
    from ..evaluation.evaluating import featurise_data
    from ..progress import Bar

    say(f"{supervised}: features of {data.name} (train)")
    return featurise_data(supervised, data, root=root, how=how, parts=("train",), progress=lambda part: Bar("images"))[
        "train"
    ]


def _rows(evaluation: Evaluation, source: str) -> Mapping[Any, Mapping[str, Any]]:
    from ..evaluation.evaluating import rows_of_evaluation

    return rows_of_evaluation(evaluation, source=source)


_FEATURES_EXAMPLES = """\b
Examples:
  zoo features pocket_simclr_rn_shapes shapes
  zoo features dino_vitS16@cls+avg /data/imagenet --dataset imagenet-1k --out features --workers 8
"""


@click.command("features", epilog=f"{IMAGES_HELP}\n\n{_FEATURES_EXAMPLES}")
@click.argument("name", metavar="NAME", shell_complete=encoder_names)
@click.argument("images", metavar="IMAGES")
@image_options
@click.option(
    "--part",
    "parts",
    type=click.Choice(["train", "val", "both"]),
    default="both",
    show_default=True,
    help="Which images.",
)
@click.option(
    "--out",
    "root",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the folders of features go.  [default: in the cache]",
)
@json_option
def features_command(name: str, images: str, parts: str, root: Path | None, as_json: bool, **options: Any) -> None:
    """Compute features of labelled images, once.

    The features of an encoder are written shard by shard; the same command goes on where it was if it was stopped, and
    does nothing if all is there. `zoo probe` and `zoo decompose` take the folders.
    """
    from ..datasets.imagefiles import notes_on
    from ..evaluation.evaluating import PARTS, evaluations_folder, featurise_data
    from ..progress import Bar

    data = opened(images, options)
    wanted = PARTS if parts == "both" else (parts,)
    found = featurise_data(
        name,
        data,
        root=root or evaluations_folder(),
        how=featurising(options),
        parts=wanted,
        progress=lambda part: Bar("images"),
    )
    records = [
        {
            "part": part,
            "folder": str(features.folder),
            "n_images": len(features.y),
            "dim": features.dim,
            "skipped": [skipped.image for skipped in features.skipped],
        }
        for part, features in found.items()
    ]
    copies = copies_between(data)
    if as_json:
        print_json(
            {
                "encoder": found[wanted[0]].origin.encoder,
                "dataset": data.name,
                "features": records,
                "images": images_document(data),
                "copies": copies_document(copies),
            }
        )
        return
    rows = [[part, f"{len(one.y):,}", f"{one.dim:,}", str(one.folder)] for part, one in found.items()]
    print_table(["part", "images", "dimensions", "folder"], rows, right=[1, 2])
    notes = notes_on([data.train if part == "train" else data.val for part in wanted]) + copies_notes(copies)
    skipped = [f"{part}: {one.image}" for part, features in found.items() for one in features.skipped]
    print_notes(notes + skipped_notes(skipped, n_named=10))


_PROBE_EXAMPLES = """\b
Example:
  zoo features dino_vitS16 ./birds --out features
  zoo probe features/dino_vitS16/features/birds-train-* features/dino_vitS16/features/birds-val-*
"""
_FOLDER = click.Path(path_type=Path)


@click.command("probe", epilog=_PROBE_EXAMPLES)
@click.argument("train", metavar="TRAIN", type=_FOLDER)
@click.argument("test", metavar="TEST", type=_FOLDER)
@setting_options
@probe_options
@device_option
@json_option
def probe_command(train: Path, test: Path, as_json: bool, **options: Any) -> None:
    """Train tuned linear probes on features.

    They learn from TRAIN in every label setting and are tested on TEST. Both are folders of features, as `zoo features`
    writes them. Nothing is added to your results; `zoo evaluate` does that.
    """
    from ..evaluation.evaluating import evaluate
    from ..features import load_features

    refuse_idle_probes(options)
    evaluation = evaluate(load_features(train), load_features(test), request_of(options, decompose=False), tell=say)
    if as_json:
        print_json(document_of(evaluation))
    else:
        print_evaluation(evaluation)


_DECOMPOSE_EXAMPLES = """\b
Example:
  zoo decompose features/dino_rn50/features/birds-train-* features/dino_rn50/features/birds-val-* --supervised 0.84
"""


@click.command("decompose", epilog=_DECOMPOSE_EXAMPLES)
@click.argument("train", metavar="TRAIN", type=_FOLDER)
@click.argument("test", metavar="TEST", type=_FOLDER)
@probe_options
@part_options
@device_option
@click.option(
    "--supervised",
    metavar="FOLDER|PERCENT",
    help="Features of the supervised twin on the training images, or its training error.",
)
@json_option
def decompose_command(train: Path, test: Path, supervised: str | None, as_json: bool, **options: Any) -> None:
    """Show where the full-shot error comes from.

    Algorithm 1 takes it apart into approximation, usability, probe and encoder generalization. TRAIN and TEST are
    folders of features, as `zoo features` writes them: of images that the encoder was pretrained on, and of images that
    are new to it.
    """
    from ..datasets.images import copies_of
    from ..evaluation.evaluating import decomposed, evaluations_folder, runs_folder
    from ..features import load_features

    refuse_idle_probes(options)
    of_train, of_test = load_features(train), load_features(test)
    twin: Any = as_number(supervised)
    if supervised is not None and twin is None:
        twin = load_features(supervised)
    request = request_of(options, decompose=True, supervised=twin)
    name = of_train.origin.encoder
    card = catalogue()[name] if name in catalogue() else None  # noqa: SIM401 (an unknown name is no KeyError)
    kept = runs_folder(evaluations_folder(), name)
    report = decomposed(of_train, of_test, request, card=card, cache=kept, tell=say)
    copies = copies_of(of_train.contents, of_train.y, of_test.contents, of_test.y)
    if as_json:
        document = {"encoder": report.encoder, "dataset": report.dataset, **risk_document(report)}
        print_json(document | {"copies": copies_document(copies)})
    else:
        print_risk(report)
        print_notes(copies_notes(copies))
