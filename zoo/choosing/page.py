"""A choice as one HTML file without scripts or external resources: the answer, figures, every encoder, provenance.

Figures are SVG for wide and narrow screens, light and dark. Text is escaped by jinja2, or by matplotlib in figures.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cards.catalogue import catalogue
from ..errors import QueryError, StoreError
from ..files import replaced
from ..optional import requires_extra
from ..version import __version__
from . import figures, wording

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from .choosing import Choice

_WIDE, _NARROW = 8.8, 3.7  # inches
_PARTS = {
    "approximation": "approximation",
    "usability": "usability",
    "approximation_plus_usability": "approximation + usability",
    "probe_generalization": "probe generalization",
    "encoder_generalization": "encoder generalization",
}


_Figure = tuple[str, str, str, Callable[[float], "Drawing"]]
"""Title, caption, what it shows for those who cannot see it, and how it is drawn of a width in inches."""


def write_page(choice: Choice, path: str | os.PathLike[str]) -> Path:
    """Writes the page of a choice, whole or not at all; an earlier file of that name is replaced.

    QueryError if the name does not end in ``.html`` or ``.htm``, StoreError if nothing can be written there,
    MissingExtra without matplotlib and jinja2.
    """
    target = require_page(path)
    content = html_page(choice).encode()
    try:
        with replaced(target) as file:
            file.write(content)
    except OSError as error:
        raise StoreError(f"The page cannot be written to {target} ({error.strerror or error}).") from error
    return target


def require_page(path: str | os.PathLike[str]) -> Path:
    """The path of a page, before any work; QueryError or StoreError if none can be written there."""
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise QueryError(f"Got the page {str(target)!r}, expected a name that ends in .html.")
    if target.is_dir() or not target.parent.is_dir() or not os.access(target.parent, os.W_OK | os.X_OK):
        raise StoreError(f"No page can be written to {target}; name a file in a folder that is there and writable.")
    return target


def html_page(choice: Choice) -> str:
    """The page as text."""
    with requires_extra("study", needed_for="A page"):
        import jinja2
        from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(files(__package__).joinpath("page.html.jinja").read_text(encoding="utf-8"))
    drawn = []
    for number, (title, caption, alt, draw) in enumerate(_figures(choice)):
        svg = {
            name: Markup(figures.as_svg(draw, width, name=f"{name}{number}"))
            for name, width in (("wide", _WIDE), ("narrow", _NARROW))
        }
        drawn.append({"title": title, "caption": caption, "alt": alt, **svg})
    headers = list(wording.HEADERS)
    headers[5] = "interval behind"  # the second interval of the table
    kinds = {"best": "leader", "tie": "tie"}
    return template.render(
        title=wording.title_of(choice),
        answer=wording.answer(choice),
        in_python=["import zoo", choice.commands["load"]],
        in_shell=[choice.commands["evaluate"]],
        figures=drawn,
        headers=headers,
        numbers=[headers[place] for place in wording.NUMBERS],
        rows=[{"kind": kinds.get(row[6], "out"), "cells": row} for row in wording.ranked_rows(choice)],
        notes=wording.reading(choice),
        dropped=wording.dropped(choice),
        tried=[(one.name, one.why) for one in choice.plan.encoders],
        left_out=[(reason, f"{len(names):,}") for reason, names in choice.plan.left_out.items() if names],
        provenance=[*_provenance(choice)],
    )


def _figures(choice: Choice) -> Iterator[_Figure]:
    """The figures that there is something to draw of."""
    risk = choice.risk
    bars = [
        figures.Bar(name=one.name, error=one.error, verdict=one.verdict, is_final=one.status == "probed")
        for one in choice.race.standings
        if one.error is not None
    ]
    told = "; ".join(f"{one.name} {one.error.value:.1f} %, {one.verdict}" for one in bars)
    yield (
        "The ranking",
        "Errors with 95 % intervals over test images. Filled: probed with the others that ended the race; hollow: "
        "dropped before, on fewer images, where errors are higher for that alone.",
        f"Errors, best first: {told}.",
        partial(figures.ranking, bars),
    )
    yield from _against_costs(choice, bars)
    if choice.curves:
        yield (
            "Errors with more labels",
            "Errors of probes on parts of the labels; dashed and hollow: expected with more, by a power law with a "
            "floor. Bars: 95 % intervals.",
            wording.more_labels(choice.curves[0]),
            partial(figures.label_curve, choice.curves),
        )
    if risk is not None:
        parts = {words: risk.intervals[name].value for name, words in _PARTS.items() if name in risk.intervals}
        if "usability" in parts:
            parts.pop("approximation + usability", None)
        told = ", ".join(f"{name} {value:.2f}" for name, value in parts.items())
        yield (
            f"Components of the error of {risk.encoder}",
            "Components of the error with all labels, in points; they are signed and add up to it. "
            + (risk.warning or risk.assumption),
            f"Components of the error in percentage points: {told}.",
            partial(figures.decomposition, parts),
        )


def _against_costs(choice: Choice, bars: list[figures.Bar]) -> Iterator[_Figure]:
    cards = catalogue()
    speeds = {one.name: one.images_per_second for one in choice.costs}
    sizes = {bar.name: float(cards[bar.name].architecture.n_parameters) for bar in bars}
    for title, costs, label, more_is_better in (
        ("Error against speed", speeds, f"images a second on {choice.plan.device}", True),
        ("Error against size", sizes, "parameters", False),
    ):
        known = [(cost, bar) for bar in bars if (cost := costs.get(bar.name))]
        if len(known) < 2:
            continue
        front = figures.pareto([(cost, bar.error.value) for cost, bar in known], more_is_better=more_is_better)
        named = ", ".join(known[i][1].name for i in sorted(front, key=lambda i: known[i][0]))
        some, values = [bar for _, bar in known], [cost for cost, _ in known]
        yield (
            title,
            "Dashed: the Pareto front (round); the others are square.",
            f"On the front of error and {label}: {named}.",
            partial(figures.against_cost, some, values, label=label, more_is_better=more_is_better),
        )


def _provenance(choice: Choice) -> Iterator[tuple[str, Any]]:
    data, plan = choice.data, choice.plan
    yield "Made by", f"SSL Zoo {__version__}, {datetime.datetime.now(tz=datetime.UTC).date().isoformat()}"
    yield "Images", f"{data.spelled}; fingerprints {data.fingerprints[0]} and {data.fingerprints[1]}"
    few, many = data.labels_a_class
    a_class = f"{few:,}" if few == many else f"{few:,} to {many:,}"
    yield "Labels", f"{data.n_train:,} training images, {a_class} a class; {data.n_test:,} test images"
    if data.n_groups is not None:
        yield "Groups", f"{data.n_groups[0]:,} of training and {data.n_groups[1]:,} of test images"
    yield "Device", plan.device
    yield "Seed", str(plan.plan.seed)
    yield "Judges", f"{plan.plan.score} before all labels, then the probe zoo-logistic-2"
    yield "Cost", f"{choice.race.share:.0%} of measuring everything; {wording.duration(choice.seconds)} by the clock"
