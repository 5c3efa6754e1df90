"""A choice in words and as a page: the answer in sentences, tables, and one HTML file with figures.

The page has no scripts or external resources. Its figures are SVG for wide and narrow screens, light and dark; text is
escaped by jinja2, or by matplotlib in figures.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cards.answers import AnswerColumn, AnswerTable, make_interval_columns, render_html_table
from ..cards.catalogue import load_catalogue
from ..cards.licences import shorten_licence
from ..errors import format_count, format_range
from ..looking import pages
from ..optional import require_extra
from ..version import __version__
from . import figures
from .constraints import format_memory, join_names
from .ranking import list_card_columns

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from ..datasets import ImageData
    from ..evaluation.bootstrap import Interval
    from .choosing import Choice, ChoicePlan
    from .comparing import LabelCurve
    from .successive_halving import CandidateState

_SHOWN = 0.05  # points of optimism that a decimal shows
_VERDICTS = {"leader": "best", "not told apart": "dropped"}  # as tables call them
_MARKS = {"leader": "leader", "tie": "tie"}  # classes of rows on a page


def _loss_of(choice: Choice) -> str:
    """What encoders are ranked by."""
    return (
        "unexplained variance" if choice.data.target else "share of wrong pixels" if choice.data.has_masks else "error"
    )


def build_ranked_table(choice: Choice) -> AnswerTable:
    """Every encoder of the race, best first, and the answer in sentences."""
    costs, standings = {one.name: one for one in choice.costs}, choice.race.standings
    n_first = sum(one.verdict in ("leader", "tie") for one in standings)
    ranks = [
        f"1-{n_first}" if one.verdict in ("leader", "tie") and n_first > 1 else str(place) if one.error else ""
        for place, one in enumerate(standings, start=1)
    ]

    def cost(name: str) -> list[Any]:
        return [getattr(costs.get(one.name), name, None) for one in standings]

    parameters, _, licence = list_card_columns(load_catalogue()[one.name] for one in standings)
    loss = "unexplained %" if choice.data.target else "pixels wrong %" if choice.data.has_masks else "error %"
    columns = [
        AnswerColumn("rank", ranks, has_numbers=True),
        AnswerColumn("encoder", [one.name for one in standings], key="encoder", role="name"),
        *make_interval_columns([one.error for one in standings], loss),
        *make_interval_columns(
            [None if one.verdict == "leader" else one.behind for one in standings], "behind", key="behind_points"
        ),
        AnswerColumn(
            "verdict",
            [one.verdict for one in standings],
            form=lambda verdict: _VERDICTS.get(verdict, verdict),
            key="verdict",
            role="verdict",
        ),
        AnswerColumn(None, [one.n_train for one in standings], key="n_train"),
        AnswerColumn(None, [one.n_test for one in standings], key="n_test"),
        AnswerColumn("images/s", cost("images_per_second"), form=format_rate, key="images_per_second", spare=2),
        AnswerColumn("memory", cost("memory_bytes"), form=format_memory, key="memory_bytes", spare=5),
        AnswerColumn("features", cost("feature_bytes"), form=format_memory, key="feature_bytes", spare=6),
        parameters,
        replace(licence, form=shorten_licence),
    ]
    return AnswerTable(title=describe_choice(choice), columns=columns, answer=answer(choice))


def format_error(error: Interval) -> str:
    """An error with its interval.

    >>> from ..evaluation.bootstrap import Interval
    >>> format_error(Interval(value=4.25, ci_low=3.5, ci_high=5.0))
    '4.2 % (3.5 to 5.0)'
    """
    return f"{error.value:.1f} %{_ends(error, ' ({:.1f} to {:.1f})')}"


def _ends(error: Interval, form: str) -> str:
    return "" if error.ci_low is None or error.ci_high is None else form.format(error.ci_low, error.ci_high)


# --- the answer ------------------------------------------------------------------------------------------------------


def describe_choice(choice: Choice) -> str:
    """What was chosen for."""
    data = choice.data
    labels = f"numbers ({data.target})" if data.target else format_count(len(data.classes), "class", "classes")
    labels = f"masks of {labels}" if data.has_masks else labels
    return (
        f"Encoders for {data.name}: {data.n_train:,} training and {format_count(data.n_test, 'test image')}, {labels}"
    )


def answer(choice: Choice) -> list[str]:
    """The best encoder, ties, and the expected error with more labels, in sentences."""
    leader = choice.race.leader
    assert leader.error is not None
    labels, corrected = format_count(leader.n_train, "label"), _corrected(choice.race.optimism)
    lines = [
        f"{leader.name} has the lowest error: {format_error(leader.error)} of {leader.n_test:,} test images, with "
        f"{labels}{corrected}."
    ]
    if choice.data.target:
        lines = [
            f"{leader.name} leaves the least of the variance of {choice.data.target!r} unexplained: "
            f"{format_error(leader.error)} on {leader.n_test:,} test images, with {labels} (R2 "
            f"{1 - leader.error.value / 100:.2f}{corrected})."
        ]
    elif choice.data.has_masks:
        lines = [
            f"{leader.name} names the fewest pixels wrongly: {format_error(leader.error)}, the mean of "
            f"{leader.n_test:,} test images, with {format_count(leader.n_train, 'mask')}{corrected}."
        ]
    ties = [one for one in choice.race.standings if one.verdict == "tie"]
    if ties:
        reach = max((one.behind.ci_high for one in ties if one.behind and one.behind.ci_high is not None), default=0.0)
        lines.append(
            f"Statistically tied with it: {join_names([one.name for one in ties])} (up to {reach:.1f} points worse)."
        )
        tolerance = choice.plan.plan.tolerance
        near = [one for one in ties if one.behind is not None and one.behind.value <= tolerance]
        cheaper = _cheapest(choice, [leader, *near])
        if cheaper is not None and cheaper != leader.name:
            lines.append(f"The fastest within {tolerance:g} points of it is {cheaper}.")
    unknown = [one.name for one in choice.race.standings if one.verdict == "not told apart"]
    if unknown:
        lines.append(f"Dropped for the budget, not shown to be worse: {join_names(unknown)}.")
    if not ties and not unknown and len(choice.race.standings) > 1:
        lines.append("It is significantly better than every other encoder of the race.")
    if choice.curves:
        lines.append(describe_more_labels(choice.curves[0], choice.race.optimism, _loss_of(choice)))
    return lines


def _corrected(optimism: float | None) -> str:
    is_shown = optimism is not None and optimism >= _SHOWN
    return f", corrected by +{optimism:.1f} points for having been chosen" if is_shown else ""


def format_rate(rate: float) -> str:
    """Images per second, in three digits or whole ones.

    >>> format_rate(0.07321), format_rate(17.06), format_rate(1187.4)
    ('0.0732', '17.1', '1,187')
    """
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def describe_more_labels(curve: LabelCurve, optimism: float | None = None, what: str = "error") -> str:
    """The expected error with more labels, in a sentence; of the winner, whose errors are raised by the optimism."""
    if not curve.expected:
        return f"More labels: no prediction for {curve.encoder}; {curve.refusal.replace('the error', f'the {what}')}."
    said, now = [], curve.points[-1].error.moved(optimism or 0.0).value
    for point in curve.expected:
        gain, then = point.gain, point.error.moved(optimism or 0.0)
        less = round(now, 1) - round(then.value, 1)  # as the two are shown
        words = "" if gain is None else f", {less:.1f} points{_ends(gain, ' ({:.1f} to {:.1f})')} less than now"
        said.append(f"{format_error(then)} with {format_count(point.n_labels, 'label')}{words}")
    return f"More labels: expected {what} of {curve.encoder} {'; '.join(said)}."


def _cheapest(choice: Choice, among: Sequence[CandidateState]) -> str | None:
    speeds = {one.name: one.images_per_second for one in choice.costs if one.images_per_second is not None}
    known = {one.name: speeds[one.name] for one in among if one.name in speeds}
    return max(known, key=known.__getitem__) if len(known) == len(among) else None


def describe_dropped(choice: Choice) -> list[str]:
    """Why others left the race, a line each."""
    return [
        f"{one.name}: {one.reason} (after {one.n_train:,} training and {format_count(one.n_test, 'test image')})"
        if one.error is not None
        else f"{one.name}: {one.reason}"
        for one in choice.race.standings
        if one.reason
    ]


def explain_numbers(choice: Choice) -> list[str]:
    """How to read the numbers."""
    race = choice.race
    what = (
        "error: percent of the test images, lower is better; a tuned linear probe, or a cheap score for encoders that "
        "were dropped before all labels; 95 % confidence intervals over test images"
    )
    if target := choice.data.target:
        what = (
            f"unexplained: percent of the variance of {target!r} in the test images, 100 (1 - R2), lower is better; "
            "ridge regression; 95 % confidence intervals over test images, given that variance"
        )
    if choice.data.has_masks:
        what = (
            "pixels wrong: percent of the valid pixels of an image, the mean over test images, lower is better; the "
            "probe of zoo segment, or a coarser one for encoders that were dropped before all masks; 95 % confidence "
            "intervals over test images. Images are resized whole to squares"
        )
    lines = [
        what,
        "behind: points behind the best on the same images, simultaneous 95 % intervals; tie: the interval contains 0",
    ]
    if race.optimism is not None and race.optimism >= _SHOWN:
        lines.append(
            f"the best's {_loss_of(choice)} and interval are corrected by +{race.optimism:.1f} points for having been "
            "chosen, as the lowest of several is too low; others, and points behind, are as measured"
        )
    lines.append(
        f"images/s and memory: on {choice.plan.device}, decoding included; features: of all images as "
        f"{'float16' if choice.data.has_masks else 'float32'}. Memory "
        "is computed from the network where it was not measured"
    )
    lines.append(f"cost: {race.share:.0%} of measuring all of them on all images")
    return [*lines, *choice.plan.data.notes, *choice.notes]


# --- a plan ----------------------------------------------------------------------------------------------------------


def build_plan_table(plan: ChoicePlan) -> AnswerTable:
    """Every encoder of a plan, and what the plan costs in sentences."""
    some = plan.encoders
    fetched = [
        one.here if one.fetch_bytes is None else f"{'' if one.fetch_is_exact else '~'}{format_memory(one.fetch_bytes)}"
        for one in some
    ]
    rates = [1 / one.seconds_per_image if one.seconds_per_image else None for one in some]
    parameters, _, licence = list_card_columns(load_catalogue()[one.name] for one in some)
    columns = [
        AnswerColumn("encoder", [one.name for one in some]),
        AnswerColumn("expected", [one.expected_error for one in some], form="{:.1f}".format),
        AnswerColumn("to fetch", fetched, has_numbers=True),
        AnswerColumn("images/s", rates, form=format_rate),
        AnswerColumn("memory", [one.memory_bytes for one in some], form=format_memory),
        parameters,
        replace(licence, form=shorten_licence),
    ]
    data = plan.data
    title = f"Plan for {data.name}: {data.n_train:,} training and {format_count(data.n_test, 'test image')}"
    about = f", {format_count(len(data.classes), 'class', 'classes')}"
    return AnswerTable(title=title + about, columns=columns, answer=describe_plan(plan))


def describe_plan(plan: ChoicePlan) -> list[str]:
    """What a plan costs, in sentences."""
    to_fetch = [one for one in plan.encoders if one.fetch_bytes is not None]
    about = "" if all(one.fetch_is_exact for one in to_fetch) else "about "
    lines = [
        f"To fetch: {about}{format_memory(plan.fetch_bytes)} for {len(to_fetch)} of {len(plan.encoders)} encoders."
        if to_fetch
        else "To fetch: nothing, the weights are on this machine."
    ]
    if plan.seconds is not None and plan.full_seconds is not None:
        lines.append(
            f"Time: about {format_duration(plan.seconds)} of computing features on {plan.device} (all images: "
            f"{format_duration(plan.full_seconds)})."
        )
    else:
        lines.append(f"Time: not known before the encoders have run on {plan.device}.")
    if plan.time_s is not None:
        lines.append(f"Time limit: {format_duration(plan.time_s)}.")
    steps = ", ".join(f"{train:,} + {test:,}" for train, test in plan.sizes)
    lines.append(f"Rungs of the race, training + test images: {steps}.")
    return lines


def format_duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> [format_duration(n) for n in (0.4, 42, 200, 5_000, 90_000)]
    ['1 second', '42 seconds', '3 minutes', '1.4 hours', '25 hours']
    """
    if seconds < 1.5:
        return "1 second"
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    if seconds < 5_400 / 1.2:
        return f"{seconds / 60:.0f} minutes"
    hours = seconds / 3600
    return f"{hours:.1f} hours" if hours < 10 else f"{hours:.0f} hours"


