"""Downloads one place into one checked file: whole or not at all, resumed where the server still has the same file.

Addresses are fetched by requests, with the proxies, certificates and other settings of the environment; places on the
Hub by huggingface_hub. The folder of weights holds::

    downloads/KEY-SHA256    finished files of the place with hash KEY, each until it is converted
    partial/KEY.part        the bytes so far
    partial/KEY.json        which file they are the beginning of: its validator and length
    partial/KEY.lock        locked by the process that downloads it; others wait
"""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import random
import re
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from filelock import FileLock, Timeout

from ..errors import QueryError, StoreError, WeightsRefused, WeightsUnavailable, ZooError
from ..files import NO_LOCKS, replace_file
from ..optional import require_extra
from ..progress import Progress, ProgressBar
from ..storage import is_offline
from .connections import Connections
from .hosts import (
    describe_request_error,
    format_root_cause,
    get_silence_reason,
    is_encoded,
    is_page,
    is_unconnected,
    parse_content_length,
    remember_silent_host,
    send_request,
)
from .locations import (
    ExpectedFile,
    FetchedFile,
    ResolvedSource,
    format_location,
    get_torch_checkpoint_folder,
    hash_file,
    resolve_source,
)
from .parts import hash_parts, list_parts

with require_extra("models", needed_for="Downloading weights"):
    import requests
    import urllib3

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_TRY_AGAIN = (408, 425, 429)  # statuses below 500 that ask for it
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_UNANSWERED_ATTEMPTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long and how often to try."""

    timeout_s: float = 30.0  # without a byte; and twice as long with next to none
    least_bytes_per_s: float = 500.0
    most_bytes: int = 100_000_000_000  # of a file whose length nobody states
    is_public: bool = False  # a stranger names the place

    def connections(self) -> Connections:
        """Those of one request."""
        window_s = 2 * self.timeout_s
        least_bytes = self.least_bytes_per_s * window_s
        return Connections(window_s=window_s, least_bytes=least_bytes, is_public=self.is_public)

    attempts: int = 6  # requests in a row that bring no new byte
    first_wait_s: float = 0.5  # doubled at each failure
    longest_wait_s: float = 60.0  # between two requests, also when the server asks for more


POLICY = RetryPolicy()


class DownloadTaken(StoreError):
    """Another process was downloading the same file, and has converted it already or given up."""


class _Interrupted(Exception):
    """One request failed in a way that the next one may not."""

    def __init__(
        self, reason: str, *, wait_s: float | None = None, is_answered: bool = True, where: str = "", slow: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason, self.wait_s, self.is_answered = reason, wait_s, is_answered
        self.where, self.is_slow = where, slow  # the address that failed; whether it goes on sending next to nothing


def fetch(
    place: str,
    *,
    folder: Path,
    sha256: str | None = None,
    size_bytes: int | None = None,
    revision: str = "",
    is_public: bool = False,
    progress: Progress | None = None,
    policy: RetryPolicy = POLICY,
) -> FetchedFile:
    """The file at a place, from a cache on this machine if it is in one, else from the network.

    ``downloads/`` and ``partial/`` are made in ``folder``. Without ``sha256`` (64 hexadecimal digits), the file must
    have the hash that the publisher put into its name. ``revision`` is the commit of a place on the Hub that names
    none. ``is_public``: a stranger names the place, so that its host must be a public one. Without ``progress``, a bar
    is drawn where stderr is a terminal; places on the Hub have the bar of huggingface_hub.

    An interrupted download is kept to be continued; of a refused file nothing is kept. TakenAway if this process has
    waited for another one and the file is gone: look for what the other has made of it, and call again.
    """
    resolved = resolve_source(place)
    whole = (sha256 or "").lower()
    if not re.fullmatch("(?:[0-9a-f]{64})?", whole):
        raise QueryError(
            f"The sha256 {sha256!r} for {format_location(resolved.place)} is none, expected 64 hexadecimal digits."
        )
    expected = ExpectedFile(
        place=resolved.place, sha256=whole, sha256_prefix=resolved.sha256_prefix, size_bytes=size_bytes
    )
    if resolved.path is not None:
        return _user_file(resolved.path, expected)
    if resolved.kind == "hub":
        from .huggingface import fetch_hub  # half a second that only places on the Hub need

        return fetch_hub(replace(resolved, revision=resolved.revision or revision or None), expected=expected)
    url = resolved.url or ""
    if (cached := _cached(resolved, expected, folder)) is not None:
        return cached
    if is_offline():
        raise WeightsUnavailable(
            f"The file at {format_location(place)} is not on this machine, and ZOO_OFFLINE forbids to fetch it; unset "
            "ZOO_OFFLINE once, or give the path of a copy.",
            unreached=["ZOO_OFFLINE forbids to fetch; unset it once"],
        )
    _check_address(url, expected)
    if reason := get_silence_reason(url):
        raise _unavailable(url, reason, unreached=[reason])
    try:
        bar = ProgressBar("B") if progress is None else progress
        return _fetched(resolved, expected, folder, bar, replace(policy, is_public=is_public))
    except OSError as error:  # of the disk: those of the network never get here
        why = error.strerror or str(error)
        remedy = "make room" if error.errno in _FULL else "make it writable"
        raise StoreError(
            f"The folder {folder} cannot be written ({why}); {remedy}, or set ZOO_CACHE to a folder on another disk."
        ) from error


def _user_file(path: Path, expected: ExpectedFile) -> FetchedFile:
    try:
        files = list_parts(path)
        for file in files:
            if not stat.S_ISREG(file.stat().st_mode):  # a pipe that could be waited on forever
                raise WeightsUnavailable(f"{file} is not a file, expected one of weights; correct the path.")
        digest, size = hash_parts(files)
    except OSError as error:
        raise WeightsUnavailable(
            f"The file {path} cannot be read ({error.strerror or error}), expected one of weights; correct the path."
        ) from error
    expected.check(digest, size)
    return FetchedFile(path=files[0], sha256=digest, size_bytes=size, origin=os.path.abspath(path), is_ours=False)


def _key_of(place: str) -> str:
    """Under which name downloads of a place are stored."""
    return blake2b(place.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _cached(resolved: ResolvedSource, expected: ExpectedFile, folder: Path) -> FetchedFile | None:
    """The file if this machine has it: downloaded before and not used since, or in torch.hub's cache.

    A wrong file is left to be replaced.
    """
    ours = (folder / "downloads").glob(f"{_key_of(resolved.place)}-*")
    found = [(path, path.name.rpartition("-")[2], format_location(resolved.url or "")) for path in ours]
    if expected.hash:  # without a hash a file of that name may be that of another address: names repeat
        theirs = get_torch_checkpoint_folder() / resolved.filenames[0]
        found.append((theirs, expected.hash, str(theirs)))
    for path, wanted, origin in found:
        try:
            if not path.is_file():
                continue
            digest, size = hash_file(path)
        except (OSError, ValueError):  # not readable, or no possible name
            continue
        if digest.startswith(wanted) and expected.fits(digest, size):
            is_ours = path.parent == folder / "downloads"
            return FetchedFile(path=path, sha256=digest, size_bytes=size, origin=origin, is_ours=is_ours)
    return None


def _fetched(
    resolved: ResolvedSource, expected: ExpectedFile, folder: Path, progress: Progress, policy: RetryPolicy
) -> FetchedFile:
    key = _key_of(resolved.place)
    part = folder / "partial" / f"{key}.part"
    part.parent.mkdir(parents=True, exist_ok=True)
    with _exclusive_lock(part.with_suffix(".lock")) as has_waited:
        if has_waited:
            if (cached := _cached(resolved, expected, folder)) is not None:
                return cached
            if not part.exists():
                raise DownloadTaken(
                    f"Another process was downloading {format_location(resolved.place)}, and its file is not in "
                    f"{folder} any more; try again."
                )
        try:
            digest, size = _downloaded(resolved, part, expected, progress, policy)
        except (WeightsRefused, OSError) as error:
            if isinstance(error, WeightsRefused) or error.errno in _FULL:
                _drop(part)
            raise
        finally:
            progress.end()
        target = folder / "downloads" / f"{key}-{digest}"
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(part, target)
        _drop(part)
    return FetchedFile(
        path=target, sha256=digest, size_bytes=size, origin=format_location(resolved.url or ""), is_ours=True
    )


@contextmanager
def _exclusive_lock(path: Path) -> Iterator[bool]:
    """Lets one process in at a time; whether another one was there first."""
    lock, has_waited = FileLock(path, fallback_to_soft=False), False  # a soft lock outlives a killed process
    try:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            has_waited = True
            lock.acquire()
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        raise StoreError(
            f"The folder {path.parent} is on a file system without locks ({error.strerror}); set ZOO_CACHE to a folder "
            "on another disk."
        ) from error
    try:
        yield has_waited
    finally:
        lock.release()


def _drop(part: Path) -> None:
    for path in (part, part.with_suffix(".json")):
        path.unlink(missing_ok=True)


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _downloaded(
    resolved: ResolvedSource, part: Path, expected: ExpectedFile, progress: Progress, policy: RetryPolicy
) -> tuple[str, int]:
    """Sends requests until the whole file is there and is the expected one; its hash and size."""
    url, failures, is_answered = resolved.url or "", 0, False
    most, is_joined = _size(part), False  # bytes that come again, because they were thrown away, are no progress
    while True:
        try:
            is_joined |= _receive(part, url, resolved.filenames[0], expected, progress, policy)
        except _Interrupted as error:
            is_answered = is_answered or error.is_answered
            failures = 1 if _size(part) > most and not error.is_slow else failures + 1
            most = max(most, _size(part))
            is_hopeless = error.is_slow or not is_answered
            if failures >= (min(_UNANSWERED_ATTEMPTS, policy.attempts) if is_hopeless else policy.attempts):
                if not is_answered:
                    remember_silent_host(error.where or url, error.reason)
                kept = f"; the {_size(part)} bytes that came are kept to go on with" if _resumable(part)[0] else ""
                reason = f"{error.reason}, tried {failures} times in a row{kept}"
                raise _unavailable(url, reason, unreached=() if is_answered else [error.reason]) from error
            _wait(error, failures, policy)
            continue
        digest, size = hash_file(part)
        try:
            expected.check(digest, size)
            return digest, size
        except WeightsRefused:
            if not is_joined:
                raise
            is_joined = False  # perhaps the pieces did not belong together: once more, in one piece
            _drop(part)


def _unavailable(url: str, reason: str, **more: Any) -> WeightsUnavailable:
    return WeightsUnavailable(
        f"{format_location(url)} could not be downloaded: {reason}; check the network and try again, or give the path "
        "of a copy.",
        **more,
    )


def _wait(error: _Interrupted, failures: int, policy: RetryPolicy) -> None:
    """Waits longer after every failure, and not in step with others that had the same failure."""
    if error.wait_s is not None and error.wait_s > policy.longest_wait_s:
        raise WeightsUnavailable(
            f"The server is busy ({error.reason}) and asks to come back in {error.wait_s:.0f} s; try again then."
        ) from error
    backoff = min(policy.first_wait_s * 2 ** (failures - 1), policy.longest_wait_s) * random.uniform(0.5, 1)
    time.sleep(max(backoff, error.wait_s or 0))


def _resumable(part: Path) -> tuple[int, str, int | None]:
    """Bytes that need not be requested again, the validator of their file and its length; (0, "", None) if unclear."""
    try:
        note = json.loads(part.with_suffix(".json").read_bytes())
        done, validator, total = _size(part), note["validator"], note["total"]
    except (OSError, ValueError, KeyError, TypeError):
        return 0, "", None
    return (done, validator, total) if validator and done and done <= (total or done) else (0, "", None)


def _receive(part: Path, url: str, name: str, expected: ExpectedFile, progress: Progress, policy: RetryPolicy) -> bool:
    """One request and all of its answer; whether it continued earlier bytes."""
    done, validator, total = _resumable(part)
    if done and done == total:
        return True
    headers = {"Range": f"bytes={done}-", "If-Range": validator} if done else {}
    with policy.connections() as connections, closing(_answer(url, headers, expected, policy, connections)) as answer:
        _check_kind(answer, url, expected, was_range=bool(done))
        if answer.status_code in (206, 416):
            span = _RANGE.fullmatch(answer.headers.get("Content-Range", "").strip())
            is_same = answer.headers.get("ETag", validator) == validator or not validator.startswith('"')
            is_next = span is not None and int(span[1]) == done and span[3] in ("*", str(total or span[3]))
            if answer.status_code == 416 or not is_next or not is_same:
                _drop(part)
                raise _Interrupted("the file changed on the server, or it sent other bytes than asked for", wait_s=0)
            total = total or (int(span[3]) if span is not None and span[3] != "*" else None)
        else:
            done, total = 0, parse_content_length(answer)
            _check_length(url, part.parent, total, expected)
            etag, date = (answer.headers.get(field, "").strip() for field in ("ETag", "Last-Modified"))
            validator = etag if etag.startswith('"') else date  # a weak ETag is none
            with replace_file(part.with_suffix(".json")) as note:
                note.write(
                    json.dumps({"address": format_location(url), "validator": validator, "total": total}).encode()
                )
        progress.start(name, total if total is not None else expected.size_bytes, done)
        most = total or expected.size_bytes or min(policy.most_bytes, done + shutil.disk_usage(part.parent).free // 2)
        with part.open("ab" if done else "wb", buffering=0) as file:
            for data in _body(answer, url, policy, connections):
                if done + connections.n_bytes > most:
                    why = "are expected" if total or expected.size_bytes else "a file of unknown length may have here"
                    raise WeightsRefused(
                        f"The server of {_named(answer.url, expected)} sends more than the {most:,} bytes that {why}; "
                        "it is not used: look for the right file at another place, or state its size."
                    )
                file.write(data)
                progress.advance(len(data))
    if total is not None and _size(part) < total:
        raise _Interrupted(f"the connection was closed after {_size(part)} of {total} bytes")
    if _size(part) == 0:
        raise WeightsRefused(f"{format_location(url)} is an empty file, expected weights; try another place.")
    return bool(done)


def _body(answer: requests.Response, url: str, policy: RetryPolicy, connections: Connections) -> Iterator[bytes]:
    """What has come, as it comes; ``iter_content`` would lose the last piece of an answer that breaks off."""
    while True:
        try:
            data = answer.raw.read1(1 << 20, decode_content=False)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _interrupted(error, url, answer.url, policy, connections) from error
        if connections.is_over:
            raise _interrupted(OSError(), url, answer.url, policy, connections)
        if not data:
            return
        connections.n_bytes += len(data)
        yield data


def _interrupted(
    error: Exception, url: str, where: str, policy: RetryPolicy, connections: Connections, *, is_answered: bool = True
) -> _Interrupted:
    reason = describe_request_error(error, where, policy.timeout_s)
    if connections.is_over:
        reason = f"next to nothing came for {connections.window_s:g} s"
    is_answered = is_answered or bool(_elsewhere(where, url))
    return _Interrupted(
        f"{reason}{_elsewhere(where, url)}", is_answered=is_answered, where=where, slow=connections.is_over
    )


def _elsewhere(where: str, url: str) -> str:
    """The host that was asked in the end, if it is another one, to end a reason with."""
    host = urlsplit(where).netloc
    return "" if host == urlsplit(url).netloc else f" (at {host}, where it redirects to)"


def _check_length(url: str, folder: Path, promised: int | None, expected: ExpectedFile) -> None:
    """Refuses a file of the wrong length, or too large for the disk, before its first byte."""
    if promised is not None and expected.size_bytes is not None and promised != expected.size_bytes:
        raise WeightsRefused(
            f"{format_location(url)} has {promised} bytes, expected {expected.size_bytes}; look for the right file at "
            "another place, or, if its publisher says that this is the right one, correct the expected hash and size."
        )
    needed, free = promised or expected.size_bytes or 0, shutil.disk_usage(folder).free
    if needed > free:
        raise StoreError(
            f"The file at {format_location(expected.place)} has {needed} bytes, and only {free} are free in {folder}; "
            "make room, or set ZOO_CACHE to a folder on a larger disk."
        )


def _answer(
    url: str, headers: dict[str, str], expected: ExpectedFile, policy: RetryPolicy, connections: Connections
) -> requests.Response:
    """The answer of a server, its body yet to be read; redirections never lead to a less safe address."""

    def check(answer: requests.Response, **_: Any) -> None:
        if not answer.is_redirect:
            return
        target = urljoin(answer.url, answer.headers["location"])
        if urlsplit(target).scheme not in ("https", urlsplit(answer.url).scheme):
            raise WeightsRefused(
                f"{format_location(url)} redirects to {format_location(target)}, which is less safe; look for another "
                f"place that has the file at {format_location(expected.place)}."
            )
        _check_address(target, expected)
        answer.close()  # its body may have no end

    try:
        return send_request(
            "GET",
            url,
            headers=headers,
            stream=True,
            timeout=(min(10.0, policy.timeout_s), policy.timeout_s),
            hooks={"response": check},
            connections=connections,
        )
    except ZooError:  # a ValueError, too
        raise
    except requests.exceptions.SSLError as error:
        raise WeightsUnavailable(
            f"The server of {_named(_asked(error, url), expected)} could not prove who it is "
            f"({format_root_cause(error)}); check this machine's clock and certificates, or a proxy between."
        ) from error
    except requests.exceptions.TooManyRedirects as error:
        raise WeightsUnavailable(
            f"The server answered with redirections that lead nowhere when asked for {_named(url, expected)}: look for "
            "another place that has it."
        ) from error
    except (requests.exceptions.ConnectionError, requests.exceptions.Timeout) as error:
        is_answered = not is_unconnected(error)
        raise _interrupted(error, url, _asked(error, url), policy, connections, is_answered=is_answered) from error
    except (requests.exceptions.RequestException, ValueError) as error:  # an impossible host or scheme
        raise WeightsUnavailable(f"{_named(url, expected)} cannot be asked for ({error}); correct it.") from error


def _asked(error: requests.exceptions.RequestException, url: str) -> str:
    """The address that failed, after redirections."""
    return getattr(error.request, "url", None) or url


def _check_address(url: str, expected: ExpectedFile) -> None:
    """Refuses plain http from another machine if a change on the way could not be detected."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    with suppress(ValueError):  # a name, and no number
        host = "localhost" if ipaddress.ip_address(host).is_loopback else host
    if parts.scheme == "http" and host not in ("localhost", "") and len(expected.hash) < 64:
        raise WeightsRefused(
            f"{format_location(url)} is a plain http address, where anyone on the way can change the file, and the "
            "sha256 of "
            f"the file at {format_location(expected.place)} is not known; use an https address or state the sha256."
        )


