"""The origin of features, and whether two sets of features may be used together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from typing import Any, Protocol

from ..errors import DataError
from ..version import __version__

CODE_NUMBER = 1
"""Counts the versions of this package that give other features than the one before, beyond rounding.

It is increased whenever the same encoder, preprocessing and images would give different features: another order or
choice of rows, another treatment of precision, another hash. It stays when only speed, messages or the format on disk
change. The version of the zoo next to it is for people and decides nothing: a release alone makes no features stale.
"""

TORCH = "torch"
"""The backend of features that PyTorch computed, as all were before there were others."""

_NAMED = {  # facts in the words of messages
    "encoder": "encoder",
    "dataset": "data set",
    "split": "split",
    "weights_hash": "weights",
    "preprocess_hash": "preprocessing",
    "images_hash": "images",
    "representation": "representation",
    "precision": "precision",
    "code_version": "featurising code",
}
FACTS = tuple(_NAMED)
"""Names of the facts that decide whether two sets of features are of one origin."""
_OF_ENCODER = ("encoder", "weights_hash", "preprocess_hash", "representation", "precision", "code_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What features were computed from. Two sets of features may be compared or joined only if these facts agree."""

    encoder: str  # id
    dataset: str
    split: str
    weights_hash: str  # of every tensor of the encoder
    preprocess_hash: str
    images_hash: str  # ImageSet.fingerprint
    representation: str  # "card", or which features of the encoder, as "cls of blocks 9+10+11"
    precision: str  # of the forward pass: "float32", "bfloat16", "float16"; "bfloat16 weights" if they are stored so;
    #                 with ", stored as float16" where the numbers were rounded to be stored
    code_version: str  # see code_version()
    n_skipped: int = 0  # images that could not be read, and were left out on request
    backend: str = TORCH  # what ran the forward pass; decides nothing, for it proved equal (zoo.features.backends)


class HasOrigin(Protocol):
    """Features, as far as their origin goes."""

    @property
    def origin(self) -> Origin:
        """What they were computed from."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the labels."""


def get_code_version() -> str:
    """The version of the zoo, and the number of its featurising code, which alone decides.

    >>> get_code_version().endswith(f", featurising {CODE_NUMBER}")
    True
    """
    return f"zoo {__version__}, featurising {CODE_NUMBER}"


def describe_origin_differences(one: Origin, other: Origin, *, among: tuple[str, ...] = FACTS) -> list[str]:
    """The facts in which two origins differ, in words; hashes by their beginnings."""
    different = []
    for name in among:
        first, second = getattr(one, name), getattr(other, name)
        if _decisive(name, first) != _decisive(name, second):
            different.append(f"{_NAMED[name]} ({_short(name, first)} and {_short(name, second)})")
    return different


def require_comparable(one: HasOrigin, other: HasOrigin) -> None:
    """Refuses two sets of features that one probe cannot use, such as of training and of test images.

    They must come from the same encoder, weights, preprocessing, representation, precision and featurising code, and
    their labels must mean the same classes; data set and split may differ.

    Parameters
    ----------
    one, other : Features

    Raises
    ------
    DataError
        Says in what they differ.
    """
    different = describe_origin_differences(one.origin, other.origin, among=_OF_ENCODER)
    if one.classes and other.classes and one.classes != other.classes:
        different.append(_classes_differ(one.classes, other.classes))
    if different:
        raise DataError(
            f"The features of {describe_dataset_split(one.origin)} and of {describe_dataset_split(other.origin)} "
            "cannot be used together, for they "
            f"differ in {' and '.join(different)}; compute one of them again as the other was."
        )


def describe_dataset_split(origin: Origin) -> str:
    """Data set and split in a sentence."""
    return f"{origin.dataset!r} ({origin.split})"


def compute_run_hash(origin: Origin, *, shard_size: int) -> str:
    """A hash of the origin and the size of shards, which every shard of one folder has."""
    decisive = {field.name: _decisive(field.name, getattr(origin, field.name)) for field in fields(origin)}
    del decisive["backend"]
    decisive |= {"n_skipped": 0, "shard_size": shard_size}  # how many are skipped is known at the end only
    return blake2b(json.dumps(decisive, sort_keys=True).encode(), digest_size=16).hexdigest()


_STORED_AS = ", stored as "


def format_storage(precision: str, stored: str) -> str:
    """A precision of an origin, with the type in which the numbers are stored if that is not float32.

    >>> format_storage("float32", "float16"), format_storage("float32", "float32")
    ('float32, stored as float16', 'float32')
    """
    return precision if stored == "float32" else f"{precision}{_STORED_AS}{stored}"


def get_stored_type(precision: str) -> str:
    """The type in which the numbers of an origin with this precision are stored.

    >>> get_stored_type("bfloat16, stored as float16"), get_stored_type("bfloat16")
    ('float16', 'float32')
    """
    return precision.partition(_STORED_AS)[2] or "float32"


def parse_origin(facts: Mapping[str, Any]) -> Origin:
    """An origin from a file; ValueError if a fact is missing, unknown or of another type."""
    types = {field.name: int if field.name == "n_skipped" else str for field in fields(Origin)}
    known = {"backend": TORCH, **facts}
    if known.keys() != types.keys() or any(type(known[name]) is not kind for name, kind in types.items()):
        raise ValueError("its origin is not that of features")
    return Origin(**known)


def build_origin_document(origin: Origin) -> dict[str, Any]:
    """An origin as JSON, which :func:`parse_origin` reads; without the backend where that is PyTorch."""
    facts = asdict(origin)
    if origin.backend == TORCH:
        del facts["backend"]
    return facts


def _decisive(name: str, fact: Any) -> Any:
    """The part of a fact that decides: of the version of the code its number alone."""
    return str(fact).rpartition(" ")[2] if name == "code_version" else fact


def _short(name: str, fact: str) -> str:
    return f"{fact[:8]}..." if name.endswith("_hash") and len(fact) > 8 else repr(fact)


def _classes_differ(one: tuple[str, ...], other: tuple[str, ...]) -> str:
    if len(one) != len(other):
        return f"number of classes ({len(one):,} and {len(other):,})"
    first = next(label for label, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
    return f"what label {first} means ({one[first]!r} and {other[first]!r})"
