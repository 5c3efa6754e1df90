"""What is an encoder good at?

Claim: "no model is uniformly better over risk components" (Figure 1); SwAV RN50w4 is more usable than MSN ViT-L/16 but
generalizes worse from the probe's images, so it is better full-shot (76 % against 74 %) and worse 3-shot (37 % against
63 %). Figure 26 draws all encoders but two. There are 169 encoders, of 28 objectives, 20 architectures and 7 years.

Expected: no encoder is best in all four components, the four accuracies and the counts come out, and 23 encoders, not
two, lack a supervised twin and so a corner of the radar; 146 are left for the average.

Command: zoo study what_an_encoder_is_good_at --encoder dino_rn50 --encoder simclr_rn50
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from zoo.analysis.columns import COMPONENTS, OUTCOMES, Estimate, OutcomeColumn
from zoo.analysis.table import StudyTable
from zoo.cards.catalogue import load_catalogue
from zoo.errors import QueryError
from zoo.evaluation.drawing import FULL_WIDTH, MODE_COLOURS, SMALLEST, Figure, make_figure
from zoo.studies.findings import (
    NOT_AVAILABLE,
    TOO_FEW,
    Claim,
    ClaimAnswer,
    Claims,
    Findings,
    FindingsTable,
    RowsUsed,
    number_claim,
)
from zoo.studies.running import StudyOptions

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
        answer=_answer(Found(table, profiles).parts),
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
            RowsUsed(
                part="scale, average",
                used=len(profiles.reference),
                left_out={**table.n_left_out(*(axis.column for axis in AXES)), **({"yours": mine} if mine else {})},
            ),
            RowsUsed(part="Figure 26", used=len(complete), left_out=table.n_left_out(*(axis.column for axis in AXES))),
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


def _answer(parts: pd.DataFrame) -> str:
    if not len(parts):
        return TOO_FEW
    return (
        f"Each at something else: {int((parts >= 1).all(axis=1).sum()) or 'none'} of {len(parts)} encoders is best in "
        f"all four components of the error, and for {undominated(parts)} no other is as good in all four."
    )


def _resolved(table: StudyTable, profiles: Profiles, names: Sequence[str]) -> list[str]:
    """Ids of the encoders that a user asked for, each once."""
    found = []
    for name in names:
        encoder = name if name in table.frame.index else load_catalogue().id_of(name)
        if encoder not in table.frame.index:
            why = next((reason for reason, ids in table.left_out.items() if encoder in ids), "")
            how = f"; {why}" if why else "; choose another, or measure it on ImageNet-1K and add --with-mine"
            raise QueryError(f"{encoder} is not in this table, expected one of its {len(table)} encoders{how}.")
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


def _places(title: str, profiles: Profiles, encoders: Sequence[str]) -> FindingsTable:
    rows = []
    for encoder in encoders:
        cells = zip(profiles.places.loc[encoder], profiles.values.loc[encoder], strict=True)
        rows.append(
            [encoder, *("" if place != place else f"{100 * place:.0f} % ({value:.2f})" for place, value in cells)]
        )
    return FindingsTable(
        title=title,
        headers=["encoder", *(axis.label for axis in AXES)],
        rows=rows,
        note="How far from the worst encoder to the best, in percent of the way; in brackets the risk itself, lower is "
        "better, the full-shot error in percent and the components in percentage points. Empty: not known.",
    )


def _scale(profiles: Profiles) -> FindingsTable:
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
    return FindingsTable(
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


SWAV, MSN = "swav_rn50w4", "msn_vitl16_ep600"  # of Figure 1; the text names no third one
FULL_SHOT, THREE_SHOT = "train_test", "train-nperclass-3_test"
PUBLISHED = 169  # encoders of the paper
ACCURACIES = (  # printed in Section 1, in percent
    ("Full-shot", FULL_SHOT, SWAV, "76"),
    ("Full-shot", FULL_SHOT, MSN, "74"),
    ("3-shot", THREE_SHOT, SWAV, "37"),
    ("3-shot", THREE_SHOT, MSN, "63"),
)
MISSING = "the table lacks one of the two encoders, or a number of it"


@dataclass(frozen=True, slots=True)
class Found:
    table: StudyTable
    profiles: Profiles

    @property
    def parts(self) -> pd.DataFrame:
        """Places in the four components of the encoders that have all axes; 1 is the best."""
        return self.profiles.places.loc[list(self.profiles.reference), [outcome.column for outcome in COMPONENTS]]

    @property
    def published(self) -> pd.DataFrame:
        """The rows of encoders that are not the user's."""
        return self.table.frame.drop(index=list(self.table.mine))


