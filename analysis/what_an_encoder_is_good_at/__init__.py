"""What is an encoder good at?

Claim: "no model is uniformly better over risk components" (Figure 1); SwAV RN50w4 is more usable than MSN ViT-L/16 but
generalizes worse from the probe's images, so it is better full-shot (76 % against 74 %) and worse 3-shot (37 % against
63 %). Figure 26 draws all encoders but two. There are 169 encoders, of 28 objectives, 20 architectures and 7 years.

Expected: no encoder is best in all four components, the four accuracies and the counts come out, and 23 encoders, not
two, lack a supervised twin and so a corner of the radar; 146 are left for the average.

Command: zoo study what_an_encoder_is_good_at --encoder dino_rn50 --encoder simclr_rn50
"""

from __future__ import annotations

from collections.abc import Sequence

from zoo.analysis.columns import Estimate
from zoo.analysis.table import StudyTable
from zoo.cards.catalogue import catalogue
from zoo.errors import QueryError
from zoo.studies.findings import Findings, Rows, Table
from zoo.studies.running import StudyOptions

from .claims import FULL_SHOT, MSN, SWAV, Found, claims_of
from .figures import ASSUMED, average_radar, figure_1, figure_26
from .profiles import AXES, Profiles, profiles_of

OPTIONS = ("encoders",)
FEWEST = 3  # axes without which a radar shows nothing
THIRD_OF_FIGURE_1 = (
    "Of the encoders of Figure 1 the text names two; the one with the lowest full-shot error stands for the third."
)


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Radars of the chosen encoders, or of those of Figure 1, and of all that have every axis."""
    profiles = profiles_of(table)
    chosen = _resolved(table, profiles, options.encoders) if options.encoders else _of_figure_1(profiles)
    complete = [str(encoder) for encoder in profiles.places.dropna().index]
    mine = len(complete) - len(profiles.reference)
    average = average_radar(profiles)
    return Findings(
        claims=claims_of(Found(table, profiles)),
        estimates=[*_averages(profiles), *(one for encoder in chosen for one in profiles.estimates(encoder))],
        tables=[
            _places("Encoders of the radar", profiles, chosen),
            _scale(profiles),
            _places("All encoders (Figure 26)", profiles, sorted(map(str, profiles.places.index))),
        ],
        figures=[
            figure_1(table, profiles, chosen, average, asked=bool(options.encoders)),
            *([] if options.encoders else figure_26(table, profiles, complete, average)),
        ],
        rows=[
            Rows(
                part="scale, average",
                used=len(profiles.reference),
                left_out={**table.n_left_out(*(axis.column for axis in AXES)), **({"yours": mine} if mine else {})},
            ),
            Rows(part="Figure 26", used=len(complete), left_out=table.n_left_out(*(axis.column for axis in AXES))),
        ],
        notes=[
            "Places are relative: the worst encoder of an axis sets its centre. On the axis of approximation the whole "
            f"scale is {profiles.worst['approx'] - profiles.best['approx']:.1f} points, on that of usability "
            f"{profiles.worst['usability'] - profiles.best['usability']:.1f}.",
            *([] if options.encoders else [THIRD_OF_FIGURE_1]),
            *_unknown_notes(profiles, chosen),
            *_twin_notes(table, profiles, complete),
        ],
    )


def _resolved(table: StudyTable, profiles: Profiles, names: Sequence[str]) -> list[str]:
    """Ids of the encoders that a user asked for, each once."""
    found = []
    for name in names:
        encoder = name if name in table.frame.index else catalogue().id_of(name)
        if encoder not in table.frame.index:
            why = next((reason for reason, ids in table.left_out.items() if encoder in ids), "")
            raise QueryError(
                f"{encoder} is not in this table{f' ({why})' if why else ''}, expected one of its {len(table)} "
                "encoders; choose another, or measure it and add --with-mine."
            )
        known = profiles.known(encoder)
        if len(known) < FEWEST:
            raise QueryError(
                f"{encoder} has {len(known)} of the {len(AXES)} axes of a radar, expected at least {FEWEST}; measure "
                f"{' and '.join(axis.column for axis in AXES if axis.column not in known)}."
            )
        found.append(encoder)
    return list(dict.fromkeys(found))


def _of_figure_1(profiles: Profiles) -> list[str]:
    best = str(profiles.values.loc[list(profiles.reference), FULL_SHOT].idxmin())
    return list(dict.fromkeys([best, *(name for name in (SWAV, MSN) if name in profiles.reference)]))


def _averages(profiles: Profiles) -> list[Estimate]:
    return [
        Estimate(
            term=f"average place of {axis.column}",
            value=float(profiles.average()[axis.column]),
            n=len(profiles.reference),
            unit="1 is the best encoder, 0 the worst",
            outcome=axis.column,
            method="minimum-maximum profile",
            note="describes these encoders, which no one drew at random; no interval",
        )
        for axis in AXES
    ]


def _places(title: str, profiles: Profiles, encoders: Sequence[str]) -> Table:
    rows = []
    for encoder in encoders:
        cells = zip(profiles.places.loc[encoder], profiles.values.loc[encoder], strict=True)
        rows.append(
            [encoder, *("" if place != place else f"{100 * place:.0f} % ({value:.2f})" for place, value in cells)]
        )
    return Table(
        title=title,
        headers=["encoder", *(axis.label for axis in AXES)],
        rows=rows,
        note="How far from the worst encoder to the best, in percent of the way; in brackets the risk itself, lower is "
        "better, the full-shot error in percent and the components in percentage points. Empty: not known.",
    )


def _scale(profiles: Profiles) -> Table:
    values = profiles.values.loc[list(profiles.reference)]
    rows = []
    for axis in AXES:
        column = values[axis.column]
        best = [str(encoder) for encoder in column.index[column == profiles.best[axis.column]]]
        rows.append(
            [
                axis.label,
                f"{profiles.best[axis.column]:.2f}",
                f"{profiles.worst[axis.column]:.2f}",
                best[0] if len(best) == 1 else f"{len(best)} encoders",
                str(column.idxmax()),
            ]
        )
    return Table(
        title=f"The scale, of {len(values)} encoders",
        rows=rows,
        headers=["axis", "best", "worst", "best encoder", "worst encoder"],
    )


def _unknown_notes(profiles: Profiles, chosen: Sequence[str]) -> list[str]:
    notes = []
    for encoder in chosen:
        unknown = [axis.label for axis in AXES if axis.column not in profiles.known(encoder)]
        if unknown:
            notes.append(f"{encoder} is drawn without {' and '.join(unknown)}, which nobody could measure.")
    for encoder in sorted(set(chosen) | set(profiles.places.dropna().index)):
        if beyond := profiles.beyond(encoder):
            notes.append(f"{encoder} lies beyond the scale in {' and '.join(beyond)} and is drawn at its end.")
    return notes


def _twin_notes(table: StudyTable, profiles: Profiles, complete: list[str]) -> list[str]:
    """How many encoders have no supervised twin, and of how many it was not measured."""
    no_twin = sum("usability" not in profiles.known(encoder) for encoder in table.frame.index)
    assumed = sum(table.frame.loc[complete, ASSUMED] == True)  # noqa: E712  (the cells are true, false or NaN)
    notes = []
    if no_twin:
        notes.append(
            f"Without a supervised twin, {no_twin} encoders have no approximation and usability, which is not "
            "zero error; Figure 26 leaves them out."
        )
    if assumed:
        notes.append(
            f"The approximation error of {assumed} encoders was assumed to be 0, the best there is, because "
            "nobody measured their twin; their usability is then an upper bound."
        )
    return notes
