"""What can be learned of a file of weights without fetching it: what is recorded of it, and what its host answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Access: TypeAlias = Literal["open", "gated", "gone", "changed", "unreachable", "here"]

ACCESS: dict[Access, str] = {
    "open": "everybody can fetch it, and it is the recorded file as far as something is recorded",
    "gated": "its host gives it to those alone whom its publisher admits",
    "gone": "its host answers, and has no such file, repository or revision any more",
    "changed": "there is a file, and it is another than the recorded one",
    "unreachable": "its host could not be asked, or gave no answer that says which of these it is",
    "here": "on this machine, where no host is asked",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A place, and what is known of the file there; empty where nothing is."""

    place: str
    revision: str = ""  # of its repository on the Hub
    sha256: str = ""
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the host of a place says."""

    access: Access
    detail: str = ""  # what makes it so, or what was found
    revision: str = ""  # of the repository on the Hub
    sha256: str = ""  # of the file, where the host states it
    size_bytes: int | None = None