def claims_of(found: Found) -> list[Claim]:
    """All claims, in the order of the paper's figures and sections."""
    return [
        *of_figure_1.judged(found),
        *counts_of_figures(found),
        *counts_of_encoders(found),
        *of_two_encoders.judged(found),
        *(accuracy(found.table, *printed) for printed in ACCURACIES),
    ]


# All encoders

of_figure_1 = Claims(source="Figure 1")


@of_figure_1("No model is uniformly better over the risk components", paper="no model")
def no_encoder_is_best_in_all(found: Found) -> ClaimAnswer:
    parts = found.parts
    best_in_all = [str(encoder) for encoder in parts.index[(parts >= 1).all(axis=1)]]
    return ClaimAnswer(
        ours=f"{len(best_in_all)} of {len(parts)} are best in all four; for {undominated(parts)} no "
        "other is as good in all four",
        holds=not best_in_all,
        reason=f"{' and '.join(best_in_all)} is best in all",
    )


def undominated(parts: pd.DataFrame) -> int:
    """How many encoders no other equals or beats in every component and beats in one."""
    values = parts.to_numpy()
    return sum(not any((other >= one).all() and (other > one).any() for other in values) for one in values)


def counts_of_figures(found: Found) -> list[Claim]:
    """How many encoders Figures 1 and 26 are of."""
    complete, n_published = len(found.parts), len(found.published)
    incomplete = n_published - complete
    return [
        count(
            "Encoders that the average of Figure 1 is over",
            str(PUBLISHED),
            complete,
            source="caption of Figure 1",
            reason=f"{incomplete} of {n_published} have no approximation and usability",
        ),
        count(
            "Encoders without a supervised twin, which Figure 26 leaves out",
            "2",
            incomplete,
            source="Appendix E.1",
            reason="the published table has no approximation and usability for so many",
        ),
    ]


def counts_of_encoders(found: Found) -> list[Claim]:
    """What Section 5 says the encoders are of; the paper's architectures are those of another width or patch size."""
    rows = found.published
    coarse, exact = rows["architecture"].nunique(), rows["architecture_exact"].nunique()
    with_patch_size = len(rows.dropna(subset="architecture").drop_duplicates(["architecture", "patch_size"]))
    return [
        count("Encoders that were analysed", str(PUBLISHED), len(rows)),
        count("Objectives of the encoders", "28", rows["objective"].nunique()),
        count(
            "Architectures of the encoders (those of another patch size counted apart)",
            "20",
            with_patch_size,
            reason=f"{coarse} with patch sizes together, {exact} with the layer that is read counted apart",
        ),
        count("Years in which the encoders were published", "7", rows["year"].nunique()),
    ]


def count(
    claim: str,
    printed: str,
    ours: int,
    *,
    source: str = "Section 5",
    reason: str = "another number of different values is in the table",
) -> Claim:
    """A printed count next to ours, which settles it."""
    return number_claim(
        claim, source=source, printed=printed, ours=float(ours), shown=str(ours), settled=True, reason=reason
    )


# The two encoders that the text compares

of_two_encoders = Claims(source="Section 1")


@of_two_encoders("SwAV RN50w4 is more usable than MSN ViT-L/16", paper="stated in words")
def swav_is_more_usable(found: Found) -> ClaimAnswer:
    return is_lower(found.table, "usability", better=SWAV, worse=MSN)


@of_two_encoders("SwAV RN50w4 has a worse probe generalization than MSN ViT-L/16", paper="stated in words")
def msn_has_the_better_probe_generalization(found: Found) -> ClaimAnswer:
    return is_lower(found.table, "probe_gen", better=MSN, worse=SWAV)


def is_lower(table: StudyTable, column: str, *, better: str, worse: str) -> ClaimAnswer:
    """Whether a risk of one encoder is lower than that of another."""
    low, high = cell(table, better, column), cell(table, worse, column)
    if low is None or high is None:
        raise QueryError(MISSING)
    return ClaimAnswer(
        ours=f"{low:.1f} points of {better}, {high:.1f} of {worse}",
        holds=low < high,
        reason="it is the other way round",
    )


def accuracy(table: StudyTable, words: str, column: str, encoder: str, printed: str) -> Claim:
    """A printed accuracy next to ours."""
    error = cell(table, encoder, column)
    return number_claim(
        f"{words} accuracy of {encoder} [%]",
        source="Section 1",
        printed=printed,
        ours=None if error is None else 100 - error,
        shown=NOT_AVAILABLE if error is None else None,
        reason=MISSING if error is None else "",
    )


def cell(table: StudyTable, encoder: str, column: str) -> float | None:
    value = float(table.frame[column].get(encoder, float("nan")))
    return None if value != value else value


