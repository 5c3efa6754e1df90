"""Figures of SHAP values, drawn by the library shap, of one choice each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..analysis.importance import Importance
from ..evaluation.drawing import SMALLEST, make_figure, write_panel_letters
from ..optional import require_extra

with require_extra("study", needed_for="A figure"):
    from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing


def draw_choice(
    found: Sequence[Importance], titles: Sequence[str], feature: str, *, label: str, only: Sequence[str] = ()
) -> Drawing:
    """SHAP values of one choice against the choice itself, a panel per outcome, a point per encoder; lower is better.

    ``only`` names the values that are shown, in their order; by default all are.
    """
    drawing, panels = make_shap_panels(found, n_columns=3 if len(found) != 4 else 2, height=2.6 if only else 1.9)
    for axes, one, title in zip(panels, found, titles, strict=False):
        values = one.values[feature]
        places = [place for value in only for place in values.index[values == value]] if only else list(values.index)
        plot_shap_scatter(axes, one.shap.loc[places, feature], values[places])
        axes.set_xlabel(label, fontsize=7)
        axes.set_ylabel(f"{title}\nSHAP value [points]", fontsize=7)
    return drawing


def plot_shap_scatter(axes: Axes, shares: pd.Series, choices: pd.Series) -> None:
    """SHAP values (n,) against choices (n,), numbers on a logarithmic axis or texts, by the library."""
    import shap

    choices = choices.astype(object)
    known = choices.notna().to_numpy()
    numbers = _is_number(choices)
    data = choices[known].to_numpy(dtype=float) if numbers else choices[known].astype(str).to_numpy(dtype=object)
    one = shap.Explanation(values=shares.to_numpy()[known], data=data, feature_names=str(shares.name))
    is_log = numbers and data.min() > 0 and data.max() > 4 * data.min()
    jitter = 0 if is_log else "auto"  # it is of the same width everywhere, which a logarithmic axis is not
    shap.plots.scatter(one, ax=axes, show=False, hist=False, color="#0072B2", dot_size=7, alpha=0.6, x_jitter=jitter)
    if is_log:
        axes.set_xscale("log", base=2)
        axes.set_xlim(data.min() / 1.4, data.max() * 1.4)
        axes.xaxis.set_major_locator(LogLocator(base=2, numticks=5))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(EngFormatter(places=0, sep=""))
    format_shap_axes(axes, "")
    if not numbers:
        axes.tick_params(axis="x", rotation=90)


def _is_number(choices: pd.Series) -> bool:
    return all(isinstance(choice, (int, float)) and not isinstance(choice, bool) for choice in choices.dropna())


def make_shap_panels(found: Sequence[Importance], *, n_columns: int, height: float) -> tuple[Drawing, list[Axes]]:
    """A panel per outcome, with letters, in rows of ``height`` inches."""
    n_columns = min(n_columns, len(found))
    n_rows = -(-len(found) // n_columns)
    drawing, panels = make_figure(height=n_rows * height, n_rows=n_rows, n_columns=n_columns)
    for axes in panels[len(found) :]:
        axes.set_visible(False)
    write_panel_letters(panels[: len(found)])
    return drawing, panels


def format_shap_axes(axes: Axes, x_label: str) -> None:
    """The sizes of text that all figures of the zoo have, instead of the library's."""
    axes.set_xlabel(x_label, fontsize=7)
    axes.yaxis.label.set_fontsize(7)
    axes.tick_params(labelsize=SMALLEST)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_fontsize(SMALLEST)
    for text in axes.texts:
        if not text.get_text().startswith("("):
            text.set_fontsize(SMALLEST)
