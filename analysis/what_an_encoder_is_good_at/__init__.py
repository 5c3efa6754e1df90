"""What is an encoder good at?

Claim: "no model is uniformly better over risk components" (Figure 1); SwAV RN50w4 is more usable than MSN ViT-L/16 but
generalizes worse from the probe's images, so it is better full-shot (76 % against 74 %) and worse 3-shot (37 % against
63 %). Figure 26 draws all encoders but two. There are 169 encoders, of 28 objectives, 20 architectures and 7 years.

Expected: no encoder is best in all four components, the four accuracies and the counts come out, and 23 encoders, not
two, lack a supervised twin and so a corner of the radar; 146 are left for the average.

Command: zoo study what_an_encoder_is_good_at --encoder dino_rn50 --encoder simclr_rn50
"""

from __future__ import annotations

from functools import partial

import pandas as pd

from zoo.analysis.columns import COMPONENTS, Estimate
from zoo.analysis.correlations import AXES, Profiles, profiles_of
from zoo.analysis.table import StudyTable
from zoo.cards.catalogue import catalogue
from zoo.errors import QueryError
from zoo.evaluation.drawing import MODE_COLOURS, Figure
from zoo.studies.findings import Claim, Findings, Rows, Table, number_claim, statement_claim
from zoo.studies.running import StudyOptions

from .figures import Radar, pages, radar_page, radar_row, wrapped

