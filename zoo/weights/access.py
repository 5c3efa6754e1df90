"""Who may fetch a file of weights today, and whether it is still the recorded one: its host is asked by HEAD requests.

Nothing is downloaded. A place on the Hub is asked without a token first, for what it gives to everybody, and with the
user's token only where that is refused; a token is sent to the Hub and to nobody else. A repository that has moved on
since the recorded revision is asked twice, and counts as changed only if the file itself is another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import unquote

from ..errors import ZooError
from .hosts import asked, certificates, no_answer, note_silent, reason_of
from .places import Answer, Source, shown, source
from .store import REGISTERED

_TIMEOUT_S = 10.0
_GONE, _REFUSED = (404, 410), (401, 403)
_ON_THE_HUB = re.compile(
    r"https://(?:www\.)?(?:huggingface\.co|hf\.co)/(?P<repository>[\w.-]+/[\w.-]+)"
    r"(?:/(?:resolve|blob)/(?P<revision>[^/]+)/(?P<name>[^?]+)(?:\?.*)?)?/?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A place, and what is known of the file there; empty where nothing is."""

    place: str
    revision: str = ""  # of its repository on the Hub
    sha256: str = ""
    size_bytes: int | None = None


def located(place: str) -> Source:
    """A place, resolved; an address of the Hub is a place on the Hub."""
    match = _ON_THE_HUB.fullmatch(place)
    if match is None:
        return source(place)
    name = unquote(match["name"] or "")
    revision = unquote(match["revision"] or "")
    plain = source(f"hf:{match['repository']}{f'/{name}' if name else ''}")
    return replace(plain, place=place, revision=revision if revision not in ("", "main") else None)


def ask(recorded: Recorded) -> Answer:
    """Asks the host of a place about the file there; no answer is an error."""
    if recorded.place.startswith(REGISTERED):
        return Answer(access="here", detail="registered")
    try:
        resolved = located(recorded.place)
        if resolved.kind == "path":
            assert resolved.path is not None  # of a path
            is_there = resolved.path.exists()
            return Answer(access="here" if is_there else "gone", detail="" if is_there else "no such file here")
        if resolved.kind == "hub":
            return _ask_hub(resolved, recorded)
        if reason := no_answer(resolved.url or ""):
            return Answer(access="unreachable", detail=reason)
        return _ask_server(resolved, recorded)
    except ZooError as error:  # a place that cannot be resolved here, as one of a library that is not installed
        return Answer(access="unreachable", detail=str(error).rstrip("."))


def _compared(answer: Answer, recorded: Recorded) -> Answer:
    """An answer of an open host, changed if its file is not the recorded one."""
    if recorded.sha256 and answer.sha256 and answer.sha256 != recorded.sha256:
        return replace(answer, access="changed", detail=f"sha256 {answer.sha256}, recorded is {recorded.sha256}")
    if None not in (recorded.size_bytes, answer.size_bytes) and answer.size_bytes != recorded.size_bytes:
        sizes = f"{answer.size_bytes:,} bytes, recorded are {recorded.size_bytes:,}"
        return replace(answer, access="changed", detail=sizes)
    return answer


def _ask_hub(resolved: Source, recorded: Recorded) -> Answer:
    from .huggingface import head, token  # half a second that only places on the Hub need

    wanted = resolved.revision or recorded.revision
    first = _first_of(resolved, wanted, lambda name, revision: head(resolved, name, revision, token=""))
    if first.access == "gated":
        own = token()
        if not own:
            return replace(first, detail="HF_TOKEN is not set")
        admitted = _first_of(resolved, wanted, lambda name, revision: head(resolved, name, revision, token=own))
        if admitted.access != "open":
            return replace(first, detail="the account of your token is not admitted")
        checked = _compared(admitted, recorded)
        found = checked.detail if checked.access == "changed" else "the account of your token is admitted"
        return replace(checked, access="changed" if checked.access == "changed" else "gated", detail=found)
    if resolved.revision or not recorded.revision:
        return _compared(first, recorded) if first.access == "open" else first
    latest = _first_of(resolved, "", lambda name, revision: head(resolved, name, revision, token=""))
    if first.access == "open":
        checked = _compared(first, recorded)
        is_new = latest.access == "open" and latest.revision != recorded.revision
        if checked.access == "changed" or not is_new:
            return checked
        if (latest.sha256, latest.size_bytes) == (first.sha256, first.size_bytes):
            return replace(checked, detail=f"the same file in its latest revision {latest.revision}")
        other = f"its latest revision {latest.revision} has another file; the recorded one is still there"
        return replace(latest, access="changed", detail=other)
    if first.access == "gone" and latest.access == "open":
        return replace(latest, access="changed", detail=f"the recorded revision {recorded.revision} is gone")
    return first


def _first_of(resolved: Source, revision: str, head: Callable[[str, str], Answer | None]) -> Answer:
    """The answer for the first file name that the repository has."""
    for name in resolved.filenames:
        answer = head(name, revision)
        if answer is not None:
            return answer
    return Answer(access="gone", detail=f"{resolved.repository} has no file {' or '.join(resolved.filenames)}")


def _ask_server(resolved: Source, recorded: Recorded) -> Answer:
    import requests  # which nothing else of the command needs

    assert resolved.url is not None  # of an http place
    headers = {"User-Agent": asked(), "Accept": "*/*", "Accept-Encoding": "identity"}
    try:
        answer = requests.head(
            resolved.url,
            headers=headers,
            allow_redirects=True,
            timeout=_TIMEOUT_S,
            auth=lambda request: request,
            verify=certificates(),
        )
    except (requests.RequestException, ValueError) as error:  # the last of an impossible host
        reason = reason_of(error, resolved.url, _TIMEOUT_S)
        if isinstance(error, requests.ConnectionError):
            note_silent(resolved.url, reason)
        return Answer(access="unreachable", detail=reason)
    if not answer.ok:
        return _refused(answer.status_code, f"the server answered {answer.status_code} {answer.reason or ''}".strip())
    if answer.headers.get("Content-Type", "").partition(";")[0].strip() in ("text/html", "application/xhtml+xml"):
        page = f"{shown(resolved.url)} is a web page, and does not say whether the file behind it is open"
        return Answer(access="unreachable", detail=page)
    length = answer.headers.get("Content-Length", "").strip()
    is_whole = answer.headers.get("Content-Encoding", "identity").strip().lower() in ("identity", "")
    size = int(length) if is_whole and re.fullmatch(r"\d{1,18}", length) else None
    return _compared(Answer(access="open", size_bytes=size), recorded)


def _refused(status: int, said: str) -> Answer:
    if status in _GONE:
        return Answer(access="gone", detail=said)
    if status == 403:  # as stores of files also answer for one that they do not have
        return Answer(access="gated", detail=f"{said}, as some hosts do for a file that is gone")
    return Answer(access="gated" if status in _REFUSED else "unreachable", detail=said)
