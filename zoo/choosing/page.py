"""A choice as one HTML page that stands alone: the answer, figures, every encoder, and what it was made of.

No script and nothing from elsewhere: figures are SVG in the ink of the page, one for a desk and one for a phone, light
and dark as the reader has it. All text is escaped by jinja2, or by matplotlib inside of figures.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A figure of the page, in two widths."""

    title: str
    caption: str
    alt: str  # what it shows, for those who cannot see it
    draw: Callable[[float], Drawing]  # of a width in inches


def write_page(choice: Choice, path: str | os.PathLike[str]) -> Path:
    """Writes the page of a choice, whole or not at all; an earlier file of that name is replaced.

    Parameters
    ----------
    choice : Choice
    path : path
        The file, ``.html`` or ``.htm``.

    Returns
    -------
    Path

    Raises
    ------
    QueryError
        If the name does not end so.
    StoreError
        If nothing can be written there.
    MissingExtra
        Without matplotlib and jinja2.
    """
    target = require_page(path)
    content = html_page(choice)
    try:
        with replaced(target) as file:
            file.write(content.encode())
    except OSError as error:
        raise StoreError(
            f"The page cannot be written to {target} ({error.strerror or error}); nothing was changed there."
        ) from error
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
    for number, one in enumerate(page_figures(choice)):
        svg = {
            name: Markup(figures.as_svg(one.draw, width, name=f"{name}{number}"))
            for name, width in (("wide", _WIDE), ("narrow", _NARROW))
        }
        drawn.append({"title": one.title, "caption": one.caption, "alt": one.alt, **svg})
    headers = _headers()
    return template.render(
        title=wording.title_of(choice),
        answer=wording.answer(choice),
        in_python=["import zoo", choice.commands["load"]],
        in_shell=[choice.commands["evaluate"]],
        figures=drawn,
        headers=headers,
        numbers=[headers[place] for place in wording.NUMBERS],
        rows=[{"kind": _kind(row.verdict), "cells": row.cells} for row in wording.ranked_rows(choice)],
        notes=wording.reading(choice),
        dropped=wording.dropped(choice),
        tried=[(one.name, one.why) for one in choice.plan.encoders],
        left_out=[(reason, f"{len(names):,}") for reason, names in choice.plan.left_out.items() if names],
        provenance=[*_provenance(choice)],
    )


def _headers() -> list[str]:
    """The headers of the table, the second interval told from the first."""
    headers = list(wording.HEADERS)
    headers[5] = "interval behind"
    return headers


def _kind(verdict: str) -> str:
    return verdict if verdict in ("leader", "tie") else "out"


def page_figures(choice: Choice) -> Iterator[PageFigure]:
    """The figures that there is something to draw of."""
    ranked = [one for one in choice.race.standings if one.error is not None]
    bars = [
        figures.Bar(name=one.name, error=one.error, verdict=one.verdict, is_final=one.status == "probed")
        for one in ranked
        if one.error is not None
    ]
    told = "; ".join(f"{one.name} {one.error.value:.1f} %, {one.verdict}" for one in bars)
    yield PageFigure(
        title="The ranking",
        caption="Errors with 95 % intervals over test images. Filled: probed with the others that ended the race; "
        "hollow: dropped before, on fewer images, where errors are higher for that alone.",
        alt=f"Errors, best first: {told}.",
        draw=partial(figures.ranking, bars),
    )
    yield from _against_costs(choice, bars)
    if choice.curves:
        yield PageFigure(
            title="What more labels would buy",
            caption="Errors of probes on parts of the labels; dashed and hollow: expected with more, by a power law "
            "with a floor. Bars: 95 % intervals.",
            alt=wording.more_labels(choice.curves[0]),
            draw=partial(figures.label_curve, choice.curves),
        )
    if len(choice.race.rungs) > 1:
        yield _rungs(choice)
    if choice.risk is not None:
        parts = {
            words: choice.risk.intervals[name].value for name, words in _PARTS.items() if name in choice.risk.intervals
        }
        if "approximation + usability" in parts and "usability" in parts:
            parts.pop("approximation + usability")
        said = ", ".join(f"{name} {value:.2f}" for name, value in parts.items())
        yield PageFigure(
            title=f"Where the error of {choice.risk.encoder} comes from",
            caption="Parts of the error with all labels, in points; they are signed and add up to it. "
            + (choice.risk.warning or choice.risk.assumption),
            alt=f"Parts of the error in percentage points: {said}.",
            draw=partial(figures.decomposition, parts),
        )


def _against_costs(choice: Choice, bars: list[figures.Bar]) -> Iterator[PageFigure]:
    cards = catalogue()
    speeds = {one.name: one.images_per_second for one in choice.costs}
    sizes = {bar.name: float(cards[bar.name].architecture.n_parameters) for bar in bars}
    for title, costs, label, more_is_better in (
        ("Error against speed", speeds, f"images a second on {choice.plan.device}", True),
        ("Error against size", sizes, "parameters", False),
    ):
        points = [
            figures.Point(name=bar.name, error=bar.error, cost=cost, verdict=bar.verdict)
            for bar in bars
            if (cost := costs.get(bar.name))
        ]
        if len(points) < 2:
            continue
        front = figures.pareto([(one.cost, one.error.value) for one in points], more_is_better=more_is_better)
        named = ", ".join(points[place].name for place in sorted(front, key=lambda place: points[place].cost))
        yield PageFigure(
            title=title,
            caption="Dashed: the front of those that no other encoder beats in both (round); the others are square.",
            alt=f"On the front of error and {label}: {named}.",
            draw=partial(figures.against_cost, points, label=label, more_is_better=more_is_better),
        )


def _rungs(choice: Choice) -> PageFigure:
    steps = choice.race.rungs
    names = [one.name for one in choice.race.standings]
    told = "; ".join(
        f"with {rung.n_train:,} labels {len(rung.errors)} encoders, {len(rung.dropped)} dropped" for rung in steps
    )
    return PageFigure(
        title="The race",
        caption="Errors at each step, by a cheap score until all labels are there and by a tuned probe then. A cross "
        "is where an encoder was dropped.",
        alt=f"Steps of the race: {told}.",
        draw=partial(
            figures.rungs,
            [rung.n_train for rung in steps],
            {name: [rung.errors.get(name) for rung in steps] for name in names},
            {one.name: one.verdict for one in choice.race.standings},
        ),
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
