"""Hosts of weights: those that did not answer in this process are not waited for again; which can be reached."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from ..version import __version__

_VALID_S = 60.0  # after which a host is asked again
_HOSTS = {"timm": "huggingface.co", "hf": "huggingface.co", "torchvision": "download.pytorch.org"}

_silent: dict[str, tuple[float, str]] = {}  # why a host could not be reached, and when


def asked() -> str:
    """How this program calls itself to servers."""
    return f"ssl-zoo/{__version__}"


def certificates() -> str | bool:
    """Which certificates requests is to trust: those of ``SSL_CERT_FILE``, else what requests trusts by itself."""
    return os.environ.get("SSL_CERT_FILE") or True


def no_answer(address: str) -> str:
    """Why the host of an address could not be reached a moment ago; "" if that was not tried, or it answered."""
    when, reason = _silent.get(urlsplit(address).netloc, (0.0, ""))
    return reason if reason and time.monotonic() - when < _VALID_S else ""


def note_silent(address: str, reason: str) -> None:
    """Notes that the host of an address could not be reached."""
    _silent[urlsplit(address).netloc] = time.monotonic(), reason


def host_of(location: str) -> str | None:
    """The host of a location of weights, with its port if it is stated; None if it has none.

    >>> host_of("timm:resnet50x4_clip.openai"), host_of("https://github.com/a/b")
    ('huggingface.co', 'github.com')
    """
    parts = urlsplit(location)
    return _HOSTS.get(parts.scheme) or parts.netloc or None


def unreachable(addresses: Iterable[str], *, seconds: float) -> dict[str, str]:
    """Why each address (``https://github.com/``) that gives no answer to a HEAD request does not; any status is one."""
    import requests  # which listing needs not

    def refusal(address: str) -> str | None:
        try:
            requests.head(address, timeout=seconds, headers={"User-Agent": asked()}, verify=certificates())
            return None
        except (requests.RequestException, ValueError) as error:  # the last of a proxy that is no address
            return reason_of(error, address, seconds)

    every = list(addresses)
    with ThreadPoolExecutor(max(1, len(every))) as pool:
        reasons = dict(zip(every, pool.map(refusal, every), strict=True))
    return {address: reason for address, reason in reasons.items() if reason is not None}


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error and those that it was raised from or holds, the outermost first."""
    left, seen = [error], set()
    while left:
        one = left.pop(0)
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            inner = [getattr(one, "reason", None), one.__cause__, *one.args]
            left += [other for other in inner if isinstance(other, BaseException)]


def innermost(error: BaseException) -> str:
    """The text of the last of the causes, on one line."""
    last = [*causes(error)][-1]
    return str(last).rpartition(": ")[2].replace("\n", " ") or type(last).__name__


def is_unconnected(error: BaseException) -> bool:
    """Whether no connection was made at all."""
    return any(type(one).__name__ in ("NewConnectionError", "NameResolutionError") for one in causes(error))


def reason_of(error: BaseException, address: str, timeout_s: float) -> str:
    """Why a request of requests or urllib3 failed, as the end of a sentence."""
    kinds = {kind.__name__ for one in causes(error) for kind in type(one).__mro__}
    host = urlsplit(address).netloc
    if "NameResolutionError" in kinds:
        return f"there is no host {urlsplit(address).hostname}"
    if "NewConnectionError" in kinds:
        through = " through the proxy" if "ProxyError" in kinds else ""
        return f"there is no connection to {host}{through} ({innermost(error)})"
    if kinds & {"TimeoutError", "Timeout"}:
        return f"nothing came for {timeout_s:g} s"
    if "IncompleteRead" in kinds:
        n = next(one.partial for one in causes(error) if type(one).__name__ == "IncompleteRead")  # type: ignore[attr-defined]
        return f"the connection was closed after {n} bytes of the answer"
    if "ConnectionResetError" in kinds or "RemoteDisconnected" in kinds:
        return "the connection was reset"
    return f"the connection failed ({innermost(error)})"
