"""Cards and measurements as tables with the column names of the published study.

Scripts written for the study's own hub keep working: :func:`metadata_dict`, :func:`metadata_df` and :func:`results_df`
have its names, its columns and its order of arguments. Facts come corrected from the cards and components signed from
the raw risks; ``as_published=True`` gives what was published instead, faults included, to the last digit.

Where only the sum of approximation and usability is known, as for 23 encoders, both columns are missing, because the
published layout has no column for the sum: whoever adds up the four components of such an encoder gets less than its
error. ``results_df(extended=True)`` has the column.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .cards import catalogue
from .columns import COLUMNS
from .metadata import Missing
from .optional import requires_extra
from .publishedlayout import EXTENDED_LAYOUT, LAYOUT, METADATA_ORDER, facts_of, published_blank, published_ids
from .results import SETTINGS
from .studyrows import published_rows

if TYPE_CHECKING:
    import pandas as pd

_DTYPES = {
    "text": "string", "whole number": "Int64", "number": "float64", "true or false": "boolean", "list": "object",
}  # fmt: skip


def metadata_dict(
    drop_missing: bool = True, *, is_lower: bool = False, as_published: bool = False
) -> dict[str, dict[str, dict[str, Any]]]:
    """Facts of every card, as encoder id -> section -> column -> value.

    Parameters
    ----------
    drop_missing : bool
        Without the facts that have no value; ``False`` keeps them as :class:`zoo.metadata.Missing`.
    is_lower : bool
        Ids in lower case.
    as_published : bool
        What was published and nothing else: its 200 encoders in its order, facts that are wrong included, ``views`` a
        number where it is one; facts without a value are None or, where they were written so, ``"???"``.
    """
    cards = catalogue()
    table: dict[str, dict[str, dict[str, Any]]] = {}
    for encoder, facts in _all_facts(as_published).items():
        sections: dict[str, dict[str, Any]] = {column.section: {} for column in COLUMNS}
        for column in COLUMNS:
            value = facts[column.name]
            if as_published and column.name == "views" and isinstance(value, str) and value.isdigit():
                value = int(value)
            if isinstance(value, Missing):
                if drop_missing:
                    continue
                value = published_blank(cards[encoder], column, value) if as_published else value
            sections[column.section][column.name] = value
        table[encoder.lower() if is_lower else encoder] = sections
    return table


def metadata_df(
    is_multiindex: bool = False, is_lower: bool = True, drop_missing: bool = True, *, as_published: bool = False
) -> pd.DataFrame:
    """Facts of every card, one row an encoder, one column a fact of :data:`zoo.columns.COLUMNS`, in published order.

    Parameters
    ----------
    is_multiindex : bool
        Columns of two levels, section and name.
    is_lower : bool
        Ids in lower case, as the published table has them.
    drop_missing : bool
        Missing facts are NA in typed columns; ``False`` keeps the two kinds apart, as :class:`zoo.metadata.Missing`
        in columns of objects.
    as_published : bool
        What was published and nothing else: its 200 encoders in its order, facts that are wrong included.

    Returns
    -------
    DataFrame indexed by the ids; text is ``string``, whole numbers ``Int64``, numbers ``float64``, truth values
    ``boolean``, the lists of augmentations ``object``.
    """
    _require_pandas("metadata_df")
    import pandas as pd

    rows = _all_facts(as_published)
    by_name = {column.name: column for column in COLUMNS}
    columns = [by_name[name] for name in METADATA_ORDER]
    frame = pd.DataFrame(index=_index(rows, is_lower).rename(None))
    for column in columns:
        values = [facts[column.name] for facts in rows.values()]
        typed = drop_missing or not any(isinstance(value, Missing) for value in values)
        cells = [None if typed and isinstance(value, Missing) else value for value in values]
        frame[column.name] = pd.Series(cells, index=frame.index, dtype=_DTYPES[column.kind] if typed else "object")
    if is_multiindex:
        frame.columns = pd.MultiIndex.from_tuples([(column.section, column.name) for column in columns])
    return frame


def results_df(
    is_multiindex: bool = True,
    is_lower: bool = True,
    drop_missing: bool = True,
    *,
    as_published: bool = False,
    exclude_wrong: bool = False,
    extended: bool = False,
) -> pd.DataFrame:
    """The published table: 169 encoders, their risks, facts and feature statistics, in the published order.

    The columns approx and usability are missing for the 23 encoders of which only their sum is known, so that the four
    components of these add up to less than their error; ``extended`` has the sum.

    Parameters
    ----------
    is_multiindex : bool
        Columns of two levels: risk_decomposition, metrics, hyperparameters, metadata or statistics; and the name.
    is_lower : bool
        Ids in lower case, as the published table has them.
    drop_missing : bool
        Missing cells are NaN; ``False`` keeps the two kinds apart, as :class:`zoo.metadata.Missing` in columns of
        objects.
    as_published : bool
        Every cell and type as it was published: components clipped at 0, wrong facts, licences in the words of their
        authors. Else components are signed, facts corrected and licences SPDX.
    exclude_wrong : bool
        Without the measurements that an erratum excludes, and without encoders of which none is left.
    extended : bool
        Two more columns after the four components: ``approx_plus_usability``, which every encoder has, signed and
        never clipped, and ``approx_is_assumed``, true where approx is 0 because nobody measured it.

    Returns
    -------
    DataFrame with the index ``enc`` and 117 columns, or 119 if extended; errors in percent, components in percentage
    points; augmentations are text, as they were published (:func:`metadata_df` has lists).
    """
    _require_pandas("results_df")
    import pandas as pd

    few_shot = SETTINGS[-1].column  # measured for the encoders of the table and no others
    rows = {
        encoder: cells
        for encoder, cells in published_rows(as_published=as_published, exclude_wrong=exclude_wrong).items()
        if not isinstance(cells[few_shot], Missing)
    }
    columns = {
        (section, name): _column([cells[name] for cells in rows.values()], drop_missing)
        for section, name in (EXTENDED_LAYOUT if extended else LAYOUT)
    }
    frame = pd.DataFrame(columns).set_axis(_index(rows, is_lower), axis="index")
    return frame if is_multiindex else frame.droplevel(0, axis="columns")


def _all_facts(as_published: bool) -> dict[str, dict[str, Any]]:
    cards = catalogue()
    return {encoder: facts_of(cards[encoder], as_published) for encoder in (published_ids() if as_published else cards)}


def _column(values: list[Any], drop_missing: bool) -> pd.Series[Any]:
    """The types are those that pandas gives the published file: the plain ones, float where a number is missing."""
    import pandas as pd

    if not drop_missing and any(isinstance(value, Missing) for value in values):
        return pd.Series(values, dtype="object")
    return pd.Series([math.nan if isinstance(value, Missing) else value for value in values])


def _index(encoders: Iterable[str], is_lower: bool) -> pd.Index[Any]:
    import pandas as pd

    return pd.Index([encoder.lower() if is_lower else encoder for encoder in encoders], name="enc")


def _require_pandas(needed_for: str) -> None:
    with requires_extra("tables", needed_for=needed_for):
        import pandas  # noqa: F401
