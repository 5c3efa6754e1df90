"""What does pooling hide: how much more do probes find that attend to the patches of an encoder?

Claim: encoders are ranked by probes of one pooled vector per image. Psomas et al. 2025 (Attention, Please!,
arXiv:2506.10178) say that linear probing understates models whose pretraining optimizes local representations rather
than a global one, and that attentive probing, which learns what to pool, is for them.

Expected: of 33 encoders that the authors of efficient probing measured on ImageNet-1K, an attentive probe is 1.6 points
better than a linear one on average (.3 to 3.3, objectives drawn): 4.4 points where pretraining predicts masked or next
places alone (11 encoders; .8 of EVA-02 to 17.7 of SimMIM), .2 elsewhere, where three of 22 are below the linear probe.
Both order encoders alike (tau .91, 23 of 528 pairs change places, by up to 1.6 points). Within MAE the gain falls
with size, from 7.7 (B/16) to 3.5 (L/16). Here 22 toy encoders gain 12.3 points on rendered shapes (1.8 of a
supervised ResNet to 31.7 of an MAE), 7.4 on Fashion-MNIST and 2.7 on digits; two with random weights gain 7.9 and
21.6 on shapes, so that a gain is not of pretraining alone. Not told: what is the objective's and what the size's,
data's or pooling's, spread of runs, few labels, large convolutional networks.

Command: zoo study what_pooling_hides
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Drawing

from zoo.analysis.columns import Estimate
from zoo.analysis.correlations import HIGH, Resampling, compare_pairs, correlate_columns, estimate_of, is_high
from zoo.analysis.label_free import read_measured_rows
from zoo.analysis.table import StudyTable
from zoo.cards.catalogue import load_catalogue
from zoo.evaluation.drawing import Figure, draw_legend_below, make_figure, plot_groups
from zoo.results.evidence import find_origin
from zoo.results.reported import reported_numbers
from zoo.results.reported_values import ReportedNumber
from zoo.results.rows import Measurement, convert_row
from zoo.studies.findings import (
    ClaimAnswer,
    Claims,
    Findings,
    FindingsTable,
    RowsUsed,
    answer_in_sentence,
    format_statement,
    has_interval_without_zero,
    require_value,
)
from zoo.studies.running import StudyOptions
from zoo.studies.tables import format_estimate, format_unsigned

READS_TABLE = False

ORIGIN = "efficient-probing"  # whose three probes read the same features of each encoder
LOCAL = ("generative", "autoregressive", "latent_prediction")
"""Modes of objectives that predict pixels, tokens or features of places, and nothing of the image as a whole."""
POINTS = "percentage points"
N_RESAMPLES = 1_000
FEWEST = 3  # encoders of a group from which a mean gets an interval
_OWN_POOLING = "own pooling"
_ATTENTIVE, _LINEAR = "attentive_probe_error", "linear_probe_error"
_KINDS = {_ATTENTIVE: "zoo-attentive-", _LINEAR: "zoo-logistic-"}
"""How the protocols of errors begin that are compared here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """Accuracies on ImageNet-1K in percent by encoder, and what is known of the encoders."""

    frame: pd.DataFrame  # attentive, linear, knn, mean_pooled; mode, objective, family, reads, pooled, parameters
    n_without: int  # encoders with an attentive number and no linear one of the same origin

    @property
    def gains(self) -> pd.Series[float]:
        """Attentive minus linear, in percentage points."""
        return self.frame["attentive"] - self.frame["linear"]

    @property
    def is_local(self) -> pd.Series[bool]:
        """Whether the objective is of places alone."""
        return self.frame["mode"].isin(LOCAL)


def study(table: StudyTable, options: StudyOptions) -> Findings:
    """Attentive minus linear accuracies of one origin, by objective and architecture, and those measured here."""
    found = read_gains(reported_numbers())
    own = read_own_gains()
    overall, *by_mode = mean_gains(found)
    apart = compare_local(found, seed=options.seed)
    related = [
        correlate_columns(found.gains, found.frame[column], term=words, outcome="gain")[1]
        for column, words in (("linear", "linear accuracy"), ("knn", "nearest neighbours' accuracy"))
    ]
    order = correlate_columns(
        found.frame["linear"], found.frame["attentive"], term="linear and attentive accuracy", outcome="order"
    )[1]
    return Findings(
        claims=of_probing.judged(found, apart, order),
        answer=answer_in_sentence(lambda: _answer(found, overall, apart)),
        estimates=[overall, *by_mode, apart, *related, order],
        tables=[
            _groups_table(found, by_mode),
            _encoders_table(found),
            _related_table([*related, order]),
            *([_own_table(own)] if own else []),
        ],
        figures=[
            Figure(
                name="gains",
                title="What an attentive probe finds beyond a linear one",
                caption=f"Top-1 accuracy on ImageNet-1K of {len(found.frame)} encoders as {ORIGIN} reports it, in "
                "percentage points: attentive minus linear probe (positive: pooling hides something), over the "
                "accuracy of the linear probe, by kind of objective.",
                draw=lambda: _draw(found),
                data=lambda: _list_rows(found),
            )
        ],
        rows=[
            RowsUsed(
                part="attentive minus linear",
                used=len(found.frame),
                left_out={"no linear accuracy of the same origin": found.n_without} if found.n_without else {},
            ),
            RowsUsed(part="measured here", used=len(own), unit="pairs of errors"),
        ],
        notes=_notes(found, own),
    )


