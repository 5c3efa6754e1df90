"""``zoo probe``: linear probes on features that were computed before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .measured import document_of, print_evaluation
from .output import json_option, print_json
from .probe_options import probe_options, refuse_idle_probes, request_of, say, setting_options

_EPILOG = """\b
Example:
  zoo features dino_vitS16 ./birds --out features
  zoo probe features/dino_vitS16/features/birds-train-* features/dino_vitS16/features/birds-val-*
"""
_FOLDER = click.Path(path_type=Path)


@click.command("probe", epilog=_EPILOG)
@click.argument("train", metavar="TRAIN", type=_FOLDER)
@click.argument("test", metavar="TEST", type=_FOLDER)
@setting_options
@probe_options
@click.option("--device", metavar="DEVICE", help="Where to compute.  [default: a GPU if there is one]")
@json_option
def command(train: Path, test: Path, as_json: bool, **options: Any) -> None:
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