def describe_left_out(left_out: Mapping[str, Sequence[str]]) -> list[str]:
    """How many encoders were left out, by reason."""
    return [f"{len(names):,} left out: {reason}" for reason, names in left_out.items() if names]


# --- the page ---------------------------------------------------------------------------------------------------------


_Figure = tuple[str, str, str, Callable[[float], "Drawing"]]
"""Title, caption, what it shows for those who cannot see it, and how it is drawn of a width in inches."""


def write_page(choice: Choice, path: str | os.PathLike[str], *, images: ImageData | None = None) -> Path:
    """Writes the page of a choice, whole or not at all; an earlier file of that name is replaced.

    ``images`` are shown where the mistakes of the winner are known; without them their names are.

    QueryError if the name does not end in ``.html`` or ``.htm``, StoreError if nothing can be written there,
    MissingExtra without matplotlib and jinja2.
    """
    target = pages.require_page(path)
    return pages.write_page(render_choice_page(choice, images), target)


def render_choice_page(choice: Choice, images: ImageData | None = None) -> str:
    """The page as text."""
    with require_extra("study", needed_for="A page"):
        from markupsafe import Markup

    drawn = [
        pages.render_figure(draw, title=title, caption=caption, alt=alt, name=str(number))
        for number, (title, caption, alt, draw) in enumerate(_figures(choice))
    ]
    sections: list[dict[str, Any]] = []
    if choice.mistakes is not None:
        from ..looking.mistakes_page import build_mistake_sections

        sections = build_mistake_sections(
            choice.mistakes, None if images is None else {"train": images.train, "val": images.val}
        )
    table, marks = build_ranked_table(choice), [_MARKS.get(one.verdict, "out") for one in choice.race.standings]
    return pages.render_template(
        "choosing/page.html.jinja",
        title=table.title,
        answer=table.answer,
        in_python=["import zoo", choice.commands["load"]],
        in_shell=[choice.commands["evaluate"]],
        figures=drawn,
        sections=sections,
        winner=choice.winner,
        table=Markup(render_html_table(table, kind="cards", marks=marks)),
        notes=explain_numbers(choice),
        dropped=describe_dropped(choice),
        tried=[(one.name, one.why) for one in choice.plan.encoders],
        left_out=[(reason, f"{len(names):,}") for reason, names in choice.plan.left_out.items() if names],
        provenance=[*_provenance(choice)],
    )


