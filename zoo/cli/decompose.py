"""``zoo decompose``: where the full-shot error of an encoder comes from, on features that were computed before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..cards import catalogue
from .measured import copies_notes, print_risk, risk_document
from .output import json_option, print_json, print_notes
from .probe_options import part_options, probe_options, refuse_idle_probes, request_of, say

_EPILOG = """\b
Example:
  zoo decompose features/dino_rn50/features/birds-train-* features/dino_rn50/features/birds-val-* --supervised 0.84
"""
_FOLDER = click.Path(path_type=Path)


@click.command("decompose", epilog=_EPILOG)
@click.argument("train", metavar="TRAIN", type=_FOLDER)
@click.argument("test", metavar="TEST", type=_FOLDER)
@probe_options
@part_options
@click.option("--device", metavar="DEVICE", help="Where to compute.  [default: a GPU if there is one]")
@click.option(
    "--supervised",
    metavar="FOLDER|PERCENT",
    help="Features of the supervised twin on the training images, or its training error.",
)
@json_option
def command(train: Path, test: Path, supervised: str | None, as_json: bool, **options: Any) -> None:
    """Show where the full-shot error comes from.

    Algorithm 1 takes it apart into approximation, usability, probe and encoder generalization. TRAIN and TEST are
    folders of features, as `zoo features` writes them: of images that the encoder was pretrained on, and of images that
    are new to it.
    """
    from ..datasets.contents import copies_of
    from ..evaluation.evaluating import decomposed
    from ..evaluation.featurising import evaluations_folder, runs_folder
    from ..features import load_features

    refuse_idle_probes(options)
    of_train, of_test = load_features(train), load_features(test)
    request = request_of(options, decompose=True, supervised=_twin(supervised))
    name = of_train.origin.encoder
    card = catalogue()[name] if name in catalogue() else None  # noqa: SIM401 (an unknown name is no KeyError)
    kept = runs_folder(evaluations_folder(), name)
    report = decomposed(of_train, of_test, request, card=card, kept=kept, tell=say)
    copies = copies_of(of_train.contents, of_train.y, of_test.contents, of_test.y)
    if as_json:
        counts = None if copies is None else copies.as_dict()
        document = {"encoder": report.encoder, "dataset": report.dataset, **risk_document(report), "copies": counts}
        print_json(document)
    else:
        print_risk(report)
        print_notes(copies_notes(copies))


def _twin(given: str | None) -> Any:
    if given is None:
        return None
    try:
        return float(given)
    except ValueError:
        pass  # a folder
    from ..features import load_features

    return load_features(given)
