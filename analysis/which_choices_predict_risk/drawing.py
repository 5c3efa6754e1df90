"""Figures of SHAP values of many choices, drawn by the library shap: what matters most, and all choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import MaxNLocator

from zoo.analysis.importance import Importance
from zoo.studies.shap import format_shap_axes, make_shap_panels


def build_explanation(found: Importance, labels: Mapping[str, str]) -> Any:
    """SHAP values as the library's ``Explanation``, (n encoders, features), with the choices as data."""
    import shap

    names = [str(name) for name in found.shap.columns]
    values = found.values.astype(object)
    values.loc[:, values.isna().all()] = "missing"  # grey; NaN alone would be a warning
    return shap.Explanation(
        values=found.shap.to_numpy(),
        base_values=np.full(found.n, found.base),
        data=values.to_numpy(dtype=object),
        feature_names=[labels.get(name, name) for name in names],
    )


def draw_bars(
    found: Sequence[Importance], titles: Sequence[str], labels: Mapping[str, str], *, n_features: int = 8
) -> Drawing:
    """Mean absolute SHAP values of the most important choices, a panel an outcome."""
    import shap

    drawing, panels = make_shap_panels(found, n_columns=3, height=0.2 * n_features + 0.8)
    for axes, one, title in zip(panels, found, titles, strict=False):
        shap.plots.bar(build_explanation(one, labels), max_display=n_features + 1, ax=axes, show=False)
        format_shap_axes(axes, f"{title}, n = {one.n}\nmean |SHAP| [points]")
    return drawing


def draw_swarms(
    found: Sequence[Importance], titles: Sequence[str], labels: Mapping[str, str], *, n_features: int = 14
) -> Drawing:
    """SHAP values of every encoder, a panel per outcome, a row per choice: blue for small numbers, red for large."""
    import shap

    drawing, panels = make_shap_panels(found, n_columns=2, height=0.19 * n_features + 0.8)
    for axes, one, title in zip(panels, found, titles, strict=False):
        shap.plots.beeswarm(
            build_explanation(one, labels),
            max_display=n_features,
            ax=axes,
            show=False,
            plot_size=None,
            color_bar=False,
            group_remaining_features=False,
            s=5,
        )
        axes.xaxis.set_major_locator(MaxNLocator(5, prune="upper"))
        format_shap_axes(axes, f"{title}, n = {one.n}\nSHAP value [points], negative is better")
    return drawing