def _figures(choice: Choice) -> Iterator[_Figure]:
    """The figures that there is something to draw of."""
    risk, what = choice.risk, _loss_of(choice)
    bars = figures.list_race_bars(choice.race.standings)
    told = "; ".join(f"{one.name} {one.error.value:.1f} %, {one.verdict}" for one in bars)
    yield (
        "The ranking",
        f"The {what} with 95 % intervals over test images. Filled: probed with the others that ended the race; hollow: "
        "dropped before, on fewer images, where it is higher for that alone.",
        f"The {what}, best first: {told}.",
        partial(figures.draw_ranking, bars, what=what),
    )
    yield from _against_costs(choice, bars)
    if choice.curves:
        yield (
            f"The {what} with more labels",
            "Probes on parts of the labels; dashed and hollow: expected with more, by a power law with a "
            "floor. Bars: 95 % intervals.",
            describe_more_labels(choice.curves[0], choice.race.optimism, what),
            partial(figures.draw_label_curve, choice.curves, what=what),
        )
    if risk is not None:
        (table,) = risk.build_tables(has_sum=False)
        parts = dict(zip(table.shown[0].cells, table.shown[1].values, strict=True))
        del parts["full-shot error"]
        told = ", ".join(f"{name} {value:.2f}" for name, value in parts.items())
        yield (
            f"Components of the error of {risk.encoder}",
            "Components of the error with all labels, in points; they are signed and add up to it. "
            + (risk.warning or risk.assumption),
            f"Components of the error in percentage points: {told}.",
            partial(figures.draw_error_parts, parts),
        )


