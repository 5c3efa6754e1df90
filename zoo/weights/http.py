"""Files behind addresses: streamed to the disk while they are hashed, resumed after any interruption, published whole.

Only the standard library is used, so that this works wherever the zoo does; proxies come from the environment.
"""

from __future__ import annotations

import errno
import http.client
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from ..errors import StoreError, WeightsRefused, WeightsUnavailable
from ..files import replaced
from .hosts import forget, why_unreachable
from .http_partials import Partial, Version, key_of, open_partial, sweep
from .http_requests import Answer, Interrupted, Policy, ask, check_address, reason_of
from .places import Expected, shown
from .progress import Progress

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def download(
    url: str, *, name: str, expected: Expected, folder: Path, progress: Progress, policy: Policy
) -> tuple[Path, str, int]:
    """The file at an address, as ``folder/downloads/SHA256``.

    Parameters
    ----------
    url : str
        http or https.
    name : str
        What the progress calls it.
    expected : Expected
        What is known of the file; the rest is believed to the server.
    folder : Path
        The folder of weights; it need not exist.
    progress : Progress
        Told how far the download is.
    policy : Policy
        How long and how often to try.

    Returns
    -------
    tuple of Path, str, int
        The file, its sha256 in hexadecimal, and its size in bytes.

    Raises
    ------
    WeightsUnavailable
        If the server cannot be reached or does not give the file; what has come is kept to go on with.
    WeightsRefused
        If the file is not the expected one, or the address is unsafe; nothing is kept.
    StoreError
        If the disk is full or cannot be written.
    """
    check_address(url, expected)
    if reason := why_unreachable(url):
        raise WeightsUnavailable(
            f"{shown(url)} could not be downloaded: {reason}; check the network and try again, or give the path of a "
            "copy.",
            unreached=[reason],
        )
    with _disk(folder):
        partial = open_partial(folder / "partial", expected.place, address=shown(url), is_checkable=bool(expected.hash))
        try:
            _fill(partial, url, name, expected, progress, policy)
            target = folder / "downloads" / partial.sha256
            record = finished_record(folder, expected.place)
            with replaced(record) as file:
                file.write(f"{partial.sha256}\n".encode())
            partial.publish(target)
        except WeightsRefused:
            partial.remove()
            raise
        except OSError as error:
            if error.errno in _FULL:
                partial.remove()
            raise
        finally:
            progress.end()
            partial.release()
        sweep(folder / "partial", expected.place)
    return target, partial.sha256, partial.size_bytes


def finished_record(folder: Path, place: str) -> Path:
    """Where the sha256 of the last finished download of a place is noted, for the case that nobody came to use it."""
    return folder / "partial" / f"{key_of(place)}.sha256"


def _fill(partial: Partial, url: str, name: str, expected: Expected, progress: Progress, policy: Policy) -> None:
    """Requests until the whole body is there and is the expected one."""
    failures, is_answered, is_second_try = 0, False, False
    most = partial.size_bytes  # ever there: what comes a second time, because it had to be thrown away, is no progress
    reason = "the body never ended"
    for _ in range(policy.most_requests):
        try:
            if not partial.is_complete:
                _receive(partial, url, name, expected, progress, policy)
        except Interrupted as error:
            reason, is_answered = error.reason, is_answered or error.is_answered
            failures = 1 if partial.size_bytes > most else failures + 1
            most = max(most, partial.size_bytes)
            if failures >= (policy.attempts if is_answered else policy.first_attempts):
                break
            _wait(error, failures, policy)
            continue
        try:
            expected.check(partial.sha256, partial.size_bytes)
            return
        except WeightsRefused:
            if is_second_try or not partial.is_joined:
                raise
            is_second_try = True  # perhaps the pieces did not belong together: once more, in one piece
            partial.begin(None)
    forget(url)
    kept = f"; the {partial.size_bytes} bytes that came are kept to go on with" if partial.resumable_bytes else ""
    raise WeightsUnavailable(
        f"{shown(url)} could not be downloaded: {reason}, tried {failures} times in a row{kept}; "
        "check the network and try again, or give the path of a copy.",
        unreached=() if is_answered else [reason],
    )


def _wait(error: Interrupted, failures: int, policy: Policy) -> None:
    """Longer after every failure, and never in step with others whom the same failure hit."""
    if error.wait_s is not None and error.wait_s > policy.longest_wait_s:
        raise WeightsUnavailable(
            f"The server is busy ({error.reason}) and asks to come back in {error.wait_s:.0f} s; try again then."
        ) from error
    backoff = min(policy.first_wait_s * 2 ** (failures - 1), policy.longest_wait_s) * random.uniform(0.5, 1)
    time.sleep(max(backoff, error.wait_s or 0))


