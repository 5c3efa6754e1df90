"""Downloads one place into one checked file: whole or not at all, hashed while it streams, resumed if interrupted.

The file that comes back has the hash and size that were expected of it; anything else is one error of one sentence, and
no wrong file stays behind. Addresses need the standard library alone; proxies come from the environment. The folder of
weights holds::

    downloads/SHA256             finished files, each until it is converted
    partial/KEY.sha256           the hash of the finished file of the place with hash KEY
    partial/KEY.MACHINE.part     its bytes so far
    partial/KEY.MACHINE.json     which body they are the beginning of, written before the first byte
    partial/KEY.MACHINE.lock     locked by the process that writes them

A process waits for another one that has the lock, as long as the bytes become more. Bytes without a process that has
the lock are continued. MACHINE is a running kernel: locks of a network file system may hold on one machine alone, and
what a machine wrote before it crashed may be lost in part. Where the file system has no locks, or the other process
stalls, a process downloads into a file of its own (KEY.MACHINE.ID.part), which no other process uses.
"""

from __future__ import annotations

import email.utils
import errno
import http.client
import ipaddress
import json
import os
import random
import re
import secrets
import shutil
import ssl
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import blake2b, sha256
from pathlib import Path
from socket import gaierror, gethostname
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

from ..errors import QueryError, StoreError, WeightsRefused, WeightsUnavailable
from ..files import locked, publish, replaced
from ..progress import Bar, Progress
from ..storage import is_offline
from ..version import __version__
from .hosts import forget, why_unreachable
from .places import Expected, Fetched, Source, file_sha256, shown, source, torch_checkpoints

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_TRY_AGAIN = (408, 425, 429)  # statuses below 500 that ask for it
_RANGE = re.compile(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18}|\*)")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # changes at every start of a Linux machine
_BLOCK = 1 << 20  # bytes read at a time
_HOUR_S, _WEEK_S = 3600.0, 7 * 24 * 3600.0


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


class TakenAway(StoreError):
    """Another process was downloading the same file, and has converted it already or given up."""


def fetch(
    place: str,
    *,
    folder: Path,
    sha256: str | None = None,
    size_bytes: int | None = None,
    revision: str = "",
    progress: Progress | None = None,
    policy: Policy = POLICY,
) -> Fetched:
    """The file at a place, from a cache on this machine if it is in one, else from the network.

    ``downloads/`` and ``partial/`` are made in ``folder``. Without ``sha256`` (64 hexadecimal digits), the file must
    have the hash that the publisher put into its name. ``revision`` is the commit of a place on the Hub that names
    none. Without ``progress``, a bar is drawn where stderr is a terminal.
    ``policy`` does not concern huggingface_hub, which has its own.

    An interrupted download is kept to be continued; of a refused file nothing is kept. TakenAway if this process has
    waited for another one and the file is gone: look for what the other has made of it, and call again.
    """
    resolved = source(place)
    whole = (sha256 or "").lower()
    if not re.fullmatch("(?:[0-9a-f]{64})?", whole):
        raise QueryError(f"The sha256 {sha256!r} for {shown(resolved.place)} is none, expected 64 hexadecimal digits.")
    expected = Expected(place=resolved.place, sha256=whole, sha256_prefix=resolved.sha256_prefix, size_bytes=size_bytes)
    if resolved.kind == "path":
        return _user_file(resolved, expected)
    if resolved.kind == "hub":
        if revision and resolved.revision is None:
            resolved = replace(resolved, revision=revision)
        from .huggingface import fetch_hub  # half a second that only places on the Hub need

        return fetch_hub(resolved, expected=expected, progress=progress)
    assert resolved.url is not None  # of an http place
    if (cached := _cached(resolved, expected, folder)) is not None:
        return cached
    if is_offline():
        raise WeightsUnavailable(
            f"The file at {shown(place)} is not on this machine, and ZOO_OFFLINE forbids to fetch it; unset "
            "ZOO_OFFLINE once, or give the path of a copy."
        )
    _check_address(resolved.url, expected)
    if reason := why_unreachable(resolved.url):
        raise WeightsUnavailable(
            f"{shown(resolved.url)} could not be downloaded: {reason}; check the network and try again, or give the "
            "path of a copy.",
            unreached=[reason],
        )
    with _disk(folder):
        return _download(resolved, expected, folder, Bar("B") if progress is None else progress, policy)


