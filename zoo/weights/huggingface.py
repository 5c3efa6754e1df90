"""Files of Hugging Face repositories, through huggingface_hub with its cache, retries, messages, token and settings.

``HF_HOME``, ``HF_ENDPOINT``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` mean what they mean everywhere. huggingface_hub checks
the size of what it downloads, and nothing of what is in its cache; here every file is hashed each time, and the cache's
name for a large file, which is its sha256, must be right.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from ..errors import StoreError, WeightsRefused, WeightsUnavailable
from ..optional import require_extra
from ..storage import is_offline
from .hosts import get_silence_reason, remember_silent_host
from .locations import ExpectedFile, FetchedFile, HostResponse, ResolvedSource, format_location, hash_file

with require_extra("models", needed_for="Weights on Hugging Face"):
    from huggingface_hub import (
        _CACHED_NO_EXIST,
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

# The library below huggingface_hub has changed (requests, then httpx), and so have the errors of broken connections:
# each has an HTTPError that HfHubHTTPError derives from, and those that do not derive from it are OSErrors. Xet storage
# raises RuntimeError, and an impossible name or forced download ValueError.
_TRANSPORT = [kind for kind in HfHubHTTPError.__mro__ if kind.__name__ == "HTTPError"]
FAILURES: tuple[type[Exception], ...] = (*_TRANSPORT, OSError, RuntimeError, ValueError)
_TIMEOUT_S = 10.0
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOTDIR, errno.EEXIST)


def fetch_hub(resolved: ResolvedSource, *, expected: ExpectedFile) -> FetchedFile:
    """A file of a repository, in huggingface_hub's cache; the file names of the place are tried in their order."""
    forbidden = "ZOO_OFFLINE" if is_offline() else "HF_HUB_OFFLINE" if constants.HF_HUB_OFFLINE else ""
    if expected.hash or forbidden:  # with a known hash the Hub need not be asked about a file that is in the cache
        for name in resolved.filenames:
            path = _in_cache(resolved, name)
            if path is not None and (forbidden or expected.fits(*_hashed(path))):
                return _fetched(resolved, name, path, expected)
    unreached = "" if forbidden else get_silence_reason(constants.ENDPOINT)
    reason = unreached
    for name in resolved.filenames:
        try:
            path = _in_cache(resolved, name) if forbidden or unreached else _download(resolved, name)
        except LocalEntryNotFoundError as error:
            reason = format_hub_error(error.__cause__ or error)
            if not isinstance(error.__cause__, HfHubHTTPError):  # no network: of other names too only the cache's
                unreached = reason
                remember_silent_host(constants.ENDPOINT, reason)
            continue
        except EntryNotFoundError:
            continue
        if path is not None:
            return _fetched(resolved, name, path, expected)
    listed = " or ".join(resolved.filenames)
    if not (forbidden or reason) or all(_is_known_to_be_absent(resolved, name) for name in resolved.filenames):
        raise WeightsUnavailable(
            f"The Hugging Face repository {resolved.repository} ({resolved.place}) has no file {listed}; correct the "
            "place."
        )
    lacking = f"The file at {resolved.place} ({listed}) is not in huggingface_hub's cache {constants.HF_HUB_CACHE}"
    if forbidden:
        raise WeightsUnavailable(
            f"{lacking}, and {forbidden} forbids to fetch it; unset {forbidden} once, or give the path of a copy.",
            unreached=[f"{forbidden} forbids to fetch; unset it once"],
        )
    raise WeightsUnavailable(
        f"{lacking}, and {format_location(constants.ENDPOINT)} could not be asked for it ({reason}); check the network "
        "and try again.",
        unreached=[unreached] if unreached else (),
    )


def _fetched(resolved: ResolvedSource, name: str, path: Path, expected: ExpectedFile) -> FetchedFile:
    """The file, checked against what is expected and against its name in the cache."""
    digest, size = _hashed(path)
    named = os.path.basename(os.readlink(path)) if path.is_symlink() else ""
    if re.fullmatch("[0-9a-f]{64}", named) and digest != named:
        raise WeightsRefused(
            f"{_named(resolved, name)} is damaged in huggingface_hub's cache: it has the sha256 {digest} ({size} "
            f"bytes), expected {named}; remove {os.path.realpath(path)}, and fetch it again."
        )
    expected.check(digest, size)
    commit = re.search(r"[/\\]snapshots[/\\]([0-9a-f]{40})[/\\]", str(path))  # the address of exactly these bytes
    revision = quote(commit[1] if commit else (resolved.revision or "main"), safe="")
    origin = format_location(f"{constants.ENDPOINT}/{resolved.repository}/resolve/{revision}/{quote(name)}")
    return FetchedFile(path=path, sha256=digest, size_bytes=size, origin=origin, is_ours=False)


