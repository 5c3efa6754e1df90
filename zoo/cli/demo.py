"""``zoo demo``: rank, recommend, compare, load, featurise, probe and decompose on real input, without a network."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.answers import make_table
from ..cards.catalogue import load_catalogue
from ..cards.schema import format_fact
from ..optional import require_extra
from ..results.derived import summaries
from ..results.facts import format_points, format_short_number
from ..results.values import SETTINGS
from .output import add_json_option, log_progress, print_json, print_notes, print_table

if TYPE_CHECKING:
    from ..evaluation.evaluating import Evaluation

_DATA = "digits"
_TWINS = {"pocket_simclr_rn_digits": "pocket_sup_rn_digits", "pocket_mae_vit_digits": "pocket_sup_vit_digits"}
_SPLITS = {"full": "train -> val", "5-shot": "train 5-shot -> val"}
_LIBRARIES = ("numpy", "scipy", "pandas", "PIL", "sklearn", "torch", "torchvision", "timm", "safetensors")
_SMALL_PARAMETERS = 30_000_000
_RECOMMEND = ["--labels", "10k", "--max-parameters", "100M", "--licence", "permissive", "--top", "5"]
_COMPARE = ["dino_vitS16", "msn_vits16_ep800"]
_N_STANDING = 10  # rows of the last table, in addition to the encoders that were measured


@click.command("demo")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-output"),
    show_default=True,
    help="Where features and probes are kept.",
)
@add_json_option
def demo_command(out: Path, as_json: bool) -> None:
    """Run the main job on real input: rank, recommend, compare; load, featurise, probe and decompose.

    Needs no network: the first numbers are the published ones; then two tiny encoders, whose weights come with the zoo,
    are measured on held-out images of scikit-learn's handwritten digits. Nothing is added to your results.
    """
    with require_extra("demo", needed_for="The demo"):  # before anything is computed
        for module in _LIBRARIES:
            import_module(module)
    from .evaluation_output import build_evaluation_document, print_evaluation

    if as_json:
        documents = [build_evaluation_document(_evaluated(name, out)) for name in _TWINS]
        print_json({"best": _best(), "evaluations": documents, "standing": _standing()})
        return
    _heading("The best encoders by number of labels: lowest error of a linear probe on ImageNet-1K, percent")
    small = f"best up to {format_short_number(_SMALL_PARAMETERS)} parameters"
    rows = [
        [
            best["setting"],
            best["encoder"],
            format_points(best["error"]),
            best["small_encoder"],
            format_points(best["small_error"]),
        ]
        for best in _best()
    ]
    print_table(make_table(["labels", "best of all", "error", small, "error"], rows, numbers=[2, 4]))
    for verb, arguments in (("recommend", _RECOMMEND), ("compare", _COMPARE)):
        _heading(f"$ zoo {verb} {' '.join(arguments)}")
        root = click.get_current_context().find_root().command
        command = root.get_command(click.get_current_context(), verb)  # type: ignore[attr-defined]
        command.main(arguments, prog_name=f"zoo {verb}", standalone_mode=False)
        sys.stdout.flush()
    for name, twin in _TWINS.items():
        _heading(f"$ zoo evaluate {name} {_DATA} --settings {','.join(_SPLITS)} --decompose --supervised {twin}")
        found = _evaluated(name, out)
        print_evaluation(found, build_evaluation_document(found))
    _print_standing()
    print_notes([f"features and probes are in {out}"])


def _heading(text: str) -> None:
    click.echo(f"\n{click.style(text, bold=True)}\n")


def _best() -> list[dict[str, Any]]:
    """Encoders with the lowest error in each setting, of all and of the small ones, without wrong rows."""
    cards = load_catalogue()
    measured = [
        summary
        for summary in summaries(exclude_wrong=True).values()
        if cards[summary.encoder].objective.mode not in ("supervised", "initialized")
    ]
    small = [summary for summary in measured if cards[summary.encoder].architecture.n_parameters <= _SMALL_PARAMETERS]
    found = []
    for setting in (one.name for one in SETTINGS):
        best, best_small = (
            min((one for one in group if setting in one.errors), key=lambda one: one.errors[setting])
            for group in (measured, small)
        )
        found.append(
            {
                "setting": setting,
                "encoder": best.encoder,
                "error": best.errors[setting],
                "small_encoder": best_small.encoder,
                "small_error": best_small.errors[setting],
            }
        )
    return found


def _evaluated(name: str, out: Path) -> Evaluation:
    """One encoder on the digits, with its supervised twin."""
    from ..datasets import open_images
    from ..evaluation.evaluating import Request, evaluate, featurise_data, get_runs_folder

    data = open_images(_DATA)
    twin = featurise_data(_TWINS[name], data, root=out, parts=("train",))["train"]
    features = featurise_data(name, data, root=out)
    request = Request(settings=tuple(_SPLITS), decompose=True, supervised=twin)
    kept = get_runs_folder(out, name)
    return evaluate(
        features["train"], features["val"], request, card=load_catalogue()[name], cache=kept, tell=log_progress
    )


def _standing() -> list[dict[str, Any]]:
    """Recorded errors of every encoder that was measured on the digits, the best first."""
    found = [
        {"encoder": encoder, "full": one.errors["100%"], "5-shot": one.errors["5-shot"]}
        for encoder, one in summaries(dataset=_DATA).items()
        if {"100%", "5-shot"} <= one.errors.keys() and load_catalogue().lists(encoder)
    ]
    return sorted(found, key=lambda one: float(one["full"]))


def _print_standing() -> None:
    _heading(f"Where they stand: the results on {_DATA}, error of a linear probe in percent")
    cards, standing = load_catalogue(), _standing()
    shown = {
        place: one for place, one in enumerate(standing, start=1) if place <= _N_STANDING or one["encoder"] in _TWINS
    }
    rows = [
        [
            str(place),
            f"{one['encoder']}{' <' if one['encoder'] in _TWINS else ''}",
            format_points(one["full"]),
            format_points(one["5-shot"]),
            *map(format_fact, (cards[one["encoder"]].objective.mode, cards[one["encoder"]].pretraining.dataset)),
        ]
        for place, one in shown.items()
    ]
    print_table(
        make_table(["rank", "encoder", "full", "5-shot", "objective", "pretrained on"], rows, numbers=[0, 2, 3])
    )
    print_notes(
        [f"<  measured above; {len(shown)} of {len(standing)} encoders: zoo results --dataset {_DATA} shows all"]
    )
