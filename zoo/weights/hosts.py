"""Hosts of weights: requests to them, why they fail, and which can be reached.

A host that did not answer is not waited for again within a minute of this process.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..version import __version__

if TYPE_CHECKING:
    import requests

    from .connections import Connections

_VALID_S = 60.0  # after which a host is asked again
_HOSTS = {"timm": "huggingface.co", "hf": "huggingface.co", "torchvision": "download.pytorch.org"}

_silent: dict[str, tuple[float, str]] = {}  # why a host could not be reached, and when


def send_request(
    method: str, address: str, *, connections: Connections | None = None, **options: Any
) -> requests.Response:
    """A request with the proxies of the environment, and its certificates (also those of ``SSL_CERT_FILE``).

    ``connections`` has been entered; of a request without, the body has come when this returns.
    """
    import requests  # which listing needs not

    from .connections import Connections, RegisteringAdapter

    about = {"User-Agent": f"ssl-zoo/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}
    options |= {"headers": about | options.get("headers", {}), "verify": os.environ.get("SSL_CERT_FILE") or True}
    with requests.Session() as session, Connections() if connections is None else nullcontext():
        for scheme in ("http://", "https://"):
            session.mount(scheme, RegisteringAdapter())
        return session.request(method, address, **options)


def get_silence_reason(address: str) -> str:
    """Why the host of an address could not be reached a moment ago; "" if that was not tried, or it answered."""
    when, reason = _silent.get(urlsplit(address).netloc, (0.0, ""))
    return reason if reason and time.monotonic() - when < _VALID_S else ""


def remember_silent_host(address: str, reason: str) -> None:
    """Notes that the host of an address could not be reached."""
    _silent[urlsplit(address).netloc] = time.monotonic(), reason


def parse_host(location: str) -> str | None:
    """The host of a location of weights, with its port if it is stated; None if it has none.

    >>> parse_host("timm:resnet50x4_clip.openai"), parse_host("https://github.com/a/b")
    ('huggingface.co', 'github.com')
    """
    parts = urlsplit(location)
    return _HOSTS.get(parts.scheme) or parts.netloc or None


def find_unreachable(addresses: Iterable[str], *, seconds: float) -> dict[str, str]:
    """Why each address (``https://github.com/``) that gives no answer to a HEAD request does not; any status is one."""

    def refusal(address: str) -> str:
        try:
            send_request("HEAD", address, timeout=seconds)
            return ""
        except (OSError, ValueError) as error:  # those of requests, and of a proxy that is no address
            return describe_request_error(error, address, seconds)

    every = list(addresses)
    with ThreadPoolExecutor(max(1, len(every))) as pool:
        return {address: reason for address, reason in zip(every, pool.map(refusal, every), strict=True) if reason}


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and those that it was raised from or holds, the outermost first."""
    yield error
    for inner in (getattr(error, "reason", None), error.__cause__, *error.args):
        if isinstance(inner, BaseException):
            yield from _causes(inner)


def format_root_cause(error: BaseException) -> str:
    """The text of the last of the causes, on one line."""
    last = [*_causes(error)][-1]
    return str(last).rpartition(": ")[2].replace("\n", " ") or type(last).__name__


def is_unconnected(error: BaseException) -> bool:
    """Whether no connection was made at all."""
    kinds = ("NewConnectionError", "NameResolutionError", "ConnectTimeout")
    return any(type(one).__name__ in kinds for one in _causes(error))


def describe_request_error(error: BaseException, address: str, timeout_s: float) -> str:
    """Why a request of requests or urllib3 failed, as the end of a sentence."""
    kinds = {kind.__name__ for one in _causes(error) for kind in type(one).__mro__}
    if is_unconnected(error):
        through = " through the proxy" if "ProxyError" in kinds else ""
        return f"there is no connection to {urlsplit(address).netloc}{through} ({format_root_cause(error)})"
    if kinds & {"TimeoutError", "Timeout"}:
        return f"nothing came for {timeout_s:g} s"
    return f"the connection was broken ({format_root_cause(error)})"


def is_page(answer: requests.Response) -> bool:
    """True for a web page, as hosts send it for a login, a warning or a used-up quota."""
    return answer.headers.get("Content-Type", "").partition(";")[0].strip() in ("text/html", "application/xhtml+xml")


def is_encoded(answer: requests.Response) -> bool:
    """True if what comes is not the file byte for byte, although it was asked for."""
    return answer.headers.get("Content-Encoding", "").strip().lower() not in ("identity", "")


def parse_content_length(answer: requests.Response) -> int | None:
    """Bytes of the file, where the server says so."""
    length = answer.headers.get("Content-Length", "").strip()
    is_chunked = "chunked" in answer.headers.get("Transfer-Encoding", "").lower()
    return int(length) if re.fullmatch(r"\d{1,18}", length) and not (is_chunked or is_encoded(answer)) else None
