"""The page of choices: encoders ranked for a number of labels, and their fronts against size and feature dimension.

Ranks are those of :mod:`zoo.choosing.budget_ranking`, drawn here for :data:`START` labels and for each setting that was
measured. For the slider, Python computes every candidate's error and its noise at each of :data:`STEPS`; the script
filters candidates and repeats the last part alone, the draws of :func:`zoo.analysis.label_budget.rank_odds`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from ..analysis.label_budget import LEVEL, N_CLASSES, HeldOutError, Noise, held_out_error
from ..cards.licences import LICENCE_WORDS
from ..cards.schema import Missing, fact_text
from ..choosing.budget_ranking import (
    EXTRAPOLATION,
    NO_CANDIDATES,
    ONE_IS_FIRST,
    SETTING_OF,
    TIES,
    Answer,
    Candidate,
    Measured,
    Ranked,
    answered,
    candidates,
    first_networks,
    how_sure,
    is_right,
    is_worse,
    measured_encoders,
    noises,
    origin_words,
    usual_prediction,
    weights_of,
)
from ..choosing.constraints import ACCESS_WORDS, NOT_GONE, Constraints, Filter, filters
from ..choosing.figures import pareto
from ..results.facts import points, short_number
from ..results.values import SETTINGS
from .contents import Contents
from .drawing import Axis, Point, scatter
from .rendering import File, Renderer, encoder_page

if TYPE_CHECKING:
    from markupsafe import Markup

STEPS = (
    1_000, 1_500, 2_000, 2_500, 3_000, 4_000, 5_000, 7_000, 10_000, 12_811, 20_000, 30_000, 40_000, 50_000, 70_000,
    100_000, 150_000, 200_000, 300_000, 400_000, 500_000, 700_000, 1_000_000, 1_281_167,
)  # fmt: skip
"""Labels of ImageNet at which the slider stops, from one a class to all; the measured settings are among them."""
START = 12_811
"""Labels with which the page begins: measured, and a usual number."""
FRONT_GROUPS = ("on the front", "not beaten beyond a tie", "beaten")
_LISTED = 50  # encoders of a table of one setting
_N_NEXT = 3  # encoders that the next command measures
_FIELDS = (
    "id", "file", "parameters", "dim", "licence", "licensed", "may", "gone", "wrong", "doubted", "mine", "sets",
    "network",
)  # fmt: skip
_COLUMNS = (
    "rank_low", "rank_high", "id", "error", "interval_low", "interval_high", "best", "tie", "kind", "parameters", "dim",
    "licence",
)  # fmt: skip
_KINDS = {"measured": "m", "interpolated": "i", "extrapolated": "e"}
_LICENCES = {
    "any": "any",
    "permissive": "permissive: MIT, Apache-2.0 or BSD, of code and weights",
    "commercial": "commercial use allowed",
    "conditions": "commercial use allowed, also on conditions",
}
_SIZES = (
    ("parameters", "parameters", lambda one: one.candidate.card.architecture.n_parameters),
    ("dim", "feature dimension", lambda one: one.candidate.card.representation.dim),
)  # fmt: skip


def files(contents: Contents, renderer: Renderer) -> Iterator[File]:
    """The page, and the data of its script."""
    zoo = _Zoo(contents)
    unmeasured = [
        entry
        for entry in contents.entries.values()
        if entry.summary is None and entry.card.objective.mode not in NO_CANDIDATES
    ]
    common: dict[str, Any] = {
        "title": "Choose an encoder for your number of labels",
        "kind": "choose",
        "n_unmeasured": len(unmeasured),
        "n_reported": sum(bool(entry.reported) for entry in unmeasured),
    }
    answers = {n: zoo.answered(n) for n in (START, *(setting.n_labels for setting in SETTINGS))}
    start = answers[START]
    if not start.ranked:
        yield renderer.page("choose.html.jinja", "choose.html", answer=None, why=start.why_nobody, **common)
        return
    budget, sets = zoo.budget()
    yield renderer.page(
        "choose.html.jinja",
        "choose.html",
        scripts=[renderer.data("budget.js", "BUDGET", budget)],
        answer=start,
        rows=_rows(start, contents),
        words=how_sure(start),
        left_out=[(len(names), reason) for reason, names in start.left_out.items()],
        figures=[(name, words, *_figure(start, contents, words, size)) for name, words, size in _SIZES],
        settings=[
            (setting.name, answers[setting.n_labels], _rows(answers[setting.n_labels], contents)[:_LISTED])
            for setting in SETTINGS
        ],
        steps=STEPS,
        start=STEPS.index(START),
        measured_steps=[STEPS.index(setting.n_labels) for setting in reversed(SETTINGS)],
        label=labels_in_words(START),
        licences=[(word, _LICENCES.get(word, word)) for word in LICENCE_WORDS],
        sets=sets,
        next_encoders=",".join(first_networks(start.ranked, _N_NEXT)),
        level=LEVEL,
        **common,
    )


def labels_in_words(n_labels: int) -> str:
    """A number of labels of ImageNet, a class and in all.

    >>> labels_in_words(1_500), labels_in_words(12_811)
    ('1.5 labels a class, 1,500 in all', '12.8 labels a class, 12,811 in all (1%)')
    """
    a_class = n_labels / N_CLASSES
    short = f"{a_class:,.0f}" if a_class >= 100 or a_class == int(a_class) else f"{a_class:.1f}"
    setting = SETTING_OF.get(n_labels)
    name = "" if setting is None else f" ({'all of ImageNet' if setting == '100%' else setting})"
    return f"{short} label{'s' * (short != '1')} a class, {n_labels:,} in all{name}"


def on_front(ranked: Sequence[Ranked], size: Callable[[Ranked], float]) -> list[int]:
    """For each encoder the number of its group of :data:`FRONT_GROUPS`, from 1.

    An encoder is on the front if no other has a lower or equal error and is no larger, but for its equals. It is beaten
    if another one that is no larger has a lower error beyond a tie; the others are in between.
    """
    front = pareto([(size(one), one.error) for one in ranked], more_is_better=False)
    return [
        1 if place in front else 3 if any(size(other) <= size(one) and is_worse(one, other) for other in ranked) else 2
        for place, one in enumerate(ranked)
    ]


class _Zoo:
    """Candidates of a site, beside all other encoders, whose misses say how sure predictions are."""

    def __init__(self, contents: Contents) -> None:
        with contents.reading():
            everyone = {card.id: (card, summary) for card, summary in measured_encoders()}
        for entry in contents.entries.values():
            if entry.summary is not None:
                everyone[entry.id] = (entry.card, entry.summary)
        self._everyone: list[Measured] = [*everyone.values()]
        self._entries = contents.entries
        self._right = is_right(entry.id for entry in contents.entries.values() if entry.right is not None)
        self._here = Filter("not on this site", lambda one: one.card.id in contents.entries, is_asked=False)

    def answered(self, n_labels: int) -> Answer:
        """The ranking as it is without choices."""
        found = answered(n_labels, [self._here, NOT_GONE, self._right], self._everyone)
        found.left_out.pop(self._here.reason, None)
        return found

    def budget(self) -> tuple[dict[str, Any], list[tuple[str, int]]]:
        """What the script ranks by, and image sets with the number of candidates that were trained on each."""
        found: dict[int, tuple[list[Candidate], list[Noise | None], HeldOutError | None]] = {}
        for n_labels in STEPS:
            curves, all_of_them, _ = candidates(n_labels, self._everyone)
            here = [one for one in all_of_them if self._here.keeps(one)]
            trial = held_out_error(curves, n_labels)
            found[n_labels] = here, noises(curves, here, trial), trial
        everyone = {one.card.id: one for here, _, _ in found.values() for one in here}
        ids = sorted(everyone)
        networks = {of: place for place, of in enumerate(sorted({weights_of(everyone[one].card) for one in ids}))}
        words = _words()
        rows, n_trained = [], dict[str, int]()
        for one in ids:
            card, entry = everyone[one].card, self._entries[one]
            sets = card.pretraining.image_sets
            for name in () if isinstance(sets, Missing) else sets:
                n_trained[name] = n_trained.get(name, 0) + 1
            licence = card.licence.weights
            rows.append(
                [
                    one,
                    entry.file,
                    card.architecture.n_parameters,
                    card.representation.dim,
                    fact_text(licence),
                    not isinstance(licence, Missing),
                    [word for word, limit in words.items() if limit.keeps(everyone[one])],
                    not NOT_GONE.keeps(everyone[one]),
                    not self._right.keeps(everyone[one]),
                    bool(everyone[one].errata),
                    entry.is_mine,
                    None if isinstance(sets, Missing) else list(sets),
                    networks[weights_of(card)],
                ]
            )
        document = {
            "fields": _FIELDS,
            "rows": rows,
            "steps": [_step(n, ids, *found[n]) for n in STEPS],
            "start": STEPS.index(START),
            "level": LEVEL,
            "quantile": NormalDist().inv_cdf((1 + LEVEL) / 2),
            "columns": _COLUMNS,
            "groups": FRONT_GROUPS,
            "kinds": {letter: kind for kind, letter in _KINDS.items()},
            "reasons": {name: one.reason for name, one in {**words, "gone": NOT_GONE, "wrong": self._right}.items()},
            "first": ONE_IS_FIRST,
            "ties": TIES,
            "extrapolation": EXTRAPOLATION,
        }  # fmt: skip
        return document, sorted(n_trained.items(), key=lambda pair: (-pair[1], pair[0]))


def _words() -> dict[str, Filter]:
    """Words of ``--licence`` and ``--access`` that are limits, with what they ask."""
    found = {word: one for word in LICENCE_WORDS for one in filters(Constraints(licence=word))}
    return found | {word: one for word in ACCESS_WORDS for one in filters(Constraints(access=word))}


def _step(
    n_labels: int,
    ids: Sequence[str],
    here: Sequence[Candidate],
    own: Sequence[Noise | None],
    trial: HeldOutError | None,
) -> dict[str, Any]:
    """One stop of the slider: for each encoder its error and standard deviations in points, null where not known.

    Measured errors have every digit, as in other tables; predictions have more digits than are shown.
    """
    known = {one.card.id: (one.predicted, noise) for one, noise in zip(here, own, strict=True)}
    of = [known.get(name, (None, None)) for name in ids]
    noises = [noise for _, noise in of]
    laws = [0.0 if one is None else round(one.law, 3) for one in noises]
    usual = usual_prediction(here) if here else None
    return {
        "labels": n_labels,
        "text": labels_in_words(n_labels),
        "kind": None if usual is None else usual.kind,
        "words": [] if usual is None else origin_words(usual, own, trial),
        "kinds": "".join("-" if one is None else _KINDS[one.kind] for one, _ in of),
        "error": [one and (one.error if one.kind == "measured" else round(one.error, 5)) for one, _ in of],
        "alone": [one and round(math.hypot(one.images, one.prediction), 4) for one in noises],
        "law": laws if any(laws) else None,
    }


def _rows(answer: Answer, contents: Contents) -> list[dict[str, Any]]:
    """The encoders of a table."""
    return [
        {
            "entry": contents.entries[one.candidate.card.id],
            "href": encoder_page(contents.entries[one.candidate.card.id]),
            "is_wrong": bool(one.candidate.errata),
            "is_tie": one.is_tie and answer.n_ties > 1,
            "is_first": one.is_tie,  # shares the first place
            "rank": one.rank_text,
            "error": points(one.error),
            "interval": one.interval_text,
            "best": one.best_text,
            "kind": one.candidate.predicted.kind,
            "parameters": short_number(one.candidate.card.architecture.n_parameters),
            "licence": fact_text(one.candidate.card.licence.weights),
            "is_licensed": not isinstance(one.candidate.card.licence.weights, Missing),
        }
        for one in answer.ranked
    ]


def _figure(
    answer: Answer, contents: Contents, words: str, size: Callable[[Ranked], float]
) -> tuple[Markup, list[tuple[str, str, str, str]]]:
    """The plot of error against a size, and id, page, size and error of those on the front, smallest first."""
    groups = on_front(answer.ranked, size)
    marks = []
    for one, group in zip(answer.ranked, groups, strict=True):
        name = one.candidate.card.id
        low, high = one.interval or (None, None)
        marks.append(
            Point(
                id=name,
                href=encoder_page(contents.entries[name]),
                x=size(one),
                y=one.error,
                low=low,
                high=high,
                group=group,
                hollow=group == 3,
            )
        )
    front = sorted((one for one in marks if one.group == 1), key=lambda one: one.x)
    written = short_number if words == "parameters" else "{:.0f}".format
    drawing = scatter(
        marks,
        Axis(words, "log", "count" if words == "parameters" else "number", "low"),
        Axis("error, %", "linear", "percent", "low"),
        title=f"Error with {answer.n_labels:,} labels against {words}",
        description=f"{len(front)} of {len(marks)} encoders are on the front.",
        groups=FRONT_GROUPS,
        front=True,
    )
    return drawing, [(one.id, one.href, written(one.x), points(one.y)) for one in front]