def read_gains(numbers: Sequence[ReportedNumber]) -> Gains:
    """Of each encoder its probes by one origin; of two linear ones that of the card's features, then of its pooling."""
    cards, by_encoder = load_catalogue(), dict[str, dict[str, list[ReportedNumber]]]()
    for one in numbers:
        if find_origin(one) == ORIGIN and one.is_of_imagenet and not one.doubt:
            by_encoder.setdefault(one.encoder, {}).setdefault(one.protocol, []).append(one)
    rows, n_without = {}, 0
    for encoder, of in sorted(by_encoder.items()):
        attentive = of.get("reported-attentive", ())
        linear, knn = (
            sorted(of.get(name, ()), key=lambda one: (bool(one.features), _OWN_POOLING not in one.setting))
            for name in ("reported-linear", "reported-knn")
        )
        if not attentive or not linear:
            n_without += bool(attentive)
            continue
        card = cards[encoder]
        mean = [one.value for one in linear if one.features.startswith("mean of the patch tokens")]
        rows[encoder] = {
            "attentive": attentive[0].value,
            "linear": linear[0].value,
            "knn": knn[0].value if knn else np.nan,
            "mean_pooled": mean[0] if mean else np.nan,
            "mode": str(card.objective.mode),
            "objective": str(card.objective.name),
            "family": str(card.architecture.family),
            "parameters": float(card.architecture.n_parameters),
            "reads": attentive[0].setting.partition("queries of ")[2],
            "pooled": linear[0].features or (_OWN_POOLING if _OWN_POOLING in linear[0].setting else "of the card"),
        }
    return Gains(frame=pd.DataFrame.from_dict(rows, orient="index"), n_without=n_without)


def mean_gains(found: Gains) -> list[Estimate]:
    """The mean over all encoders, objectives drawn with all of their encoders, and over each kind of objective."""
    gains, frame = found.gains, found.frame
    counts, drawn = Resampling(clusters=frame["objective"], n_resamples=N_RESAMPLES).counts(frame.index)
    values = np.concatenate([[gains.mean()], counts @ gains.to_numpy() / counts.sum(axis=1)])
    estimates = [
        estimate_of(
            values,
            Estimate(
                term="all",
                n=len(gains),
                unit=POINTS,
                outcome="attentive minus linear",
                method=f"bootstrap over {drawn}",
            ),
        )
    ]
    for mode in frame["mode"].value_counts().index:
        some = gains[frame["mode"] == mode]
        label = Estimate(
            term=str(mode), n=len(some), unit=POINTS, outcome="attentive minus linear", method="paired t-test"
        )
        if len(some) < FEWEST:
            estimates.append(label.described(note=f"{len(some)} encoders say nothing of a mean"))
        else:
            estimates.append(compare_pairs(some, term=str(mode), outcome=label.outcome).mean)
    return estimates


def compare_local(found: Gains, *, seed: int) -> Estimate:
    """Mean gain of encoders with local objectives minus that of the others; objectives are drawn with all encoders."""
    gains, is_local, frame = found.gains.to_numpy(), found.is_local.to_numpy(), found.frame
    counts, drawn = Resampling(clusters=frame["objective"], n_resamples=N_RESAMPLES, seed=seed).counts(frame.index)
    everyone = np.concatenate([np.ones((1, len(gains))), counts])
    with np.errstate(invalid="ignore"):  # samples without one of the two kinds
        means = [(everyone * own) @ gains / (everyone * own).sum(axis=1) for own in (is_local, ~is_local)]
    label = Estimate(
        term="local minus other objectives",
        n=len(gains),
        unit=POINTS,
        outcome="attentive minus linear",
        method=f"bootstrap over {drawn}",
    )
    return estimate_of(means[0] - means[1], label)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnGain:
    """Errors of the two probes that were measured here, with the same labels on the same images, in percent."""

    encoder: str
    dataset: str
    n_train: int
    linear: float
    attentive: float
    ends: tuple[float | None, float | None]  # of the attentive error, over test images

    @property
    def gain(self) -> float:
        """Linear minus attentive error, in percentage points: positive where pooling hides something."""
        return self.linear - self.attentive


