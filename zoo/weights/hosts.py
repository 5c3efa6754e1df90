"""Which hosts of weights can be reached: each is asked once per command, so that a missing network is waited for once.

The answers last as long as the outermost :func:`asking_once`: one call of ``zoo.load``, or one run of the command
``zoo``, where a host is asked again after a minute. Another call asks again, for the network may be back.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..errors import MissingExtra

if TYPE_CHECKING:
    from .reach import Question

HUB = "hub:"  # stands for the Hugging Face Hub, which huggingface_hub's client has to reach
CONNECT_TIMEOUT_S = 3.0  # within which a host must accept a connection

_SLOW_S = 0.3  # without an answer for so long, the other hosts that may be needed are asked meanwhile
_VALID_S = 60.0  # after which a host is asked again


@dataclass(slots=True)
class _Memory:
    expected: set[str] = field(default_factory=set)  # addresses that may be needed
    asked: dict[str, tuple[float, Question]] = field(default_factory=dict)  # with the time of asking


_memory: ContextVar[_Memory | None] = ContextVar("hosts that were asked", default=None)


@contextmanager
def asking_once(places: Iterable[str] = ()) -> Iterator[None]:
    """Within this block no host is asked twice; ``places`` are those of the files that may be needed."""
    outer = _memory.get()
    memory = outer or _Memory()
    memory.expected.update(address for place in places if (address := _address_of(place)))
    token = _memory.set(memory)
    try:
        yield
    finally:
        _memory.reset(token)


def why_unreachable(address: str) -> str:
    """Why the host of an address (http, https or :data:`HUB`) cannot be reached, to end a sentence; "" if it can."""
    memory = _memory.get() or _Memory()
    question = _asked(memory, _host(address))
    if not question.is_answered(within_s=_SLOW_S):
        for other in sorted(memory.expected):
            with suppress(MissingExtra):  # for a place that may never be needed
                _asked(memory, other)
    return question.reason() or ""


def forget(address: str) -> None:
    """After a request that failed: the host is asked again before the next one."""
    if (memory := _memory.get()) is not None:
        memory.asked.pop(_host(address), None)


def _asked(memory: _Memory, host: str) -> Question:
    """The question whether a host can be reached, asked now if it was not asked lately."""
    from .reach import Question, no_connection

    before = memory.asked.get(host)
    if before is not None and time.monotonic() - before[0] < _VALID_S:
        return before[1]
    ask, name = no_connection, urlsplit(host).netloc
    if host == HUB:
        from .hub_connection import HOST as name  # noqa: N811
        from .hub_connection import no_connection as ask  # half a second that only the Hub needs
    question = Question(host, ask, seconds=CONNECT_TIMEOUT_S, who=f"{name} gave")
    memory.asked[host] = time.monotonic(), question
    return question


def _host(address: str) -> str:
    parts = urlsplit(address)
    return address if address == HUB else f"{parts.scheme}://{parts.netloc}"


def _address_of(place: str) -> str | None:
    """The address that a place is likely to be downloaded from; None for a file."""
    scheme = place.partition(":")[0].lower()
    if scheme in ("http", "https"):
        with suppress(ValueError):  # not an address, as the error says when it is needed
            return _host(place)
    return {"hf": HUB, "timm": HUB, "torchvision": "https://download.pytorch.org"}.get(scheme)
