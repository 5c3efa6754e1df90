"""The settings of trees that were tuned once: reading ``analysis/tuned_trees.toml``, and writing it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ContentError, QueryError
from ..files import content_folder, replaced
from .trees import checked_parameters

if TYPE_CHECKING:
    from .tree_search import Tuned

FILE = "tuned_trees.toml"
LIBRARIES = ("xgboost", "optuna", "numpy", "pandas")
_HEAD = """\
# Settings of boosted trees by set of features and outcome; zoo.analysis.stored_trees reads and writes this file.
#
# "error" is the mean of the fold RMSEs on the folds of the search, in percentage points. It is the least of all that
# the search saw and flatters. "by_fold" and "pooled" are explained variance in percent over one division into 30 other
# folds; they may still flatter, for the settings have seen the same encoders. "nested_by_fold" and "nested_pooled",
# where they are given, do not: over the same 30 folds, each is predicted with settings that were searched anew, as
# thoroughly, without it.
"""


def tuned_parameters(outcome: str, features: str | Sequence[str] = "few") -> dict[str, Any]:
    """The stored settings of the trees of an outcome, as :func:`zoo.analysis.trees.checked_parameters` takes them.

    Raises
    ------
    QueryError
        If nobody tuned that outcome with these features.
    ContentError
        If the file is missing or damaged.
    """
    return dict(stored_tuning(outcome, features)["parameters"])


def stored_tuning(outcome: str, features: str | Sequence[str] = "few") -> Mapping[str, Any]:
    """Everything that is stored of one search: ``parameters``, ``error``, ``n``, ``n_trials``, ..., and ``how``.

    Errors are those of :func:`tuned_parameters`.
    """
    document = _document(content_folder("analysis") / FILE)
    sets = {name: entries for name, entries in document.items() if name != "how"}
    entry = sets.get(features, {}).get(outcome) if isinstance(features, str) else None
    if entry is None:
        known = "; ".join(f"{name}: {', '.join(entries)}" for name, entries in sets.items())
        raise QueryError(
            f"No settings of trees are stored for {outcome} with the features {features!r}, expected one of {known}; "
            "give parameters, such as those that zoo.analysis.tree_tuning.tune finds."
        )
    return {**entry, "how": document["how"]}


def written_parameters(
    tunings: Iterable[Tuned],
    path: Path,
    *,
    date: str,
    table: str,
    scores: Mapping[tuple[str, str], Mapping[str, float]] | None = None,
) -> Path:
    """Writes what was tuned where :func:`tuned_parameters` will find it.

    Parameters
    ----------
    tunings : iterable of Tuned
    path : Path
        ``analysis/tuned_trees.toml`` of a checkout; replaced whole.
    date, table : str
        When it was tuned, ``2026-11-20``, and on which rows.
    scores : mapping, optional
        By set of features and outcome, percentages to be kept with the settings: ``by_fold`` and ``pooled`` of
        :func:`zoo.analysis.importance.explained_variance`, and those of :func:`zoo.analysis.importance.nested_variance`
        as ``nested_by_fold`` and ``nested_pooled``.

    Raises
    ------
    QueryError
        If there is nothing to write.
    OSError
        If the file cannot be written.
    """
    found = list(tunings)
    if not found:
        raise QueryError("Got no tuned settings to write, expected at least one; tune an outcome first.")
    how = {
        "function": "zoo.analysis.tree_tuning.tune_all", "table": table, "n_folds": found[0].n_folds,
        "seed": found[0].seed, "sampler": found[0].sampler,
        "libraries": ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
    }  # fmt: skip
    lines = [_HEAD, "[how]", f"date = {date}", *(f"{name} = {_toml(value)}" for name, value in how.items())]
    for tuned in found:
        settings = ", ".join(f"{name} = {_toml(value)}" for name, value in tuned.parameters.items())
        lines += ["", f"[{tuned.features}.{tuned.outcome}]", f"parameters = {{ {settings} }}"]
        lines += [f"{name} = {_toml(getattr(tuned, name))}" for name in ("error", "n", "n_trials", "n_pruned")]
        known = (scores or {}).get((tuned.features, tuned.outcome), {})
        lines += [f"{name} = {value:.2f}" for name, value in known.items()]
    with replaced(path) as file:
        file.write(("\n".join(lines) + "\n").encode())
    _document.cache_clear()
    return path


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)  # a float as long as it must be to be read back


@cache
def _document(path: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ContentError(
            f"The stored settings of trees at {path} cannot be read ({error}); "
            "reinstall ssl-zoo or clone the repository again."
        ) from error
    for features, entries in document.items():
        for outcome, entry in entries.items() if features != "how" else ():
            try:
                checked_parameters(entry["parameters"])
            except (KeyError, QueryError) as error:
                raise ContentError(f"The entry {features}.{outcome} of {path} is wrong: {error}") from error
    return document
