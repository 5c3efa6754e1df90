"""Profiles of encoders: every risk as a place between the worst and the best encoder, for radars of one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from zoo.analysis.columns import OUTCOMES, Estimate, Outcome
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError

AXES: tuple[Outcome, ...] = tuple(
    OUTCOMES[name] for name in ("train_test", "enc_gen", "probe_gen", "usability", "approx")
)  # in the order of the paper's Figure 26, from the top


@dataclass(frozen=True, slots=True)
class Profiles:
    """Encoders by their place between the worst and the best: ``1 - (value - best) / (worst - best)``.

    The lowest risk is the best: 0 is the worst encoder of the reference, 1 its best. The scale is relative. One bad
    encoder stretches an axis, and a place on one axis cannot be compared with a place on another, so the raw values
    belong beside it.
    """

    places: pd.DataFrame  # index "enc", one column an axis; 0 worst, 1 best, NaN where it was not measured
    values: pd.DataFrame  # the risks themselves, same shape
    best: pd.Series[float]  # lowest risk of the reference, by axis
    worst: pd.Series[float]  # highest
    reference: tuple[str, ...]  # encoders that set the scale: those that have every axis and are not the user's

    def average(self) -> pd.Series[float]:
        """Mean place of the encoders of the reference, by axis."""
        return self.places.loc[list(self.reference)].mean()

    def known(self, encoder: str) -> list[str]:
        """The axes on which an encoder has a place."""
        row = self.places_of(encoder)
        return [axis for axis, place in row.items() if place == place]

    def beyond(self, encoder: str) -> list[str]:
        """The axes on which an encoder is better than the best of the reference, or worse than its worst."""
        row = self.places_of(encoder)
        return [axis for axis, place in row.items() if place < 0 or place > 1]

    def estimates(self, encoder: str) -> list[Estimate]:
        """The place of an encoder on each axis; without a value where the axis was not measured for it."""
        return [
            Estimate(
                term=encoder,
                value=place if place == place else None,
                n=len(self.reference),
                outcome=axis,
                unit="share of the range from worst to best",
                method="radar profile",
                note="n counts the encoders of the scale" if place == place else "not measured for this encoder",
            )
            for axis, place in self.places_of(encoder).items()
        ]

    def places_of(self, encoder: str) -> dict[str, float]:
        """The place of an encoder on each axis; NaN where it was not measured."""
        row = self.places.loc[[encoder]].to_numpy(dtype=float)[0]
        return dict(zip(map(str, self.places.columns), map(float, row), strict=True))


def profiles_of(table: StudyTable, *, axes: Sequence[Outcome] = AXES) -> Profiles:
    """The place of every encoder of a table on every axis that was measured for it.

    The scale is set by the encoders that have all axes, two at least. Those of the user take their places on that scale
    without changing it, so that a published encoder looks the same in every run; they can lie beyond its ends.
    """
    names = [axis.column for axis in axes]
    values = table.frame[names].astype(float)
    complete = values.dropna()
    reference = complete.loc[~complete.index.isin(table.mine)]
    if len(reference) < 2:
        raise QueryError(
            f"{len(reference)} encoders of the table have all of {', '.join(names)}, expected at least 2 to set the "
            "scale of a profile; choose a table with more encoders."
        )
    best, worst = reference.min(), reference.max()
    for name in names:
        if best[name] == worst[name]:
            raise QueryError(
                f"{name} is {best[name]:g} for all {len(reference)} encoders, so it has no worst and best."
            )
    return Profiles((worst - values) / (worst - best), values, best, worst, tuple(map(str, reference.index)))