def _hashed(path: Path) -> tuple[str, int]:
    try:
        return hash_file(path)
    except OSError as error:
        raise StoreError(f"{path} in huggingface_hub's cache cannot be read ({error.strerror}); remove it.") from error


def _named(resolved: ResolvedSource, name: str) -> str:
    return f"{name!r} of the Hugging Face repository {resolved.repository}"


def _in_cache(resolved: ResolvedSource, name: str) -> Path | None:
    """The file in the cache; hf_hub_download(local_files_only=True) would ask the Hub about other things."""
    path = _look_up(resolved, name)
    return Path(path) if isinstance(path, str) else None


def _look_up(resolved: ResolvedSource, name: str) -> object:
    """A path in the cache, None, or another object: the Hub has no such file."""
    with _in_a_sentence(resolved, name):
        return try_to_load_from_cache(resolved.repository or "", name, revision=resolved.revision)


def _is_known_to_be_absent(resolved: ResolvedSource, name: str) -> bool:
    """Whether the cache tells that the repository has no such file: it was asked for, or all its files were fetched.

    The Hub puts a ``.gitattributes`` into a repository that it makes, which is fetched with everything else alone
    (``hf download NAME``). Of weights it tells nothing: a download that was stopped may have the small files already.
    """
    path = _look_up(resolved, name)
    is_whole = name.endswith(".json") and isinstance(_look_up(resolved, ".gitattributes"), str)
    return path is _CACHED_NO_EXIST or (path is None and is_whole)


def _download(resolved: ResolvedSource, name: str) -> Path:
    with _in_a_sentence(resolved, name):
        return Path(
            hf_hub_download(resolved.repository or "", name, revision=resolved.revision, library_name="ssl-zoo")
        )


@contextmanager
def _in_a_sentence(resolved: ResolvedSource, name: str) -> Iterator[None]:
    """Turns the errors of huggingface_hub into ours, except that of a file that the repository does not have."""
    what = _named(resolved, name)
    try:
        yield
    except EntryNotFoundError:
        raise
    except GatedRepoError as error:
        way_in = (
            f"accept its licence at {format_location(f'{constants.ENDPOINT}/{resolved.repository}')} and set HF_TOKEN"
        )
        if find_hub_token():
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
        if isinstance(error, OSError) and error.errno in _DISK:
            raise StoreError(
                f"huggingface_hub's cache {constants.HF_HUB_CACHE} cannot be written ({error.strerror}); make room or "
                "make it writable, or set HF_HOME to a folder that is."
            ) from error
        raise WeightsUnavailable(
            f"{what} could not be downloaded ({format_hub_error(error)}); check the network and HF_TOKEN, and try "
            "again later."
        ) from error


def fetch_hub_metadata(resolved: ResolvedSource, name: str, revision: str, *, token: str) -> HostResponse | None:
    """What the Hub says of a file at a revision, or in the latest one; None if the repository has no such file."""
    address = hf_hub_url(resolved.repository or "", name, revision=revision or None)
    try:
        about = get_hf_file_metadata(address, token=token or False, timeout=_TIMEOUT_S, library_name="ssl-zoo")
    except GatedRepoError:
        return HostResponse(access="gated")
    except RepositoryNotFoundError:
        return HostResponse(access="gone", detail=f"no repository {resolved.repository}, or it is private")
    except RevisionNotFoundError:
        return HostResponse(access="gone", detail=f"{resolved.repository} has no revision {revision}")
    except EntryNotFoundError:
        return None
    except FAILURES as error:
        if isinstance(error, HfHubHTTPError) and error.response is not None and error.response.status_code == 403:
            return HostResponse(access="gated")
        return HostResponse(access="unreachable", detail=format_hub_error(error))
    digest = about.etag if about.etag and re.fullmatch("[0-9a-f]{64}", about.etag) else ""
    return HostResponse(access="open", revision=about.commit_hash or "", sha256=digest, size_bytes=about.size)


def find_hub_token() -> str:
    """The user's token for the Hub, from HF_TOKEN or from a login; "" if there is none."""
    try:
        return get_token() or ""
    except FAILURES:  # a login that cannot be renewed is none
        return ""


def format_hub_error(error: BaseException) -> str:
    """The message of a library's error, on one line and without the signed part of an address."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return re.sub(r"\?[^\s'\")]*", "", lines[0] if lines else type(error).__name__).rstrip(".")
