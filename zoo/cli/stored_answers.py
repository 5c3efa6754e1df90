"""Answers of verbs that measure, as they were given: asked for again, they are read, without PyTorch.

The file of an answer is named by the hash of its question: the verb and its options, the cards, what is known of the
images, and the versions of the zoo's source, of Python and of the libraries that compute features, so that no other
code's answer is taken for this one's. Its first line is the hash of the answer: whatever is damaged, or cannot be read,
counts as no answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cards.catalogue import load_catalogue
from ..cards.content_cache import read_stamp
from ..execution.executor import collect_versions
from ..files import format_path_part, list_content_names, replace_file

if TYPE_CHECKING:
    from ..datasets import DenseData, ImageData
    from ..results.rows import Measurement

_FORMAT = "zoo-answer-2"


class StoredAnswer:
    """The place of the answer to one question."""

    def __init__(self, folder: Path, question: Any) -> None:
        text = json.dumps([_FORMAT, question, collect_versions()], sort_keys=True, default=str)
        self._path = folder / "answers" / f"{_hash(text.encode())}.answer"

    def find(self) -> dict[str, Any] | None:
        """The answer; None if there is none."""
        try:
            digest, _, text = self._path.read_bytes().partition(b"\n")
        except OSError:
            return None
        if digest != _hash(text).encode():
            return None
        answer: dict[str, Any] = json.loads(text)
        return answer

    def store(self, answer: Mapping[str, Any]) -> None:
        """Writes an answer; without room for it, it is found anew the next time."""
        text = json.dumps(answer, default=lambda array: array.tolist()).encode()  # NumPy's
        try:
            with replace_file(self._path) as file:
                file.write(_hash(text).encode() + b"\n" + text)
        except OSError:
            return


def locate_encoder_answer(root: Path, name: str, data: ImageData, question: Mapping[str, Any]) -> StoredAnswer:
    """The answer of a verb on one encoder and these images, below the folder of all evaluations."""
    asked = {**question, "card": _tell_card(name), "images": describe_image_sets(data), "folder": str(root)}
    return StoredAnswer(root / format_path_part(name), asked)


def describe_image_sets(*several: ImageData | DenseData) -> list[Any]:
    """Everything of images, and of their masks, that an answer may depend on."""
    told: list[Any] = []
    for data in several:
        for part in (data.train, data.val):
            images: Any = part.images if hasattr(part, "maps") else part
            hashes = [
                None if one is None else blake2b(one.tobytes()).hexdigest() for one in (images.contents, images.groups)
            ]
            told.append([images.name, images.split, images.fingerprint, len(images), images.classes, images.tags])
            told[-1] += [images.target, images.reading.as_dict(), *hashes, part.fingerprint, part.classes]
    return told


def list_content_stamps() -> list[Any]:
    """Stamps of all cards and results, of which the answers of some verbs are made."""
    names = [*list_content_names("metadata", ".toml"), *list_content_names("results", ".csv")]
    return [*map(read_stamp, names)]


def encode_rows(rows: Mapping[Measurement, Mapping[str, Any]]) -> list[Any]:
    """Rows with their provenance as JSON."""
    return [[asdict(row), about] for row, about in rows.items()]


def decode_rows(packed: Sequence[Any]) -> dict[Measurement, dict[str, Any]]:
    """Rows with their provenance from JSON."""
    from ..results.rows import Measurement

    return {Measurement(**row): about for row, about in packed}


def _hash(text: bytes) -> str:
    return blake2b(text, digest_size=16).hexdigest()


def _tell_card(name: str) -> Any:
    return [name, asdict(load_catalogue()[name])]
