"""How studies write and draw risks: labels of axes, bars, rows used, what errata say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..analysis.estimates import Estimate
from ..analysis.outcomes import OUTCOMES
from ..analysis.table import StudyTable
from ..analysis.trends import PARTS
from ..evaluation.drawing import COMPONENT_COLOURS, MARKS
from ..resultfiles import errata
from .findings import Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def risk_label(outcome: str, *, lines: bool = False) -> str:
    """An axis of a component or an error: what it is, its unit, and that lower is better.

    >>> risk_label("usability"), risk_label("train_test", lines=True)
    ('Usability error [points], lower is better', 'Full-shot error [%]\\nlower is better')
    """
    one = OUTCOMES[outcome]
    words = one.label if one.label.endswith("error") else f"{one.label} error"
    gap = "\n" if lines else ", "
    return f"{words} [{'%' if one.unit == 'percent' else 'points'}]{gap}lower is better"


def rows_used(part: str, table: StudyTable, *columns: str, of: StudyTable | None = None) -> Rows:
    """How many encoders of a table have all of these columns, and why the others were left out.

    Parameters
    ----------
    of : StudyTable, optional
        The whole table, if ``table`` has only some of its encoders: the others are counted by why they were left out.
    """
    before = {} if of is None else of.left_out
    gone = (
        {}
        if of is None
        else {reason: len(encoders) - len(before.get(reason, ())) for reason, encoders in table.left_out.items()}
    )
    left_out = {reason: n for reason, n in gone.items() if n} | table.n_left_out(*columns)
    return Rows(part=part, used=len(table) - sum(table.n_left_out(*columns).values()), left_out=left_out)


def doubts(encoders: Iterable[str]) -> list[str]:
    """What the errata say of the measurements of these encoders, one sentence each."""
    named = list(dict.fromkeys(encoders))
    return [
        f"{erratum.encoder} is doubtful ({erratum.kind}): {erratum.reason}"
        for erratum in errata()
        if erratum.encoder in named
    ]


def listed(values: Mapping[str, float], *, signed: bool = False) -> str:
    """Numbers with their names, one digit after the point; components by their words.

    >>> listed({"probe_gen": -9.04, "clustering": 1.0}, signed=True)
    'probe generalization -9.0, clustering +1.0'
    """
    names = {part: OUTCOMES[part].label.lower() if part in OUTCOMES else part for part in values}
    return ", ".join(f"{names[part]} {value:{'+' if signed else ''}.1f}" for part, value in values.items())


def accuracy_label(setting: str) -> str:
    """The words for the accuracy of a setting: ``"full-shot"``, ``"1 %"``, ``"3-shot"``."""
    return OUTCOMES[setting].label.removesuffix(" error").replace("Full", "full")


COMPONENT_MARKS = dict(zip(PARTS, MARKS, strict=False))


def draw_with_bars(axes: Axes, x: Sequence[float], estimates: Sequence[Estimate], part: str) -> None:
    y = [float("nan") if estimate.value is None else estimate.value for estimate in estimates]
    for position, estimate in zip(x, estimates, strict=True):
        if estimate.ci_low is not None and estimate.ci_high is not None:
            axes.vlines(
                position, estimate.ci_low, estimate.ci_high, color=COMPONENT_COLOURS[part], linewidth=0.9, alpha=0.7
            )
    axes.plot(x, y, color=COMPONENT_COLOURS[part], marker=COMPONENT_MARKS[part], label=OUTCOMES[part].label)