def _named(url: str, expected: ExpectedFile) -> str:
    """The address, and the place where that is another."""
    place = (
        ""
        if format_location(url) == format_location(expected.place)
        else f" (the place {format_location(expected.place)})"
    )
    return f"{format_location(url)}{place}"


def _check_kind(answer: requests.Response, url: str, expected: ExpectedFile, *, was_range: bool) -> None:
    """Refuses an answer that is no file, or whose end could not be known."""
    status, where = answer.status_code, _named(answer.url, expected)
    said = f"{status} {answer.reason or ''}".strip().partition("\n")[0]
    if status >= 500 or status in _TRY_AGAIN:
        wait_s = None
        with suppress(urllib3.exceptions.InvalidHeader):
            wait_s = urllib3.Retry().get_retry_after(answer.raw)
        raise _Interrupted(f"the server answered {said}{_elsewhere(answer.url, url)}", wait_s=wait_s)
    if status not in ((200, 206, 416) if was_range else (200,)):
        advice = "it refuses access; get the file with your browser and give its path, or try another place"
        advice = advice if status in (401, 403) else "look for another place that has it"
        raise WeightsUnavailable(f"The server answered {said} when asked for {where}: {advice}.")
    if status == 416:
        return
    if is_encoded(answer):
        raise WeightsRefused(
            f"The server of {where} sends the file encoded ({answer.headers['Content-Encoding']}) although it was "
            "asked not to, so that neither its length nor its hash could be checked; try another place."
        )
    if is_page(answer):
        raise WeightsUnavailable(
            f"The server of {where} sent a web page instead of a file, as hosts do for a login, a warning or a used-up "
            "quota; open the address in a browser, or try again later or another place."
        )
    is_chunked = "chunked" in answer.headers.get("Transfer-Encoding", "").lower()
    if parse_content_length(answer) is None and not is_chunked and not expected.hash and expected.size_bytes is None:
        raise WeightsUnavailable(
            f"The server of {format_location(url)} does not say how long the file is, so that a broken connection "
            "looks like its end; state the file's size or sha256, or try another place."
        )