def read_own_gains() -> list[OwnGain]:
    """Shipped rows with all labels by an attentive and a linear probe of the zoo, the newest protocol of each."""
    of: dict[tuple[str, str, int | None], dict[str, Measurement]] = {}
    rows = [convert_row(row) for row in read_measured_rows() if row.metric in _KINDS]
    for row in sorted(rows, key=lambda row: row.protocol):
        if row.split == "train -> val" and row.protocol.startswith(_KINDS[row.metric]):
            of.setdefault((row.encoder, row.dataset, row.n_train), {})[row.metric] = row
    return [
        OwnGain(
            encoder=encoder,
            dataset=dataset,
            n_train=n_train or 0,
            linear=kinds[_LINEAR].value,
            attentive=kinds[_ATTENTIVE].value,
            ends=(kinds[_ATTENTIVE].ci_low, kinds[_ATTENTIVE].ci_high),
        )
        for (encoder, dataset, n_train), kinds in of.items()
        if len(kinds) == 2
    ]


def _answer(found: Gains, overall: Estimate, apart: Estimate) -> str:
    local, others = (found.gains[kind].mean() for kind in (found.is_local, ~found.is_local))
    return (
        f"{format_statement(overall, 1, unit='points')} of accuracy on average of {overall.n} encoders: {local:.1f} "
        f"where objectives are local, {others:.1f} elsewhere, apart by {format_statement(apart, 1)}."
    )


of_probing = Claims(source="Psomas et al. 2025 (arXiv:2506.10178), abstract")


@of_probing("Linear probing understates models whose pretraining optimizes local representations", paper="understates")
def local_ones_are_understated(found: Gains, apart: Estimate, order: Estimate) -> ClaimAnswer:
    local = found.gains[found.is_local]
    return ClaimAnswer(
        ours=f"{format_estimate(apart)} points more than of others, {len(local)} of {apart.n} encoders; "
        f"{local.min():+.1f} to {local.max():+.1f}",
        holds=has_interval_without_zero(apart) and require_value(apart) > 0,
        contradicted=has_interval_without_zero(apart) and require_value(apart) < 0,
        value=apart.value,
        reason="the difference between the two kinds of objective is not told from none",
        caveat="by the numbers of the same authors; size and data go with the objective",
    )


@of_probing(
    "A linear probe of pooled features ranks encoders as an attentive probe of patches does",
    source="assumed where encoders are ranked by pooled features",
    paper="the same order",
)
def linear_ranks_alike(found: Gains, apart: Estimate, order: Estimate) -> ClaimAnswer:
    swaps = find_swaps(found)
    worst = max((gap for *_, gap in swaps), default=0.0)
    return ClaimAnswer(
        ours=f"tau {format_unsigned(order)} (high: at least {HIGH:g}); {len(swaps)} of "
        f"{order.n * (order.n - 1) // 2} pairs change places, by up to {worst:.1f} points",
        holds=is_high(order, sign=1),
        contradicted=not is_high(order, sign=1),
        value=order.value,
        reason="they rank otherwise",
        caveat=f"over encoders from {found.frame['linear'].min():.0f} to {found.frame['linear'].max():.0f} %; near "
        "ones change places, and local objectives move up",
    )


def find_swaps(found: Gains) -> list[tuple[str, str, float]]:
    """Pairs of encoders of which the linear probe prefers the first and the attentive one the second, and by how much.

    The points are the smaller of the two differences.
    """
    frame = found.frame
    swaps = []
    for first in frame.index:
        for second in frame.index:
            linear = frame["linear"][first] - frame["linear"][second]
            attentive = frame["attentive"][second] - frame["attentive"][first]
            if linear > 0 and attentive > 0:
                swaps.append((first, second, float(min(linear, attentive))))
    return swaps


def _groups_table(found: Gains, by_mode: Sequence[Estimate]) -> FindingsTable:
    frame, gains, rows = found.frame, found.gains, []
    for one in by_mode:
        some = frame["mode"] == one.term
        ends = f"{gains[some].min():+.2f} to {gains[some].max():+.2f}"
        objectives = ", ".join(sorted(set(frame["objective"][some])))
        rows.append([f"{one.term}: {objectives}", str(one.n), _mean_cell(one), ends])
    for family in sorted(set(frame["family"][found.is_local])):
        of_family = gains[found.is_local & (frame["family"] == family)]
        label = Estimate(term=family, n=len(of_family), unit=POINTS)
        one = compare_pairs(of_family, term=family).mean if len(of_family) >= FEWEST else label
        rows.append(
            [
                f"local objectives, {family}",
                str(len(of_family)),
                _mean_cell(one),
                f"{of_family.min():+.2f} to {of_family.max():+.2f}",
            ]
        )
    return FindingsTable(
        title="Attentive minus linear accuracy on ImageNet-1K, by objective and architecture, in percentage points",
        headers=["encoders", "n", "mean [95 % interval]", "smallest to largest"],
        rows=rows,
        note=f"Fewer than {FEWEST} encoders get no mean. Intervals take encoders as independent, and several are sizes "
        "of one method.",
    )


