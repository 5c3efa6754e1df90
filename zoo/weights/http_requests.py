"""One request for a body or the rest of one, and what its answer says."""

from __future__ import annotations

import email.utils
import http.client
import ipaddress
import re
import ssl
import time
from dataclasses import dataclass
from email.message import Message
from socket import gaierror
from typing import IO, Any, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

from ..errors import WeightsRefused, WeightsUnavailable
from ..version import __version__
from .http_partials import Version
from .places import Expected, shown

_PATIENCE = (408, 425, 429)  # statuses below 500 that ask to try again
_RANGE = re.compile(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18}|\*)")
_PAGES = ("text/html", "application/xhtml+xml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How long and how often to try."""

    timeout_s: float = 30.0  # without a byte
    attempts: int = 6  # requests in a row that bring no new byte
    first_attempts: int = 2  # to reach a server that has not answered at all
    most_requests: int = 200  # for one file, whatever they bring
    first_wait_s: float = 0.5  # doubled at each failure
    longest_wait_s: float = 60.0  # between two requests, also when the server asks for more
    chunk_bytes: int = 1 << 20  # read at once


POLICY = Policy()


class Interrupted(Exception):
    """One request failed in a way that the next one may not; never leaves this package."""

    def __init__(self, reason: str, *, wait_s: float | None = None, is_answered: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason  # as the end of a sentence
        self.wait_s = wait_s  # what the server asked for
        self.is_answered = is_answered  # False if nobody is there, as without a network


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A server's answer, its body yet to be read."""

    status: int  # 200, 206 or 416
    version: Version  # of the body
    first_byte: int  # of the body, that this answer begins with; -1 if it does not say
    n_bytes: int | None  # that this answer promises, None if it does not say
    is_framed: bool  # its end can be told from a broken connection
    body: http.client.HTTPResponse


def ask(url: str, *, expected: Expected, first_byte: int, validator: str, policy: Policy) -> Answer:
    """Asks for a body from ``first_byte`` on, or for the whole one if it has changed; close the answer's body.

    Raises
    ------
    Interrupted
        If it is worth trying again.
    WeightsUnavailable
        If it is not.
    WeightsRefused
        If the server sends to an unsafe address, or an encoded body in spite of being asked not to.
    """
    headers = {"User-Agent": f"ssl-zoo/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}
    if first_byte:
        headers |= {"Range": f"bytes={first_byte}-", "If-Range": validator}
    check_address(url, expected)
    try:
        answer = _opener(expected).open(Request(url, headers=headers), timeout=policy.timeout_s)
    except HTTPError as error:
        if error.code != 416 or not first_byte:
            with error:
                _refuse_status(url, error, expected)
        answer = error
    except URLError as error:
        raise _unreached(url, error.reason, expected, policy) from error
    except WeightsRefused:  # of a redirection
        raise
    except (http.client.InvalidURL, ValueError) as error:  # an impossible host, perhaps of a redirection
        raise _unreached(url, str(error), expected, policy) from error
    except (OSError, http.client.HTTPException) as error:
        raise Interrupted(reason_of(error, policy)) from error
    try:
        return _examined(url, answer, expected, asked=first_byte)
    except BaseException:
        answer.close()
        raise


def reason_of(error: BaseException, policy: Policy) -> str:
    """Why a connection broke, as the end of a sentence."""
    if isinstance(error, TimeoutError):
        return f"nothing came for {policy.timeout_s:g} s"
    if isinstance(error, ConnectionResetError | http.client.RemoteDisconnected):
        return "the connection was reset"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection was closed in the middle of the file"
    return f"the connection failed ({error or type(error).__name__})".replace("\n", " ")


def check_address(url: str, expected: Expected) -> None:
    """Refuses plain http from another machine if nothing could tell that the file was changed on its way."""
    parts = urlsplit(url)
    if parts.scheme == "http" and not _is_loopback(parts.hostname or "") and len(expected.hash) < 64:
        raise WeightsRefused(
            f"{shown(url)} is a plain http address, where anybody on the way can change the file, and the sha256 of "
            f"the file at {shown(expected.place)} is not known; use an https address or state the sha256."
        )


class Redirects(HTTPRedirectHandler):
    """Follows redirections, never to an address that is less safe."""

    def __init__(self, expected: Expected) -> None:
        self._expected = expected

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> Request | None:
        """The next request, with the same range; nothing secret is in its headers."""
        schemes = [urlsplit(url).scheme for url in (req.full_url, newurl)]
        if schemes not in (["https", "https"], ["http", "http"], ["http", "https"]):
            fp.close()
            raise WeightsRefused(
                f"{shown(req.full_url)} redirects to {shown(newurl)}, which is less safe; look for another place that "
                f"has the file at {shown(self._expected.place)}."
            )
        check_address(newurl, self._expected)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener(expected: Expected) -> OpenerDirector:
    """Only http and https, through the proxies of the environment: no file:, ftp: or data: by way of a redirection."""
    opener = OpenerDirector()
    for handler in (
        ProxyHandler(),
        UnknownHandler(),
        HTTPHandler(),
        HTTPSHandler(),
        HTTPDefaultErrorHandler(),
        Redirects(expected),
        HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _refuse_status(url: str, error: HTTPError, expected: Expected) -> NoReturn:
    said = f"{error.code} {error.reason or ''}".strip().partition("\n")[0]
    if error.code >= 500 or error.code in _PATIENCE:
        raise Interrupted(f"the server answered {said}", wait_s=_retry_after(error.headers)) from error
    advice = {
        401: "it wants a password or a key; get the file with your browser and give its path",
        403: "it refuses access; get the file with your browser and give its path, or try another place",
        404: "the file is not there any more; look for another place that has it",
        410: "the file is gone for good; look for another place that has it",
    }.get(error.code, "look for another place that has it")
    if 300 <= error.code < 400:
        said, advice = "with redirections that lead nowhere", "look for another place that has it"
    raise WeightsUnavailable(
        f"The server answered {said} when asked for {shown(url)}{_written(url, expected)}: {advice}."
    ) from error


def _written(url: str, expected: Expected) -> str:
    """The place, where that is not the address itself."""
    return "" if shown(url) == shown(expected.place) else f" (the place {shown(expected.place)})"


def _unreached(url: str, reason: str | BaseException, expected: Expected, policy: Policy) -> Exception:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return WeightsUnavailable(
            f"The server of {shown(url)}{_written(url, expected)} could not prove who it is "
            f"({reason.verify_message}); check this machine's clock and certificates, or a proxy between."
        )
    if isinstance(reason, gaierror):
        return Interrupted(f"there is no host {urlsplit(url).hostname} to be found", is_answered=False)
    if isinstance(reason, OSError):
        return Interrupted(reason_of(reason, policy), is_answered=isinstance(reason, TimeoutError))
    return WeightsUnavailable(f"{shown(url)}{_written(url, expected)} cannot be asked for ({reason}); correct it.")


def _examined(url: str, answer: Any, expected: Expected, *, asked: int) -> Answer:
    headers = answer.headers
    where = f"{shown(url)}{_written(url, expected)}"
    status = answer.status
    if status not in (200, 206, 416) or (status == 206 and not asked):
        raise WeightsUnavailable(
            f"The server answered {status} when asked for {where}, expected 200; try another place."
        )
    encoding = headers.get("Content-Encoding", "identity").strip().lower()
    if status != 416 and encoding not in ("identity", ""):
        raise WeightsRefused(
            f"The server of {where} sends the file encoded ({encoding}) although it was asked not to, so that neither "
            "its length nor its hash could be checked; try another place."
        )
    if status != 416 and headers.get_content_type() in _PAGES and "Content-Type" in headers:
        raise WeightsUnavailable(
            f"The server of {where} sent a web page instead of a file, as hosts do for a login, a warning or a used-up "
            "quota; open the address in a browser, or try again later or another place."
        )
    is_chunked = bool(getattr(answer, "chunked", False))
    first, total = 0, None if is_chunked else _number(headers.get("Content-Length"))
    n_bytes = total
    if status != 200:
        first, total = -1, None
        if match := _RANGE.fullmatch(headers.get("Content-Range", "").strip()):
            first = int(match[1] or -1)
            n_bytes = int(match[2]) - first + 1 if match[2] else 0
            total = _number(match[3])
    return Answer(
        status=status,
        version=Version(
            etag=headers.get("ETag", "").strip(),
            last_modified=headers.get("Last-Modified", "").strip(),
            total_bytes=total,
        ),
        first_byte=first,
        n_bytes=n_bytes,
        is_framed=is_chunked or n_bytes is not None,
        body=answer,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\s*\d{1,18}\s*", text) else None


def _retry_after(headers: Message[str, str]) -> float | None:
    """Seconds to wait, from either form of the header (RFC 9110, section 10.2.3)."""
    said = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"\d{1,9}", said):
        return float(said)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(said).timestamp() - time.time())
    except ValueError:  # absent, or in neither form
        return None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