def finished_record(folder: Path, place: str) -> Path:
    """Where the sha256 of the last finished download of a place is noted, should its process end before it is used."""
    return folder / "partial" / f"{_key_of(place)}.sha256"


def is_left_behind(partial: Path) -> bool | None:
    """Whether no process writes a ``.part`` file; None if that cannot be decided from here."""
    lock = partial.with_suffix(".lock")
    if partial.suffixes != [f".{_machine()}", ".part"]:
        return None
    if not lock.exists():
        return True
    try:
        with locked(lock, patience_s=0) as is_real:
            return True if is_real else None
    except StoreError:
        return False
    except OSError:  # of another user
        return None


def _user_file(resolved: Source, expected: Expected) -> Fetched:
    assert resolved.path is not None  # of a path
    path = resolved.path
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a folder, or a pipe that could be waited on forever
            raise WeightsUnavailable(f"{path} is not a file, expected one of weights; correct the path.")
        digest, size = file_sha256(path)
    except OSError as error:
        raise WeightsUnavailable(
            f"The file {path} cannot be read ({error.strerror or error}), expected one of weights; correct the path."
        ) from error
    expected.check(digest, size)
    return Fetched(path=path, sha256=digest, size_bytes=size, origin=os.path.abspath(path), is_ours=False)


def _cached(resolved: Source, expected: Expected, folder: Path) -> Fetched | None:
    """The file if this machine has it: downloaded before and not used since, or in torch.hub's cache."""
    known = expected.hash
    if len(known) < 64:
        try:
            known = finished_record(folder, resolved.place).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            known = ""
    ours = folder / "downloads" / known
    if re.fullmatch("[0-9a-f]{64}", known) and (right := _right(ours, expected, whole=known)):
        return Fetched(path=ours, sha256=right[0], size_bytes=right[1], origin=shown(resolved.url or ""), is_ours=True)
    theirs = torch_checkpoints() / resolved.filenames[0]
    # without a hash a file of that name may be that of another address: names repeat
    if expected.hash and (right := _right(theirs, expected)):
        return Fetched(path=theirs, sha256=right[0], size_bytes=right[1], origin=f"{theirs}", is_ours=False)
    return None