AXES: tuple[OutcomeColumn, ...] = tuple(
    OUTCOMES[name] for name in ("train_test", "enc_gen", "probe_gen", "usability", "approx")
)  # in the order of the paper's Figure 26, from the top


@dataclass(frozen=True, slots=True)
class Profiles:
    """Encoders by their place between the worst and the best: ``1 - (value - best) / (worst - best)``."""

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


def profiles_of(table: StudyTable, *, axes: Sequence[OutcomeColumn] = AXES) -> Profiles:
    """The place of every encoder on every axis; encoders with all axes that are not the user's set the scale."""
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


LABELS = {
    "train_test": "Full-shot",
    "enc_gen": "Encoder\ngen.",
    "probe_gen": "Probe\ngen.",
    "usability": "Usability",
    "approx": "Approx.",
}
ASSUMED = "approx_is_assumed"
PER_PAGE = 35  # radars of a page: 5 columns of 7
_SHORT = {"train_test": "F", "enc_gen": "E", "probe_gen": "P", "usability": "U", "approx": "A"}
_UNKNOWN, _RIM = "#999999", "#BBBBBB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Radar:
    """One profile to draw."""

    title: str
    places: Mapping[str, float]  # axis -> 0 worst to 1 best; NaN where it was not measured
    colour: str = "#444444"
    assumed: frozenset[str] = frozenset()  # axes whose place is an assumption rather than a measurement


def average_radar(profiles: Profiles) -> Radar:
    """The mean of the encoders that have every axis."""
    mean = {str(axis): place for axis, place in profiles.average().items()}
    return Radar(title=f"average of {len(profiles.reference)}", places=mean)


def figure_1(table: StudyTable, profiles: Profiles, chosen: Sequence[str], average: Radar, *, asked: bool) -> Figure:
    """The average and the chosen encoders, or those of the paper where a user asked for none."""
    radars = [average, *(_radar(table, profiles, encoder) for encoder in chosen)]
    return Figure(
        name="figure1",
        title="Chosen encoders" if asked else "What encoders are good at (Figure 1)",
        caption=f"Each axis from the worst encoder (centre) to the best (rim) of {len(profiles.reference)}; farther "
        "out is better. Dashed: half way. Full-shot is the error of the linear probe on ImageNet-1K, the others are "
        "its components; a hollow corner is an approximation error that was assumed to be 0. Colours are types of "
        "objective.",
        draw=partial(radar_row, radars, legend=_modes(table, chosen)),
        data=partial(radar_data, radars),
    )


def figure_26(table: StudyTable, profiles: Profiles, complete: Sequence[str], average: Radar) -> list[Figure]:
    """Every encoder that has all axes, in pages."""
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
            draw=partial(radar_page, page, legend=_modes(table, shown)),
            data=partial(radar_data, page),
        )
        figures.append(figure)
    return figures


def radar_data(radars: Sequence[Radar]) -> list[list[object]]:
    """Each place of each radar: 0 is the worst encoder of the scale, 1 its best; empty where it was not measured."""
    rows: list[list[object]] = [["radar", "axis", "place", "assumed"]]
    for radar in radars:
        for axis in AXES:
            place = radar.places.get(axis.column, math.nan)
            cell = "" if math.isnan(place) else f"{place:.7g}"
            rows.append(
                [radar.title.replace("\n", " "), axis.label, cell, "yes" if axis.column in radar.assumed else "no"]
            )
    return rows


def radar_row(radars: Sequence[Radar], *, legend: Mapping[str, str] | None = None) -> Drawing:
    """A few radars, four in a row, each with the names of its axes; ``legend`` has words -> colour."""
    n_columns = min(4, len(radars))
    n_rows = math.ceil(len(radars) / n_columns)
    width = FULL_WIDTH * n_columns / 4
    drawing, panels = make_figure(width=width, height=1.75 * n_rows + 0.3, n_rows=n_rows, n_columns=n_columns)
    _fill(panels, radars, long_labels=True)
    _legend(drawing, legend or {})
    return drawing


def radar_page(radars: Sequence[Radar], *, legend: Mapping[str, str] | None = None) -> Drawing:
    """A page of small radars, five in a row; the first has the names of the axes, the others their first letters."""
    n_rows = math.ceil(len(radars) / 5)
    drawing, panels = make_figure(height=1.5 * n_rows + 0.3, n_rows=n_rows, n_columns=5)
    _fill(panels, radars, long_labels=False)
    _legend(drawing, legend or {})
    return drawing


