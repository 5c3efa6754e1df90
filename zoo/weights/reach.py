"""Whether a host can be reached from here, through the proxies of the environment and within a few seconds."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterable
from socket import gaierror
from typing import Any, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import AbstractHTTPHandler, OpenerDirector, ProxyHandler, Request, urlopen

Ask = Callable[[str, float], str | None]
"""From an address and seconds to why it is unreachable; None if it is not."""

_HOSTS = {"timm": "huggingface.co", "hf": "huggingface.co", "torchvision": "download.pytorch.org"}


def host_of(location: str) -> str | None:
    """The host of a location of weights, with its port if it is stated; None if it has none.

    >>> host_of("timm:resnet50x4_clip.openai"), host_of("https://github.com/a/b")
    ('huggingface.co', 'github.com')
    """
    parts = urlsplit(location)
    return _HOSTS.get(parts.scheme) or parts.netloc or None


class Question:
    """One address, asked by a thread, for a resolver that hangs cannot be interrupted otherwise.

    Without an answer after ``seconds`` it counts as unreachable, in a sentence that begins with ``who``, until the
    answer comes after all.
    """

    def __init__(self, address: str, ask: Ask, *, seconds: float, who: str = "") -> None:
        self._address, self._ask, self._seconds, self._who = address, ask, seconds, who
        self._reason: str | None = None
        self._answered = threading.Event()
        self._deadline = time.monotonic() + seconds
        threading.Thread(target=self._run, daemon=True).start()

    def is_answered(self, *, within_s: float) -> bool:
        """Waits for the answer, at most so long."""
        return self._answered.wait(within_s)

    def reason(self) -> str | None:
        """Why the address is unreachable, once that is known or the time is over; None if it is not."""
        if self._answered.wait(max(0.0, self._deadline - time.monotonic())):
            return self._reason
        return f"{self._who} no answer in {self._seconds:g} seconds".strip()

    def _run(self) -> None:
        self._reason = self._ask(self._address, self._seconds)
        self._answered.set()


def unreachable(addresses: Iterable[str], *, seconds: float) -> dict[str, str]:
    """Why each address (``https://github.com/``) that does not answer a HEAD request does not.

    Any HTTP status is an answer. ``seconds`` are for all of them together.
    """
    questions = {address: Question(address, _refusal, seconds=seconds) for address in addresses}
    reasons = {address: question.reason() for address, question in questions.items()}
    return {address: reason for address, reason in reasons.items() if reason is not None}


def _refusal(address: str, seconds: float) -> str | None:
    try:
        with urlopen(Request(address, method="HEAD"), timeout=seconds):
            return None
    except HTTPError as error:
        error.close()
        return None
    except URLError as error:
        return str(error.reason)
    except (OSError, http.client.HTTPException, ValueError) as error:  # the last of a proxy that is no address
        return str(error) or type(error).__name__


def no_connection(address: str, seconds: float) -> str | None:
    """Why no connection to ``scheme://host:port`` can be made; None if one can. No request is sent."""
    opener = OpenerDirector()
    for handler in (ProxyHandler(), _Connecting()):
        opener.add_handler(handler)
    request = Request(address)
    host = request.host
    try:
        opener.open(request, timeout=seconds / 2)  # an address: a host may have two, of which the first is a dead end
    except _ConnectedError:
        return None
    except URLError as error:
        return words(error.reason, host=host, proxy="" if request.host == host else request.host)
    except (OSError, http.client.HTTPException, ValueError) as error:  # the last of a proxy that is no address
        return words(error, host=host)
    return None


def words(error: object, *, host: str, proxy: str = "") -> str:
    """Why a host cannot be connected to, as the end of a sentence; hosts with their ports, if those are stated."""
    if isinstance(error, gaierror):
        return f"there is no host {(proxy or host).partition(':')[0]}"
    reason = str(error).replace("\n", " ") or type(error).__name__
    return f"there is no connection to {host}{f' through the proxy {proxy}' if proxy else ''} ({reason})"


class _ConnectedError(Exception):
    """A connection was made; no request is needed."""


class _Connection(http.client.HTTPConnection):
    def connect(self) -> NoReturn:
        super().connect()
        raise _ConnectedError


class _SafeConnection(_Connection):
    default_port = http.client.HTTPS_PORT


class _Connecting(AbstractHTTPHandler):
    """Connects as urllib does, to the host or through a proxy, and stops before TLS, which the real request does."""

    def http_open(self, request: Request) -> Any:
        return self.do_open(_Connection, request)

    def https_open(self, request: Request) -> Any:
        return self.do_open(_SafeConnection, request)

    http_request = https_request = AbstractHTTPHandler.do_request_