def _against_costs(choice: Choice, bars: list[figures.ErrorBar]) -> Iterator[_Figure]:
    cards, what = load_catalogue(), _loss_of(choice)
    speeds = {one.name: one.images_per_second for one in choice.costs}
    sizes = {bar.name: float(cards[bar.name].architecture.n_parameters) for bar in bars}
    for title, costs, label, more_is_better in (
        ("Against speed", speeds, f"images per second on {choice.plan.device}", True),
        ("Against size", sizes, "parameters", False),
    ):
        known = [(cost, bar) for bar in bars if (cost := costs.get(bar.name))]
        if len(known) < 2:
            continue
        front = figures.find_pareto_points(
            [(cost, bar.error.value) for cost, bar in known], more_is_better=more_is_better
        )
        without = [bar.name for bar in bars if not costs.get(bar.name)]
        cached = without and f" Not drawn: {join_names(without)}; features were there, so that no speed was measured."
        on_front = ", ".join(known[i][1].name for i in sorted(front, key=lambda i: known[i][0]))
        some, values = [bar for _, bar in known], [cost for cost, _ in known]
        yield (
            title,
            f"Dashed: the Pareto front (round); the others are square.{cached or ''}",
            f"On the front of {what} and {label}: {on_front}.",
            partial(figures.draw_against_cost, some, values, label=label, more_is_better=more_is_better, what=what),
        )


def _provenance(choice: Choice) -> Iterator[tuple[str, Any]]:
    data, plan = choice.data, choice.plan
    yield "Made by", f"SSL Zoo {__version__}, {datetime.datetime.now(tz=datetime.UTC).date().isoformat()}"
    yield "Images", f"{data.spelled}; fingerprints {data.fingerprints[0]} and {data.fingerprints[1]}"
    few, many = data.labels_a_class
    each = f"numbers ({data.target})" if data.target else f"{format_range(f'{few:,}', f'{many:,}')} per class"
    each = f"masks of {format_count(len(data.classes), 'class', 'classes')}" if data.has_masks else each
    yield "Labels", f"{format_count(data.n_train, 'training image')}, {each}; {format_count(data.n_test, 'test image')}"
    if data.n_groups is not None:
        yield "Groups", f"{data.n_groups[0]:,} of training and {data.n_groups[1]:,} of test images"
    yield "Device", plan.device
    yield "Seed", str(plan.plan.seed)
    yield "Judges", f"{plan.plan.score} before all labels, then the probe {plan.protocol}"
    yield "Cost", f"{choice.race.share:.0%} of measuring everything; {format_duration(choice.seconds)} by the clock"