OPTIONS = ("encoders",)
SWAV, MSN = "swav_rn50w4", "msn_vitl16_ep600"  # of Figure 1; the text names no third one
FULL_SHOT, THREE_SHOT = "train_test", "train-nperclass-3_test"
PARTS = [outcome.column for outcome in COMPONENTS]
ASSUMED = "approx_is_assumed"
PUBLISHED = 169  # encoders of the paper
FEWEST = 3  # axes without which a radar shows nothing
_GONE = "the table lacks one of the two encoders, or a number of it"


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Radars of the chosen encoders, or of those of Figure 1, and of all that have every axis."""
    profiles = profiles_of(table)
    chosen = _resolved(table, profiles, options.encoders) if options.encoders else _of_figure_1(profiles)
    complete = [str(encoder) for encoder in profiles.places.dropna().index]
    mine = len(complete) - len(profiles.reference)
    mean = {str(axis): place for axis, place in profiles.average().items()}
    average = Radar(title=f"average of {len(profiles.reference)}", places=mean)
    no_twin = sum("usability" not in profiles.known(encoder) for encoder in table.frame.index)
    assumed = sum(table.frame.loc[complete, ASSUMED] == True)  # noqa: E712  (the cells are true, false or NaN)
    return Findings(
        claims=_claims(table, profiles),
        estimates=[*_averages(profiles), *(one for encoder in chosen for one in profiles.estimates(encoder))],
        tables=[
            _places("Encoders of the radar", profiles, chosen),
            _scale(profiles),
            _places("All encoders (Figure 26)", profiles, sorted(map(str, profiles.places.index))),
        ],
        figures=[
            _figure_1(table, profiles, chosen, average, asked=bool(options.encoders)),
            *([] if options.encoders else _figure_26(table, profiles, complete, average)),
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
            *(
                []
                if options.encoders
                else [
                    "Of the encoders of Figure 1 the text names two; the one with the lowest "
                    "full-shot error stands for the third."
                ]
            ),
            *_unknown_notes(profiles, chosen),
            *(
                [
                    f"Without a supervised twin, {no_twin} encoders have no approximation and usability, which is not "
                    "zero error; Figure 26 leaves them out."
                ]
                if no_twin
                else []
            ),
            *(
                [
                    f"The approximation error of {assumed} encoders was assumed to be 0, the best there is, because "
                    "nobody measured their twin; their usability is then an upper bound."
                ]
                if assumed
                else []
            ),
        ],
    )


def _resolved(table: StudyTable, profiles: Profiles, names: tuple[str, ...]) -> list[str]:
    """Ids of the encoders that a user asked for, each once.

    Raises
    ------
    UnknownName
        If there is no such encoder.
    QueryError
        If the table does not hold it, or holds too little about it.
    """
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


def _claims(table: StudyTable, profiles: Profiles) -> list[Claim]:
    parts = profiles.places.loc[list(profiles.reference), PARTS]
    best_in_all = [str(encoder) for encoder in parts.index[(parts >= 1).all(axis=1)]]
    n_published = len(table) - len(table.mine)
    incomplete = n_published - len(profiles.reference)
    return [
        statement_claim(
            "No model is uniformly better over the risk components",
            source="Figure 1",
            paper="no model",
            holds=not best_in_all,
            reason=f"{' and '.join(best_in_all)} is best in all",
            ours=f"{len(best_in_all)} of {len(parts)} are best in all four; for {_undominated(parts)} no "
            "other is as good in all four",
        ),
        number_claim(
            "Encoders that the average of Figure 1 is over",
            source="caption of Figure 1",
            printed=str(PUBLISHED),
            ours=float(len(parts)),
            shown=str(len(parts)),
            settled=True,
            reason=f"{incomplete} of {n_published} have no approximation and usability",
        ),
        number_claim(
            "Encoders without a supervised twin, which Figure 26 leaves out",
            source="Appendix E.1",
            printed="2",
            ours=float(incomplete),
            shown=str(incomplete),
            settled=True,
            reason="the published table has no approximation and usability for so many",
        ),
        *_counts(table),
        _compared(table, "SwAV RN50w4 is more usable than MSN ViT-L/16", "usability", better=SWAV, worse=MSN),
        _compared(
            table, "SwAV RN50w4 has a worse probe generalization than MSN ViT-L/16", "probe_gen", better=MSN, worse=SWAV
        ),
        *(
            _accuracy(table, f"{words} accuracy of {encoder} [%]", encoder, column, printed)
            for words, column, numbers in (("Full-shot", FULL_SHOT, ("76", "74")), ("3-shot", THREE_SHOT, ("37", "63")))
            for encoder, printed in zip((SWAV, MSN), numbers, strict=True)
        ),
    ]


def _counts(table: StudyTable) -> list[Claim]:
    """What Section 5 says the encoders are of; the paper's architectures are those of another width or patch size."""
    rows = table.frame.drop(index=list(table.mine))
    coarse, exact = rows["architecture"].nunique(), rows["architecture_exact"].nunique()
    found = {
        "Encoders that were analysed": (str(PUBLISHED), len(rows), ""),
        "Objectives of the encoders": ("28", rows["objective"].nunique(), ""),
        "Architectures of the encoders (those of another patch size counted apart)": (
            "20",
            len(rows.dropna(subset="architecture").drop_duplicates(["architecture", "patch_size"])),
            f"{coarse} with patch sizes together, {exact} with the layer that is read counted apart",
        ),
        "Years in which the encoders were published": ("7", rows["year"].nunique(), ""),
    }
    return [
        number_claim(
            claim,
            source="Section 5",
            printed=printed,
            ours=float(ours),
            shown=str(ours),
            settled=True,
            reason=reason or "another number of different values is in the table",
        )
        for claim, (printed, ours, reason) in found.items()
    ]


def _undominated(parts: pd.DataFrame) -> int:
    """How many encoders no other equals or beats in every component and beats in one."""
    values = parts.to_numpy()
    return sum(not any((other >= own).all() and (other > own).any() for other in values) for own in values)


def _value(table: StudyTable, encoder: str, column: str) -> float | None:
    value = float(table.frame[column].get(encoder, float("nan")))
    return None if value != value else value