def pages(radars: Sequence[Radar], *, first: Radar, per_page: int = PER_PAGE) -> list[list[Radar]]:
    """Radars in pages, each of them opened by ``first``; the last page has what is left.

    >>> [len(page) for page in pages([Radar(title="a", places={})] * 146, first=Radar(title="mean", places={}))]
    [35, 35, 35, 35, 11]
    """
    others = per_page - 1
    return [[first, *radars[start : start + others]] for start in range(0, len(radars), others)]


def draw_radar(axes: Axes, radar: Radar, *, long_labels: bool) -> None:
    """One radar into one of the axes of a figure; places beyond the scale are drawn at its end."""
    names = [axis.column for axis in AXES]
    corners = {name: _corner(position, len(names)) for position, name in enumerate(names)}
    known = {name: min(1.0, max(0.0, place)) for name, place in radar.places.items() if not math.isnan(place)}
    for name, (x, y) in corners.items():
        axes.plot([0, x], [0, y], color=_RIM, linewidth=0.5, linestyle="-" if name in known else ":")
    for ring, style in ((0.5, "--"), (1.0, "-")):
        rim = [*corners.values(), corners[names[0]]]
        axes.plot([ring * x for x, _ in rim], [ring * y for _, y in rim], color=_RIM, linewidth=0.5, linestyle=style)
    for name, following in zip(names, [*names[1:], names[0]], strict=True):
        if name in known and following in known:
            (x, y), (u, v) = _at(corners[name], known[name]), _at(corners[following], known[following])
            axes.fill([0, x, u], [0, y, v], color=radar.colour, alpha=0.25, linewidth=0)
            axes.plot([x, u], [y, v], color=radar.colour, linewidth=1.2 if long_labels else 0.9, zorder=3)
    for name, place in known.items():
        x, y = _at(corners[name], place)
        face = "white" if name in radar.assumed else radar.colour
        axes.plot(x, y, "o", color=radar.colour, markerfacecolor=face, markersize=2.4 if long_labels else 1.5, zorder=4)
    for name, (x, y) in corners.items():
        words = _SHORT[name]
        if long_labels:
            note = "" if name in known else "\nunknown"
            words = LABELS[name] + ("\nassumed" if name in radar.assumed else note)
        sure = name in known and name not in radar.assumed
        axes.text(
            1.1 * x,
            1.1 * y,
            words,
            fontsize=SMALLEST,
            color="#222222" if sure else _UNKNOWN,
            ha=_beside(x),
            va=_above(y),
            linespacing=1.15,
        )
    axes.text(0, 1.42, radar.title, fontsize=7 if long_labels else SMALLEST, ha="center", va="bottom", linespacing=1.1)
    margin = 0.55 if long_labels else 0.3
    axes.set(xlim=(-1 - margin, 1 + margin), ylim=(-1.25, 1.9), aspect="equal")
    axes.set_axis_off()


def wrapped(name: str, *, width: int = 24) -> str:
    """An id in lines of at most ``width`` letters where its underscores allow it.

    >>> wrapped("deepcluster_rn50_bs512_ep200_mmselfsup")
    'deepcluster_rn50_bs512\\n_ep200_mmselfsup'
    """
    first, *others = name.split("_")
    lines = [first]
    for part in others:
        if len(lines[-1]) + len(part) + 1 > width:
            lines.append("")
        lines[-1] += f"_{part}"
    return "\n".join(lines)


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


def _modes(table: StudyTable, encoders: Sequence[str]) -> dict[str, str]:
    modes = set(table.frame.loc[list(encoders), "ssl_mode"])
    return {mode: colour for mode, colour in MODE_COLOURS.items() if mode in modes}


def _fill(panels: Sequence[Axes], radars: Sequence[Radar], *, long_labels: bool) -> None:
    for position, axes in enumerate(panels):
        if position < len(radars):
            draw_radar(axes, radars[position], long_labels=long_labels or position == 0)
        else:
            axes.set_axis_off()


def _legend(drawing: Drawing, legend: Mapping[str, str]) -> None:
    if legend:
        handles = [Line2D([], [], color=colour, linewidth=3, label=words) for words, colour in legend.items()]
        drawing.legend(handles=handles, loc="outside lower center", ncols=6)


def _corner(position: int, n: int) -> tuple[float, float]:
    angle = math.pi / 2 - 2 * math.pi * position / n  # clockwise from the top
    return math.cos(angle), math.sin(angle)


def _at(corner: tuple[float, float], place: float) -> tuple[float, float]:
    return place * corner[0], place * corner[1]


def _beside(x: float) -> str:
    return "center" if abs(x) < 0.1 else "left" if x > 0 else "right"


def _above(y: float) -> str:
    return "bottom" if y > 0.9 else "center" if y > -0.5 else "top"
