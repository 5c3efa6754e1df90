"""Subsets as small JSON files: the positions, where they came from, and a hash of everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..atomic import replaced
from ..errors import DataError
from ..optional import requires_extra
from .imagesets import ImageSet
from .subsets import KINDS, Subset, require_parent

with requires_extra("models", needed_for="Working with images"):
    import numpy as np

_FORMAT = "zoo-subset-1"
_FACTS = {"name": str, "kind": str, "amount": float, "seed": int, "parent": str, "n_parent": int}


def save_subset(subset: Subset, path: str | Path) -> Path:
    """Writes an index file; it appears whole or not at all, and the same subset gives the same bytes.

    Raises
    ------
    DataError
        If the file cannot be written; says why.
    """
    target = Path(path)
    document = {
        "format": _FORMAT,
        **{fact: getattr(subset, fact) for fact in _FACTS},
        "fingerprint": subset.fingerprint,
        "indices": subset.indices.tolist(),
    }
    try:
        with replaced(target) as file:
            file.write(f"{json.dumps(document)}\n".encode())
    except OSError as error:
        raise DataError(f"The subset could not be written to {target} ({error}); nothing was changed.") from error
    return target


def load_subset(path: str | Path, *, of: ImageSet | None = None) -> Subset:
    """Reads what :func:`save_subset` wrote.

    Parameters
    ----------
    path : path
    of : ImageSet, optional
        The set that the subset must be of.

    Raises
    ------
    DataError
        If the file is absent, damaged or edited, no index file, or of another image set; says which.
    """
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise DataError(f"There is no index file {path}; write one with zoo.datasets.save_subset.") from error
    except OSError as error:
        raise DataError(f"The index file {path} cannot be read ({error}).") from error
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"The index file {path} is damaged ({error}); make the subset again.") from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise DataError(f"The file {path} is no index file of this zoo; expected one of zoo.datasets.save_subset.")
    subset = _checked(document, path)
    if of is not None:
        require_parent(subset, of.fingerprint, len(of), name=of.name)
    return subset


def _checked(document: dict[str, Any], path: str | Path) -> Subset:
    """The subset, if every fact is there with its type and the hash is that of the facts."""
    facts = {fact: document.get(fact) for fact in _FACTS}
    indices = document.get("indices")
    well_typed = (
        all(type(facts[fact]) is kind for fact, kind in _FACTS.items())
        and facts["kind"] in KINDS
        and isinstance(indices, list)
        and all(type(index) is int and 0 <= index < 2**62 for index in indices)
    )
    if well_typed:
        try:
            subset = Subset(**facts, indices=np.array(indices, np.int64))  # type: ignore[arg-type]
        except DataError:
            well_typed = False  # indices that no subset has, so that they were never written
        else:
            well_typed = subset.fingerprint == document.get("fingerprint")
    if well_typed:
        return subset
    raise DataError(
        f"The index file {path} was changed after it was written (its hash is not that of its content); make the "
        "subset again."
    )