def _receive(partial: Partial, url: str, name: str, expected: Expected, progress: Progress, policy: Policy) -> None:
    """One request and as much of its answer as comes; returns if that was the end of the body."""
    validator = partial.version.validator if partial.version else ""
    resumed = partial.resumable_bytes
    answer = ask(url, expected=expected, first_byte=resumed, validator=validator, policy=policy)
    with closing(answer.body):
        if answer.status == 416:
            if answer.version.total_bytes == resumed and _may_be_same(partial.version, answer.version):
                return  # the length was not known before, and everything is there
            partial.begin(None)
            raise Interrupted("the server has not as many bytes as before", wait_s=0)
        if answer.status == 206:
            if not _continues(partial, answer):
                partial.begin(None)
                raise Interrupted("the file changed on the server, or it sent other bytes than asked for", wait_s=0)
            partial.is_joined = True
        else:
            _check_length(url, answer, expected)
            _check_space(partial.path.parent, answer, expected)
            partial.begin(answer.version)
        lengths = [version.total_bytes for version in (answer.version, partial.version) if version is not None]
        total = next((length for length in [*lengths, expected.size_bytes] if length is not None), None)
        progress.start(name, total, partial.size_bytes)
        _copy(partial, url, answer, total, progress, policy)
        _check_end(url, partial, answer, expected)


def _copy(
    partial: Partial, url: str, answer: Answer, total_bytes: int | None, progress: Progress, policy: Policy
) -> None:
    """The body of one answer to the disk, up to where it has promised to end."""
    left = answer.n_bytes
    if left is None and total_bytes is not None:
        left = total_bytes - partial.size_bytes
    answer.body.length = None  # http.client would hide what comes after the promised length
    while left is None or left > 0:
        try:
            data = answer.body.read1(policy.chunk_bytes if left is None else min(policy.chunk_bytes, left))
        except (OSError, http.client.HTTPException) as error:
            raise Interrupted(reason_of(error, policy)) from error
        if not data:
            break
        partial.write(data)
        progress.advance(len(data))
        left = None if left is None else left - len(data)
    if left or (total_bytes is not None and partial.size_bytes < total_bytes):
        raise Interrupted(f"the connection was closed after {partial.size_bytes} of {total_bytes} bytes")
    if left == 0 and _has_more(answer.body):
        raise WeightsRefused(
            f"{shown(url)} sends more than the {partial.size_bytes} bytes that it promised or that were expected, so "
            "that nobody knows where the file ends; try another place."
        )


def _check_end(url: str, partial: Partial, answer: Answer, expected: Expected) -> None:
    if not answer.is_framed and not expected.hash and expected.size_bytes is None:
        raise WeightsUnavailable(
            f"The server of {shown(url)} does not say how long the file is, so that a broken connection looks like its "
            "end; state the file's size or sha256, or try another place."
        )
    if partial.size_bytes == 0:
        raise WeightsRefused(f"{shown(url)} is an empty file, expected weights; try another place.")


def _has_more(body: http.client.HTTPResponse) -> bool:
    """True if bytes follow the last one; the server closes the connection there, as every request asks it to."""
    try:
        return bool(body.read1(1))
    except (OSError, http.client.HTTPException):
        return False


def _continues(partial: Partial, answer: Answer) -> bool:
    """True if a 206 begins where our bytes end and is about the same body."""
    old, new = partial.version, answer.version
    if old is None or answer.first_byte != partial.size_bytes or answer.n_bytes is None:
        return False
    total = old.total_bytes if new.total_bytes is None else new.total_bytes
    if total is not None and partial.size_bytes + answer.n_bytes > total:
        return False
    # a 206 must say the strong ETag that it was asked for (RFC 9110, section 15.3.7); a date it may leave out
    return _may_be_same(old, new) and (new.etag == old.etag or not old.etag.startswith('"'))


def _may_be_same(old: Version | None, new: Version) -> bool:
    """False if two answers are about different bodies; what one leaves out it does not deny."""
    if old is None:
        return False
    pairs = ((old.etag, new.etag), (old.last_modified, new.last_modified), (old.total_bytes, new.total_bytes))
    return all(before == after for before, after in pairs if before and after)


def _check_length(url: str, answer: Answer, expected: Expected) -> None:
    promised = answer.version.total_bytes
    if promised is not None and expected.size_bytes is not None and promised != expected.size_bytes:
        raise WeightsRefused(
            f"{shown(url)} has {promised} bytes, expected {expected.size_bytes}; look for the right file at another "
            "place, or, if its publisher says that this is the right one, correct the expected hash and size."
        )


def _check_space(folder: Path, answer: Answer, expected: Expected) -> None:
    """Before the first byte, for a disk is slow to fill and others need it too."""
    needed = answer.version.total_bytes or expected.size_bytes or 0
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StoreError(
            f"The file at {shown(expected.place)} has {needed} bytes, and only {free} are free in {folder}; make room, "
            "or set ZOO_CACHE to a folder on a larger disk."
        )


@contextmanager
def _disk(folder: Path) -> Iterator[None]:
    """What the disk refuses, in one sentence; errors of the network never get here."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno in _FULL:
            raise StoreError(
                f"There is no room for the file in {folder} ({why}); make room, or set ZOO_CACHE to a folder on a "
                "larger disk."
            ) from error
        raise StoreError(
            f"The folder {folder} cannot be written ({why}); make it writable, or set ZOO_CACHE to a folder that is."
        ) from error
