"""Whether the Hugging Face Hub can be reached by huggingface_hub's client, and the text of its failures."""

from __future__ import annotations

import re
from socket import gaierror
from urllib.parse import urlsplit

from ..optional import requires_extra
from .reach import words

with requires_extra("models", needed_for="Weights on Hugging Face"):
    from huggingface_hub import constants, get_session, get_token
    from huggingface_hub.errors import HfHubHTTPError

# The library below huggingface_hub has changed (requests, then httpx), and so have the errors of broken connections:
# each has an HTTPError that HfHubHTTPError derives from, and those that do not derive from it are OSErrors. Xet storage
# raises RuntimeError, and an impossible name or forced download ValueError.
_TRANSPORT = [kind for kind in HfHubHTTPError.__mro__ if kind.__name__ == "HTTPError"]
FAILURES: tuple[type[Exception], ...] = (*_TRANSPORT, OSError, RuntimeError, ValueError)
_UNCONNECTED = {"ConnectError", "ConnectTimeout", "ProxyError", "ConnectionError"}  # of either library

HOST = urlsplit(constants.ENDPOINT).netloc  # of the Hub


def no_connection(address: str, seconds: float) -> str | None:
    """Why huggingface_hub's client, with its proxies and settings, cannot connect to the Hub; None if it can."""
    try:
        get_session().head(constants.ENDPOINT, timeout=seconds / 2)
    except FAILURES as error:
        if not {kind.__name__ for kind in type(error).__mro__} & _UNCONNECTED:
            return None  # it was reached; its answer does not matter here
        chain: list[BaseException] = [error]
        while (deeper := chain[-1].__cause__ or chain[-1].__context__) is not None:
            chain.append(deeper)
        root = next((link for link in chain if isinstance(link, gaierror)), None)
        return words(root or in_one_line(error), host=HOST)
    return None


def token() -> str:
    """The user's token for the Hub, from HF_TOKEN or from a login; "" if there is none."""
    try:
        return get_token() or ""
    except FAILURES:  # a login that cannot be renewed is none
        return ""


def in_one_line(error: BaseException) -> str:
    """The message of a library's error, on one line and without the signed part of an address."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return re.sub(r"\?[^\s'\")]*", "", lines[0] if lines else type(error).__name__).rstrip(".")