def _compared(table: StudyTable, claim: str, column: str, *, better: str, worse: str) -> Claim:
    low, high = _value(table, better, column), _value(table, worse, column)
    source, paper = "Section 1", "stated in words"
    if low is None or high is None:
        return statement_claim(claim, source=source, paper=paper, holds=False, ours="not available", reason=_GONE)
    return statement_claim(
        claim,
        source=source,
        paper=paper,
        holds=low < high,
        ours=f"{low:.1f} points of {better}, {high:.1f} of {worse}",
        reason="it is the other way round",
    )


def _accuracy(table: StudyTable, claim: str, encoder: str, column: str, printed: str) -> Claim:
    error = _value(table, encoder, column)
    return number_claim(
        claim,
        source="Section 1",
        printed=printed,
        ours=None if error is None else 100 - error,
        shown="not available" if error is None else None,
        reason=_GONE if error is None else "",
    )


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


def _places(title: str, profiles: Profiles, encoders: list[str]) -> Table:
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


def _unknown_notes(profiles: Profiles, chosen: list[str]) -> list[str]:
    notes = []
    for encoder in chosen:
        unknown = [axis.label for axis in AXES if axis.column not in profiles.known(encoder)]
        if unknown:
            notes.append(f"{encoder} is drawn without {' and '.join(unknown)}, which nobody could measure.")
    for encoder in sorted(set(chosen) | set(profiles.places.dropna().index)):
        if beyond := profiles.beyond(encoder):
            notes.append(f"{encoder} lies beyond the scale in {' and '.join(beyond)} and is drawn at its end.")
    return notes


def _radar(table: StudyTable, profiles: Profiles, encoder: str) -> Radar:
    mode = table.frame.at[encoder, "ssl_mode"]
    mine = " (yours)" if encoder in table.mine else ""
    assumed = frozenset({"approx"} if table.frame.at[encoder, ASSUMED] is True else ())
    return Radar(
        title=wrapped(f"{encoder}{mine}"),
        places=profiles.places_of(encoder),
        colour=MODE_COLOURS.get(str(mode), "#444444"),
        assumed=assumed,
    )


def _legend(table: StudyTable, encoders: list[str]) -> dict[str, str]:
    modes = set(table.frame.loc[encoders, "ssl_mode"])
    return {mode: colour for mode, colour in MODE_COLOURS.items() if mode in modes}


def _figure_1(table: StudyTable, profiles: Profiles, chosen: list[str], average: Radar, *, asked: bool) -> Figure:
    return Figure(
        name="figure1",
        title="Chosen encoders" if asked else "What encoders are good at (Figure 1)",
        caption=f"Each axis from the worst encoder (centre) to the best (rim) of {len(profiles.reference)}; farther "
        "out is better. Dashed: half way. Full-shot is the error of the linear probe on ImageNet-1K, the others are "
        "its components; a hollow corner is an approximation error that was assumed to be 0. Colours are types of "
        "objective.",
        draw=lambda: radar_row(
            [average, *(_radar(table, profiles, encoder) for encoder in chosen)], legend=_legend(table, chosen)
        ),
    )


def _figure_26(table: StudyTable, profiles: Profiles, complete: list[str], average: Radar) -> list[Figure]:
    ordered = sorted(complete, key=str.casefold)
    radars = [_radar(table, profiles, encoder) for encoder in ordered]
    figures, done = [], 0
    for number, page in enumerate(pages(radars, first=average), start=1):
        shown = ordered[done : done + len(page) - 1]
        done += len(shown)
        figure = Figure(
            name=f"figure26_page{number}",
            title=f"All encoders, {shown[0]} to {shown[-1]} (Figure 26)",
            caption=f"Each axis from the worst encoder (centre) to the best (rim) of {len(profiles.reference)}; "
            "farther out is better. F full-shot, E encoder generalization, P probe generalization, U usability, A "
            "approximation, hollow where it was assumed to be 0. Dashed: half way.",
            draw=partial(radar_page, page, legend=_legend(table, shown)),
        )
        figures.append(figure)
    return figures