def _mean_cell(one: Estimate) -> str:
    return "too few" if one.value is None else format_estimate(one, digits=2)


def _encoders_table(found: Gains) -> FindingsTable:
    frame = found.frame.assign(gain=found.gains).sort_values("gain", ascending=False)
    rows = [
        [
            str(encoder), row["mode"], f"{row['knn']:.1f}" if np.isfinite(row["knn"]) else "", f"{row['linear']:.2f}",
            f"{row['attentive']:.2f}", f"{row['gain']:+.2f}", row["pooled"],
            f"{row['linear'] - row['mean_pooled']:+.2f}" if np.isfinite(row["mean_pooled"]) else "",
        ]
        for encoder, row in frame.iterrows()
    ]  # fmt: skip
    return FindingsTable(
        title="Three probes of the same encoders, top-1 accuracy on ImageNet-1K in percent",
        headers=["encoder", "objective", "k-NN", "linear", "attentive", "gain", "linear of", "its pooling gains"],
        rows=rows,
        note=f"As {ORIGIN} reports them, one run each, without intervals. The last column: the network's own pooling, "
        "which attends, minus the mean of its patches, both by a linear probe.",
    )


def _related_table(estimates: Sequence[Estimate]) -> FindingsTable:
    return FindingsTable(
        title="What goes with the gain",
        headers=["of", "with", "n", "Kendall's tau [95 % interval]"],
        rows=[[one.outcome, one.term, str(one.n), format_unsigned(one)] for one in estimates],
        note="Gain and linear accuracy share the linear accuracy, whose errors alone would make their tau negative.",
    )


def _own_table(own: Sequence[OwnGain]) -> FindingsTable:
    rows = [
        [
            one.encoder, one.dataset, f"{one.n_train:,}", f"{one.linear:.2f}", f"{one.attentive:.2f}",
            "" if None in one.ends else f"{one.ends[0]:.2f} to {one.ends[1]:.2f}", f"{one.gain:+.2f}",
        ]
        for one in sorted(own, key=lambda one: (one.dataset, -one.gain))
    ]  # fmt: skip
    return FindingsTable(
        title="Errors of both probes as measured here, in percent",
        headers=["encoder", "images", "labels", "linear", "attentive", "interval of the attentive one", "gain"],
        rows=rows,
        note="Toy encoders and small networks on small images; intervals over test images. Gain: linear minus "
        "attentive.",
    )


def _notes(found: Gains, own: Sequence[OwnGain]) -> list[str]:
    largest = found.frame["mode"].value_counts()
    few = ", ".join(f"{mode} ({n})" for mode, n in largest.items() if n < 5)
    notes = [
        "All numbers are of one origin, of one run each and of one head (32 queries): spread between runs is not "
        "known, and neither is the sign of gains below half a point.",
        "Encoders were not drawn: objective, size, data and the year go together. What part of a gain is the "
        "objective's is not identified.",
        f"Few of a kind: {few or 'none'}; convolutional encoders are not there at all, except for Hiera's maps.",
        "Which vector the linear probe reads differs (class token, mean, projection to the space of texts, own "
        "attentive pooling): part of a gain is that of a better vector.",
        "Whether an attentive probe needs more labels is not told: all numbers are of all labels.",
    ]
    if own:
        notes.append(
            f"{len(own)} pairs of errors were measured here, of toy encoders and small networks on small images: they "
            "show the method, and no order of encoders that anyone would use."
        )
    else:
        notes.append("No encoder was measured here by an attentive probe.")
    return notes


def _list_rows(found: Gains) -> list[list[object]]:
    """The numbers of the figure as CSV, headers first."""
    rows = found.frame.assign(gain=found.gains)[["mode", "objective", "knn", "linear", "attentive", "gain"]].round(4)
    values = zip(rows.index, rows.to_numpy().tolist(), strict=True)
    return [["encoder", *rows.columns], *([encoder, *row] for encoder, row in values)]


def _draw(found: Gains) -> Drawing:
    drawing, (axes,) = make_figure(height=3.2)
    plot_groups(axes, found.frame["linear"].tolist(), found.gains.tolist(), found.frame["mode"].tolist())
    axes.axhline(0, color="#888888", linewidth=0.8, linestyle="--")
    axes.set(
        xlabel="linear probe's accuracy [%], higher is better",
        ylabel="attentive minus linear [points]\nhigher: pooling hides more",
    )
    draw_legend_below(drawing, axes, n_columns=3)
    return drawing
