"""Files of Hugging Face repositories, through huggingface_hub with the user's cache, token and settings.

``HF_HOME``, ``HF_ENDPOINT``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` mean what they mean everywhere. huggingface_hub checks
the size of what it downloads, and nothing of what is in its cache; here every file is hashed each time, and the cache's
name for a large file, which is its sha256, must be right.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

from ..errors import StoreError, WeightsRefused, WeightsUnavailable
from ..optional import requires_extra
from ..progress import Progress
from ..storage import is_offline
from .hosts import no_answer, note_silent
from .places import Answer, Expected, Fetched, Source, file_sha256, shown

with requires_extra("models", needed_for="Weights on Hugging Face"):
    from huggingface_hub import (
        constants,
        get_hf_file_metadata,
        get_token,
        hf_hub_download,
        hf_hub_url,
        try_to_load_from_cache,
    )
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

# The library below huggingface_hub has changed (requests, then httpx), and so have the errors of broken connections:
# each has an HTTPError that HfHubHTTPError derives from, and those that do not derive from it are OSErrors. Xet storage
# raises RuntimeError, and an impossible name or forced download ValueError.
_TRANSPORT = [kind for kind in HfHubHTTPError.__mro__ if kind.__name__ == "HTTPError"]
FAILURES: tuple[type[Exception], ...] = (*_TRANSPORT, OSError, RuntimeError, ValueError)
_TIMEOUT_S = 10.0
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOTDIR, errno.EEXIST)


def fetch_hub(resolved: Source, *, expected: Expected, progress: Progress | None) -> Fetched:
    """A file of a repository, in huggingface_hub's cache; the file names of the place are tried in their order.

    ``progress`` learns of the whole file at once; without it, huggingface_hub draws its bar.
    """
    # with a known hash the Hub need not be asked about a file that is in the cache
    if expected.hash and (cached := _cached(resolved, expected)):
        return cached
    is_local = is_offline()
    missing, unreached = [], ""
    if not (is_local or constants.HF_HUB_OFFLINE):
        unreached = no_answer(constants.ENDPOINT)
        is_local = bool(unreached)
    reason = unreached
    for name in resolved.filenames:
        try:
            sound = _sound(resolved, name, expected, is_local=is_local, is_silent=progress is not None)
        except LocalEntryNotFoundError as error:
            # no network: of the other names too only what the cache has can be given
            is_local, reason, sound = True, in_one_line(error.__cause__ or error), None
            note_silent(constants.ENDPOINT, reason)
            unreached = reason
        except EntryNotFoundError:
            sound = None
        if sound is None:
            missing.append(name)
            continue
        path, digest, size = sound
        if is_local and missing and not digest.startswith(expected.hash):  # a second choice, and the wrong one
            missing.append(name)
            continue
        expected.check(digest, size)
        if progress is not None:
            progress.start(name, size, 0)
            progress.advance(size)
            progress.end()
        return Fetched(path=path, sha256=digest, size_bytes=size, origin=_origin(resolved, name, path), is_ours=False)
    raise _missing(resolved, missing, is_local=is_local, reason=reason, unreached=unreached)


def _missing(
    resolved: Source, names: list[str], *, is_local: bool, reason: str, unreached: str = ""
) -> WeightsUnavailable:
    listed = " or ".join(names)
    if not is_local:
        return WeightsUnavailable(
            f"The Hugging Face repository {resolved.repository} ({resolved.place}) has no file {listed}; correct the "
            "place."
        )
    lacking = f"The file at {resolved.place} ({listed}) is not in huggingface_hub's cache {constants.HF_HUB_CACHE}"
    if is_offline() or constants.HF_HUB_OFFLINE:
        variable = "ZOO_OFFLINE" if is_offline() else "HF_HUB_OFFLINE"
        return WeightsUnavailable(
            f"{lacking}, and {variable} forbids to fetch it; unset {variable} once, or give the path of a copy."
        )
    return WeightsUnavailable(
        f"{lacking}, and {shown(constants.ENDPOINT)} could not be asked for it ({reason}); check the network and try "
        "again.",
        unreached=[unreached] if unreached else (),
    )


def _cached(resolved: Source, expected: Expected) -> Fetched | None:
    """The file if the cache has it with the known hash."""
    for name in resolved.filenames:
        path = _in_cache(resolved, name)
        if path is None:
            continue
        digest, size = _hashed(path)
        if digest.startswith(expected.hash) and expected.size_bytes in (None, size):
            return Fetched(
                path=path, sha256=digest, size_bytes=size, origin=_origin(resolved, name, path), is_ours=False
            )
    return None


def _sound(
    resolved: Source, name: str, expected: Expected, *, is_local: bool, is_silent: bool
) -> tuple[Path, str, int] | None:
    """The file, its hash and its size; a damaged one is removed from the cache and fetched again, once.

    None if only the cache may be used and it has no such file; the errors of huggingface_hub for a missing file pass
    through.
    """
    path = _in_cache(resolved, name) if is_local else _download(resolved, name, is_silent=is_silent)
    if path is None:
        return None
    digest, size = _hashed(path)
    named = _hash_in_cache(path)
    if digest.startswith(named or expected.sha256) or (is_local and not named):
        return path, digest, size
    what = f"{name!r} of the Hugging Face repository {resolved.repository}"
    wrong = f"has the sha256 {digest} ({size} bytes), expected {named or expected.sha256}"
    if named:
        _remove(path)
    if is_local:
        raise WeightsRefused(f"The copy of {what} in huggingface_hub's cache {wrong}; it was removed: fetch it again.")
    # forced, because the cache may have the same damaged bytes in a second place
    path = _download(resolved, name, is_silent=is_silent, is_forced=True)
    digest, size = _hashed(path)
    named = _hash_in_cache(path)
    if not digest.startswith(named):
        _remove(path)
        raise WeightsRefused(f"{what} {wrong}, and arrived damaged when it was fetched again; check disk and network.")
    return path, digest, size


def _in_cache(resolved: Source, name: str) -> Path | None:
    """The file in the cache; hf_hub_download(local_files_only=True) would ask the Hub about other things."""
    assert resolved.repository is not None  # of a place on the Hub
    try:
        path = try_to_load_from_cache(resolved.repository, name, revision=resolved.revision)
    except ValueError as error:
        _refuse(f"{name!r} of the Hugging Face repository {resolved.repository}", error)
    return Path(path) if isinstance(path, str) else None  # another object: the Hub has no such file


def _download(resolved: Source, name: str, *, is_silent: bool, is_forced: bool = False) -> Path:
    assert resolved.repository is not None  # of a place on the Hub
    what = f"{name!r} of the Hugging Face repository {resolved.repository}"
    try:
        with _bars(is_silent), _quiet():
            path = hf_hub_download(
                resolved.repository,
                name,
                revision=resolved.revision,
                library_name="ssl-zoo",
                force_download=is_forced,
            )
        return Path(path)
    except EntryNotFoundError:
        raise
    except GatedRepoError as error:
        way_in = f"accept its licence at {shown(f'{constants.ENDPOINT}/{resolved.repository}')} and set HF_TOKEN"
        if token():
            way_in = f"{way_in} to a token of that account, for the account of the present one is not admitted"
        raise WeightsUnavailable(
            f"{what} is given only to users whom its publisher admits: {way_in}.", way_in=way_in
        ) from error
    except RepositoryNotFoundError as error:
        raise WeightsUnavailable(
            f"There is no Hugging Face repository {resolved.repository} ({resolved.place}), or it is private; correct "
            "the name, or set HF_TOKEN to a token that may read it."
        ) from error
    except RevisionNotFoundError as error:
        raise WeightsUnavailable(
            f"The Hugging Face repository {resolved.repository} has no revision {resolved.revision!r} "
            f"({resolved.place}); name a branch, a tag or a commit that it has."
        ) from error
    except FAILURES as error:
        _refuse(what, error)


def _refuse(what: str, error: BaseException) -> NoReturn:
    if isinstance(error, OSError) and error.errno in _DISK:
        raise StoreError(
            f"huggingface_hub's cache {constants.HF_HUB_CACHE} cannot be written ({error.strerror}); make room or make "
            "it writable, or set HF_HOME to a folder that is."
        ) from error
    raise WeightsUnavailable(
        f"{what} could not be downloaded ({in_one_line(error)}); check the network and HF_TOKEN, and try again later."
    ) from error


def _hashed(path: Path) -> tuple[str, int]:
    try:
        return file_sha256(path)
    except OSError as error:
        raise StoreError(f"{path} in huggingface_hub's cache cannot be read ({error.strerror}); remove it.") from error


def _hash_in_cache(path: Path) -> str:
    """The sha256 that the cache names a large file by, "" where it does not.

    One link and no further: the blob may itself be a link into a store that is shared between caches, where names are
    hashes of another kind.
    """
    try:
        blob = os.path.basename(os.readlink(path))
    except OSError:  # a file system without links, or a file put there by hand
        return ""
    return blob if re.fullmatch("[0-9a-f]{64}", blob) else ""


def _remove(path: Path) -> None:
    """Removes a damaged file; in a cache that cannot be written it stays."""
    with suppress(OSError):
        blob = path.parent / os.readlink(path)
        blob.unlink(missing_ok=True)
    with suppress(OSError):
        path.unlink(missing_ok=True)


def _origin(resolved: Source, name: str, path: Path) -> str:
    """The address of exactly these bytes: the commit is in the path of the cache."""
    commit = re.search(r"[/\\]snapshots[/\\]([0-9a-f]{40})[/\\]", str(path))
    revision = commit[1] if commit else (resolved.revision or "main")
    return shown(f"{constants.ENDPOINT}/{resolved.repository}/resolve/{quote(revision, safe='')}/{quote(name)}")


@contextmanager
def _bars(is_silent: bool) -> Iterator[None]:
    """huggingface_hub without its bars, unless the user has asked for them by HF_HUB_DISABLE_PROGRESS_BARS=0."""
    is_ours = is_silent and constants.HF_HUB_DISABLE_PROGRESS_BARS is None and not are_progress_bars_disabled()
    if is_ours:
        disable_progress_bars()
    try:
        yield
    finally:
        if is_ours:
            enable_progress_bars()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without huggingface_hub's messages about its retries: a failure is reported once, as an error."""
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(max(before, logging.ERROR))
    try:
        yield
    finally:
        logger.setLevel(before)


def head(resolved: Source, name: str, revision: str, *, token: str) -> Answer | None:
    """What the Hub says of a file at a revision, or in the latest one; None if the repository has no such file."""
    assert resolved.repository is not None  # of a place on the Hub
    address = hf_hub_url(resolved.repository, name, revision=revision or None)
    try:
        about = get_hf_file_metadata(address, token=token or False, timeout=_TIMEOUT_S, library_name="ssl-zoo")
    except GatedRepoError:
        return Answer(access="gated")
    except RepositoryNotFoundError:
        return Answer(access="gone", detail=f"no repository {resolved.repository}, or it is private")
    except RevisionNotFoundError:
        return Answer(access="gone", detail=f"{resolved.repository} has no revision {revision}")
    except EntryNotFoundError:
        return None
    except FAILURES as error:
        if isinstance(error, HfHubHTTPError) and error.response is not None and error.response.status_code == 403:
            return Answer(access="gated")
        return Answer(access="unreachable", detail=in_one_line(error))
    digest = about.etag if about.etag and re.fullmatch("[0-9a-f]{64}", about.etag) else ""
    return Answer(access="open", revision=about.commit_hash or "", sha256=digest, size_bytes=about.size)


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
