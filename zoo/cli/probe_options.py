"""Options of the verbs that measure by probes, and how they tell what they are doing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..errors import QueryError
from .options import refuse_idle

if TYPE_CHECKING:
    from ..evaluation.evaluating import Request

_KINDS = ("auto", "logistic", "streamed")
_SETTINGS = (
    click.option("--settings", metavar="LIST",
                 help="Label settings by comma: full, K-shot, P%.  [default: full,30-shot,1%,5-shot,3-shot as far as "
                      "there are images]"),
    click.option("--knn/--no-knn", "neighbours", default=True, show_default=True, help="Also nearest neighbours."),
)  # fmt: skip
_PROBES = (
    click.option("--seeds", "n_seeds", type=click.IntRange(1, 1000), default=5, show_default=True,
                 help="Draws of few-shot labels."),
    click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="The first of them."),
    click.option("--probe", type=click.Choice(_KINDS), default="auto", show_default=True,
                 help="logistic: converged, in memory; streamed: 30 tuned trainings, for features larger than memory."),
    click.option("--set", "changed", metavar="NAME=VALUE", multiple=True,
                 help="A setting of the linear probe, as select=log_loss or stop=scikit-learn; the protocol is then "
                      "named for it. Repeatable."),
)  # fmt: skip
_PARTS = (
    click.option("--subsets", "n_subsets", type=click.IntRange(1, 1000), default=3, show_default=True,
                 help="Draws of the held-out subset of the decomposition."),
    click.option("--order", type=click.Choice(["standard", "alternative"]), default="standard", show_default=True,
                 help="Of the decomposition: Eq. 1, or Eq. 5."),
    click.option("--refit", "n_refits", metavar="N", type=click.IntRange(5, 10_000),
                 help="Train all probes of the decomposition again on N resamples of the images, for intervals that "
                      "hold what other training images would do to them; 20 take 20 times as long."),
)  # fmt: skip
PART_NAMES = ("n_subsets", "order", "n_refits")


def setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which label settings, passed on by name."""
    return _with(command, _SETTINGS)


def probe_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """How probes are trained, passed on by name."""
    return _with(command, _PROBES)


def part_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """How the full-shot error is decomposed, passed on by name."""
    return _with(command, _PARTS)


def refuse_idle_probes(options: dict[str, Any]) -> None:
    """Refuses options of probes that do nothing beside the others.

    Raises
    ------
    QueryError
        Names them.
    """
    if options.get("order") == "alternative":
        refuse_idle(("n_subsets",), "the alternative decomposition holds out no subset")
    if "settings" not in options:
        refuse_idle(("n_seeds",), "a decomposition has all labels, which are there once; see --subsets")
    elif options["settings"] is not None and all(_is_full(name) for name in options["settings"].split(",")):
        refuse_idle(("n_seeds",), "all labels are there once, and no setting with fewer is asked for")


def refuse_idle_source(*, record: bool) -> None:
    """Refuses to be told who measured what is not recorded.

    Raises
    ------
    QueryError
    """
    if not record:
        refuse_idle(("source",), "with --no-record nothing is recorded")


def _is_full(name: str) -> bool:
    from ..evaluation.settings import label_setting

    return label_setting(name).is_full


def _with(command: Callable[..., Any], options: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


def request_of(options: dict[str, Any], *, decompose: bool, supervised: Any = None) -> Request:
    """What is to be measured.

    Raises
    ------
    QueryError
        If a label setting makes no sense.
    """
    from ..evaluation.evaluating import Request
    from ..evaluation.settings import label_setting

    given = options.get("settings")
    names = None if given is None else tuple(label_setting(name).name for name in given.split(","))
    return Request(
        settings=names,
        n_seeds=options["n_seeds"],
        n_subsets=options.get("n_subsets", 3),
        seed=options["seed"],
        probe=options["probe"],
        changed=settings_of(options["changed"]),
        neighbours=options.get("neighbours", False),
        decompose=decompose,
        order=options.get("order", "standard"),
        n_refits=options.get("n_refits") or 0,
        supervised=supervised,
        device=options.get("device"),
    )


def settings_of(given: Sequence[str], *, form: str = "NAME=VALUE") -> dict[str, Any]:
    """Settings from NAME=VALUE. Values are read as JSON has them where they are JSON, else as text."""
    found: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name or name in found:
            raise QueryError(f"Got --set {text!r}, expected {form}, each name once.")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def say(text: str) -> None:
    """A line on a terminal about what is being done; nothing in a pipe."""
    if sys.stderr.isatty():
        click.echo(click.style(text, dim=True), err=True)
