"""Which hosts answer from here: asked all at once, within a few seconds, through the proxies of the environment."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

_HOSTS = {"timm": "huggingface.co", "hf": "huggingface.co", "torchvision": "download.pytorch.org"}


def host_of(location: str) -> str | None:
    """The host that serves a location of weights, with its port if it is stated; None for one that no host serves.

    >>> host_of("timm:resnet50x4_clip.openai"), host_of("https://github.com/a/b")
    ('huggingface.co', 'github.com')
    """
    parts = urlsplit(location)
    return _HOSTS.get(parts.scheme) or parts.netloc or None


def unreachable(addresses: Iterable[str], *, seconds: float) -> dict[str, str]:
    """Why each address that does not answer a HEAD request does not; any HTTP status is an answer.

    Parameters
    ----------
    addresses : iterable of str
        Such as ``https://github.com/``.
    seconds : float
        For all of them together; who has not answered by then counts as unreachable.
    """
    reasons = dict.fromkeys(addresses, f"no answer in {seconds:g} seconds")
    lock = threading.Lock()

    def ask(address: str) -> None:
        reason = _refusal(address, seconds)
        with lock:
            if reason is None:
                reasons.pop(address, None)
            else:
                reasons[address] = reason

    threads = [threading.Thread(target=ask, args=(address,), daemon=True) for address in [*reasons]]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    with lock:
        return dict(reasons)


def _refusal(address: str, seconds: float) -> str | None:
    try:
        with urlopen(Request(address, method="HEAD"), timeout=seconds):
            return None
    except HTTPError as error:
        error.close()
        return None
    except URLError as error:
        return str(error.reason)
    except (OSError, HTTPException, ValueError) as error:  # the last of a proxy that is no address
        return str(error) or type(error).__name__