def _right(path: Path, expected: Expected, *, whole: str = "") -> tuple[str, int] | None:
    """Hash and size of a file, if it is the expected one; a wrong one is left to be replaced."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        digest, size = file_sha256(path)
    except (OSError, ValueError):  # missing, not readable, or no possible name of a file
        return None
    is_right = digest.startswith(whole) and digest.startswith(expected.hash) and expected.size_bytes in (None, size)
    return (digest, size) if is_right else None


def _download(resolved: Source, expected: Expected, folder: Path, progress: Progress, policy: Policy) -> Fetched:
    path = folder / "partial" / f"{_key_of(resolved.place)}.{_machine()}.part"
    path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as until_released:
        has_waited, is_shared = _turn(until_released, path, policy)
        try:
            if not has_waited or path.exists():
                part = path if is_shared else path.with_suffix(f".{secrets.token_hex(4)}.part")
                return _downloaded(Partial(part, is_shared=is_shared), resolved, expected, folder, progress, policy)
        finally:
            if is_shared and not path.exists():
                with suppress(OSError):  # Windows removes nothing that is open
                    path.with_suffix(".lock").unlink()
    if (cached := _cached(resolved, expected, folder)) is not None:
        return cached
    raise TakenAway(
        f"Another process was downloading {shown(resolved.place)}, and its file is not in {folder} any more; try again."
    )


def _downloaded(
    partial: Partial, resolved: Source, expected: Expected, folder: Path, progress: Progress, policy: Policy
) -> Fetched:
    try:
        partial.take_up(address=shown(resolved.url or ""), is_checkable=bool(expected.hash))
        _fill(partial, resolved, expected, progress, policy)
        with replaced(finished_record(folder, resolved.place)) as file:
            file.write(f"{partial.sha256}\n".encode())
        target = folder / "downloads" / partial.sha256
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
    _sweep(folder / "partial", _key_of(resolved.place))
    size = partial.size_bytes
    return Fetched(path=target, sha256=partial.sha256, size_bytes=size, origin=shown(resolved.url or ""), is_ours=True)


def _turn(until_released: ExitStack, partial: Path, policy: Policy) -> tuple[bool, bool]:
    """Whether another process had to be waited for, and whether this process may write the partial file now."""
    lock, before, has_waited = partial.with_suffix(".lock"), -1, False
    while True:
        try:
            is_ours = until_released.enter_context(locked(lock, patience_s=policy.timeout_s if has_waited else 0))
        except StoreError:  # another process has it
            now = _size(partial)
            if now == before:
                return False, False
            before, has_waited = now, True
            continue
        except PermissionError:  # of another user
            return False, False
        with suppress(OSError):
            os.utime(lock)  # young, and so no garbage
        return has_waited and is_ours, is_ours


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _sweep(folder: Path, key: str) -> None:
    """Removes abandoned files: of this place after an hour, of others after a week; and their notes."""
    now = time.time()
    with suppress(OSError):  # another process may sweep at the same time
        for path in folder.glob("*.part"):
            age_s = now - path.stat().st_mtime
            if age_s > (_HOUR_S if path.name.startswith(key) else _WEEK_S) and is_left_behind(path) is not False:
                path.unlink(missing_ok=True)
        for path in folder.iterdir():
            is_note = path.suffix in (".json", ".lock", ".sha256", ".tmp") and not path.with_suffix(".part").exists()
            if is_note and now - path.stat().st_mtime > _HOUR_S:
                path.unlink(missing_ok=True)


def _key_of(place: str) -> str:
    """Under which name downloads of a place are stored."""
    return blake2b(place.encode(errors="surrogatepass"), digest_size=16).hexdigest()


@cache
def _machine() -> str:
    """A name of the running kernel, within which locks hold; of the host, where the kernel has no id."""
    try:
        kernel = _BOOT_ID.read_text()
    except OSError:
        kernel = gethostname()
    return blake2b(kernel.encode(), digest_size=4).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """Which body a server sends, as far as its headers say."""

    etag: str  # with its quotes; "" if there is none
    last_modified: str
    total_bytes: int | None

    @property
    def validator(self) -> str:
        """What to send as If-Range: a strong ETag, or else the date; "" if the body can never be resumed."""
        strong = self.etag if self.etag.startswith('"') else ""
        return strong or self.last_modified

    def may_be(self, other: Version) -> bool:
        """False if two answers are about different bodies; a header that is missing contradicts nothing."""
        pairs = zip(asdict(self).values(), asdict(other).values(), strict=True)
        return all(before == after for before, after in pairs if before and after)


class Partial:
    """One file being downloaded: its bytes on the disk, their hash, and the body that they are the beginning of."""

    def __init__(self, path: Path, *, is_shared: bool) -> None:
        self.path, self._note = path, path.with_suffix(".json")
        self.version: Version | None = None
        self.size_bytes = 0
        self.is_joined = False  # of more than one answer, which may not belong together
        self._address, self._is_shared = "", is_shared
        self._hash = sha256()
        self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    @property
    def is_complete(self) -> bool:
        """True if all bytes that the server promised are there."""
        return self.version is not None and self.size_bytes == self.version.total_bytes

    @property
    def resumable_bytes(self) -> int:
        """Bytes that need not be requested again."""
        return self.size_bytes if self.version and self.version.validator else 0

    @property
    def n_left(self) -> int:
        """Bytes that another process can continue from."""
        return self.resumable_bytes if self._is_shared else 0

    def take_up(self, *, address: str, is_checkable: bool) -> None:
        """Continues the bytes that another process has left, or throws them away if it is unclear what they are."""
        self._address = address
        try:
            note = json.loads(self._note.read_bytes())
            version = Version(**{name: note[name] for name in Version.__slots__})
            is_sane = (version.etag + version.last_modified).isprintable() and (version.total_bytes or 0) >= 0
        except (OSError, ValueError, KeyError, TypeError):
            is_sane = False
        if not is_sane or not (is_checkable or _BOOT_ID.exists()):  # a machine that crashed may have lost bytes
            self.begin(None)
            return
        while block := self._file.read(_BLOCK):
            self._hash.update(block)
            self.size_bytes += len(block)
        self.version, self.is_joined = version, True
        if version.total_bytes is not None and self.size_bytes > version.total_bytes:
            self.begin(None)

    def begin(self, version: Version | None) -> None:
        """Throws away the bytes; None if it is not known yet which body comes."""
        self._file.seek(0)
        self._file.truncate()
        self._hash = sha256()
        self.size_bytes, self.is_joined, self.version = 0, False, version
        if version is not None:
            with replaced(self._note) as file:
                file.write(json.dumps({"address": self._address, **asdict(version)}).encode())

    def write(self, data: bytes) -> None:
        """Appends bytes of the body; they survive this process from then on."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) or 0 :]
        self._hash.update(data)
        self.size_bytes += len(data)

    def publish(self, target: Path) -> None:
        """Makes the file ``target``, whole or not at all."""
        os.fsync(self._file.fileno())
        self._file.close()
        target.parent.mkdir(parents=True, exist_ok=True)
        publish(self.path, target)
        self._note.unlink(missing_ok=True)

    def remove(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def release(self) -> None:
        """Leaves the bytes to a process that continues them; does nothing after publish or remove."""
        if self._file.closed:
            return
        with suppress(OSError):  # on a failing disk
            if self.n_left:
                self._file.close()
            else:
                self.remove()


class Interrupted(Exception):
    """One request failed in a way that the next one may not; never leaves this module."""

    def __init__(self, reason: str, *, wait_s: float | None = None, is_answered: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason  # as the end of a sentence
        self.wait_s = wait_s  # what the server asked for
        self.is_answered = is_answered  # False if no server was reached, as without a network


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A server's answer, its body yet to be read."""

    status: int  # 200, 206 or 416
    version: Version  # of the body
    first_byte: int  # position in the body where this answer begins; -1 if not stated
    n_bytes: int | None  # of this answer, None if not stated
    is_framed: bool  # its end differs from a broken connection
    body: http.client.HTTPResponse


def _fill(partial: Partial, resolved: Source, expected: Expected, progress: Progress, policy: Policy) -> None:
    """Sends requests until the whole body is there and is the expected one."""
    failures, is_answered, is_second_try = 0, False, False
    most = partial.size_bytes  # so far: bytes that come again, because they were thrown away, are no progress
    url, reason = resolved.url or "", "the body never ended"
    for _ in range(policy.most_requests):
        try:
            if not partial.is_complete:
                _receive(partial, url, resolved.filenames[0], expected, progress, policy)
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
    rest = f"; the {partial.size_bytes} bytes that came are kept to go on with" if partial.n_left else ""
    raise WeightsUnavailable(
        f"{shown(url)} could not be downloaded: {reason}, tried {failures} times in a row{rest}; "
        "check the network and try again, or give the path of a copy.",
        unreached=() if is_answered else [reason],
    )


def _wait(error: Interrupted, failures: int, policy: Policy) -> None:
    """Waits longer after every failure, and not in step with others that had the same failure."""
    if error.wait_s is not None and error.wait_s > policy.longest_wait_s:
        raise WeightsUnavailable(
            f"The server is busy ({error.reason}) and asks to come back in {error.wait_s:.0f} s; try again then."
        ) from error
    backoff = min(policy.first_wait_s * 2 ** (failures - 1), policy.longest_wait_s) * random.uniform(0.5, 1)
    time.sleep(max(backoff, error.wait_s or 0))


def _receive(partial: Partial, url: str, name: str, expected: Expected, progress: Progress, policy: Policy) -> None:
    """One request and as much of its answer as comes; returns if that was the end of the body."""
    before, resumed = partial.version, partial.resumable_bytes
    answer = _ask(url, expected, first_byte=resumed, validator=before.validator if before else "", policy=policy)
    with closing(answer.body):
        if answer.status == 416:
            if before is not None and answer.version.total_bytes == resumed and before.may_be(answer.version):
                return  # the length was not known before, and everything is there
            partial.begin(None)
            raise Interrupted("the server has not as many bytes as before", wait_s=0)
        if answer.status == 206:
            if not _continues(partial, answer):
                partial.begin(None)
                raise Interrupted("the file changed on the server, or it sent other bytes than asked for", wait_s=0)
            partial.is_joined = True
        else:
            _check_length(url, partial.path.parent, answer, expected)
            partial.begin(answer.version)
        lengths = [version.total_bytes for version in (answer.version, partial.version) if version is not None]
        total = next((length for length in [*lengths, expected.size_bytes] if length is not None), None)
        progress.start(name, total, partial.size_bytes)
        _copy(partial, url, answer, total, progress, policy)
        if not answer.is_framed and not expected.hash and expected.size_bytes is None:
            raise WeightsUnavailable(
                f"The server of {shown(url)} does not say how long the file is, so that a broken connection looks like "
                "its end; state the file's size or sha256, or try another place."
            )
        if partial.size_bytes == 0:
            raise WeightsRefused(f"{shown(url)} is an empty file, expected weights; try another place.")


def _copy(
    partial: Partial, url: str, answer: Answer, total_bytes: int | None, progress: Progress, policy: Policy
) -> None:
    """Writes the body of one answer to the disk, up to its promised end."""
    left = answer.n_bytes
    if left is None and total_bytes is not None:
        left = total_bytes - partial.size_bytes
    answer.body.length = None  # http.client would hide what comes after the promised length
    while left is None or left > 0:
        try:
            data = answer.body.read1(policy.chunk_bytes if left is None else min(policy.chunk_bytes, left))
        except (OSError, http.client.HTTPException) as error:
            raise Interrupted(_reason_of(error, policy)) from error
        if not data:
            break
        partial.write(data)
        progress.advance(len(data))
        left = None if left is None else left - len(data)
    if left or (total_bytes is not None and partial.size_bytes < total_bytes):
        raise Interrupted(f"the connection was closed after {partial.size_bytes} of {total_bytes} bytes")
    surplus = b""
    if left == 0:  # the server closes the connection there, as every request asks it to
        with suppress(OSError, http.client.HTTPException):
            surplus = answer.body.read1(1)
    if surplus:
        raise WeightsRefused(
            f"{shown(url)} sends more than the {partial.size_bytes} bytes that it promised or that were expected, so "
            "that its end is unknown; try another place."
        )


def _continues(partial: Partial, answer: Answer) -> bool:
    """True if a 206 begins where our bytes end and is about the same body."""
    old, new = partial.version, answer.version
    if old is None or answer.first_byte != partial.size_bytes or answer.n_bytes is None:
        return False
    total = old.total_bytes if new.total_bytes is None else new.total_bytes
    if total is not None and partial.size_bytes + answer.n_bytes > total:
        return False
    # a 206 must say the strong ETag that it was asked for (RFC 9110, section 15.3.7); a date it may leave out
    return old.may_be(new) and (new.etag == old.etag or not old.etag.startswith('"'))


def _check_length(url: str, folder: Path, answer: Answer, expected: Expected) -> None:
    """Refuses a file of the wrong length, or too large for the disk, before its first byte."""
    promised = answer.version.total_bytes
    if promised is not None and expected.size_bytes is not None and promised != expected.size_bytes:
        raise WeightsRefused(
            f"{shown(url)} has {promised} bytes, expected {expected.size_bytes}; look for the right file at another "
            "place, or, if its publisher says that this is the right one, correct the expected hash and size."
        )
    needed, free = promised or expected.size_bytes or 0, shutil.disk_usage(folder).free
    if needed > free:
        raise StoreError(
            f"The file at {shown(expected.place)} has {needed} bytes, and only {free} are free in {folder}; make room, "
            "or set ZOO_CACHE to a folder on a larger disk."
        )


@contextmanager
def _disk(folder: Path) -> Iterator[None]:
    """Turns errors of the disk into one sentence; errors of the network never get here."""
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


def _ask(url: str, expected: Expected, *, first_byte: int, validator: str, policy: Policy) -> Answer:
    """Requests a body from ``first_byte`` on, or the whole one if it has changed; close the answer's body."""
    headers = {"User-Agent": f"ssl-zoo/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"}
    if first_byte:
        headers |= {"Range": f"bytes={first_byte}-", "If-Range": validator}
    opener = OpenerDirector()  # only http and https: no file:, ftp: or data: by way of a redirection
    for handler in (ProxyHandler(), UnknownHandler(), HTTPHandler(), HTTPSHandler(), HTTPDefaultErrorHandler()):
        opener.add_handler(handler)
    opener.add_handler(Redirects(expected))
    opener.add_handler(HTTPErrorProcessor())
    try:
        answer = opener.open(Request(url, headers=headers), timeout=policy.timeout_s)
    except HTTPError as error:
        if error.code != 416 or not first_byte:
            with error:
                _refuse_status(url, error, expected)
        answer = error
    except WeightsRefused:  # of a redirection
        raise
    except URLError as error:
        raise _unreached(url, error.reason, expected, policy) from error
    except (http.client.InvalidURL, ValueError) as error:  # an impossible host, perhaps of a redirection
        raise _unreached(url, str(error), expected, policy) from error
    except (OSError, http.client.HTTPException) as error:
        raise Interrupted(_reason_of(error, policy)) from error
    try:
        return _examined(url, answer, expected, asked=first_byte)
    except BaseException:
        answer.close()
        raise


class Redirects(HTTPRedirectHandler):
    """Follows redirections, never to an address that is less safe."""

    def __init__(self, expected: Expected) -> None:
        self._expected = expected

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> Request | None:
        """The next request, with the same range; its headers hold no secret."""
        schemes = [urlsplit(url).scheme for url in (req.full_url, newurl)]
        if schemes not in (["https", "https"], ["http", "http"], ["http", "https"]):
            fp.close()
            raise WeightsRefused(
                f"{shown(req.full_url)} redirects to {shown(newurl)}, which is less safe; look for another place that "
                f"has the file at {shown(self._expected.place)}."
            )
        _check_address(newurl, self._expected)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_address(url: str, expected: Expected) -> None:
    """Refuses plain http from another machine if a change on the way could not be detected."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    with suppress(ValueError):  # a name, and no number
        host = "localhost" if ipaddress.ip_address(host).is_loopback else host
    if parts.scheme == "http" and host != "localhost" and len(expected.hash) < 64:
        raise WeightsRefused(
            f"{shown(url)} is a plain http address, where anyone on the way can change the file, and the sha256 of "
            f"the file at {shown(expected.place)} is not known; use an https address or state the sha256."
        )


def _reason_of(error: BaseException, policy: Policy) -> str:
    """Why a connection broke, as the end of a sentence."""
    if isinstance(error, TimeoutError):
        return f"nothing came for {policy.timeout_s:g} s"
    if isinstance(error, ConnectionResetError | http.client.RemoteDisconnected):
        return "the connection was reset"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection was closed in the middle of the file"
    return f"the connection failed ({error or type(error).__name__})".replace("\n", " ")


def _refuse_status(url: str, error: HTTPError, expected: Expected) -> NoReturn:
    answer = f"{error.code} {error.reason or ''}".strip().partition("\n")[0]
    if error.code >= 500 or error.code in _TRY_AGAIN:
        raise Interrupted(
            f"the server answered {answer}", wait_s=_seconds(error.headers.get("Retry-After", "").strip())
        ) from error
    advice = {
        401: "it wants a password or a key; get the file with your browser and give its path",
        403: "it refuses access; get the file with your browser and give its path, or try another place",
        404: "the file is not there any more; look for another place that has it",
        410: "the file is gone for good; look for another place that has it",
    }.get(error.code, "look for another place that has it")
    if 300 <= error.code < 400:
        answer, advice = "with redirections that lead nowhere", "look for another place that has it"
    raise WeightsUnavailable(
        f"The server answered {answer} when asked for {_named(url, expected)}: {advice}."
    ) from error


def _seconds(retry_after: str) -> float | None:
    """Seconds to wait, from either form of the header Retry-After (RFC 9110, section 10.2.3)."""
    if re.fullmatch(r"\d{1,9}", retry_after):
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:  # absent, or in neither form
        return None


def _named(url: str, expected: Expected) -> str:
    """The address, and the place where that is another."""
    place = "" if shown(url) == shown(expected.place) else f" (the place {shown(expected.place)})"
    return f"{shown(url)}{place}"


def _unreached(url: str, reason: str | BaseException, expected: Expected, policy: Policy) -> Exception:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return WeightsUnavailable(
            f"The server of {_named(url, expected)} could not prove who it is ({reason.verify_message}); check this "
            "machine's clock and certificates, or a proxy between."
        )
    if isinstance(reason, gaierror):
        return Interrupted(f"there is no host {urlsplit(url).hostname}", is_answered=False)
    if isinstance(reason, OSError):
        return Interrupted(_reason_of(reason, policy), is_answered=isinstance(reason, TimeoutError))
    return WeightsUnavailable(f"{_named(url, expected)} cannot be asked for ({reason}); correct it.")


def _examined(url: str, answer: Any, expected: Expected, *, asked: int) -> Answer:
    headers, status, where = answer.headers, answer.status, _named(url, expected)
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
    is_page = headers.get_content_type() in ("text/html", "application/xhtml+xml") and "Content-Type" in headers
    if status != 416 and is_page:
        raise WeightsUnavailable(
            f"The server of {where} sent a web page instead of a file, as hosts do for a login, a warning or a used-up "
            "quota; open the address in a browser, or try again later or another place."
        )
    is_chunked = bool(getattr(answer, "chunked", False))
    length = headers.get("Content-Length", "").strip()
    first, total = 0, int(length) if re.fullmatch(r"\d{1,18}", length) and not is_chunked else None
    n_bytes = total
    if status != 200:
        first, total = -1, None
        if match := _RANGE.fullmatch(headers.get("Content-Range", "").strip()):
            first = int(match[1] or -1)
            n_bytes = int(match[2]) - first + 1 if match[2] else 0
            total = None if match[3] == "*" else int(match[3])
    etag, date = (headers.get(name, "").strip() for name in ("ETag", "Last-Modified"))
    return Answer(
        status=status,
        version=Version(etag=etag, last_modified=date, total_bytes=total),
        first_byte=first,
        n_bytes=n_bytes,
        is_framed=is_chunked or n_bytes is not None,
        body=answer,
    )
