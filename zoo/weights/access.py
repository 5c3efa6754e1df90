"""Who may fetch a file of weights today, and whether it is still the recorded one: its host is asked by HEAD requests.

A place on the Hub is asked without a token first, for what it gives to everybody, and with the user's token where that
is refused; a token is sent to the Hub alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import unquote

from ..errors import ZooError
from .hosts import (
    describe_request_error,
    get_silence_reason,
    is_page,
    is_unconnected,
    parse_content_length,
    remember_silent_host,
    send_request,
)
from .locations import HostResponse, ResolvedSource, format_location, resolve_source
from .store import REGISTERED

_TIMEOUT_S = 10.0
_ON_THE_HUB = re.compile(
    r"https://(?:www\.)?(?:huggingface\.co|hf\.co)/(?P<repository>[\w.-]+/[\w.-]+)"
    r"(?:/(?:resolve|blob)/(?P<revision>[^/]+)/(?P<name>[^?]+)(?:\?.*)?)?/?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFile:
    """A place, and what is known of the file there; empty where nothing is."""

    place: str
    revision: str = ""  # of its repository on the Hub
    sha256: str = ""
    size_bytes: int | None = None


def resolve_location(place: str) -> ResolvedSource:
    """A place, resolved; an address of the Hub is a place on the Hub."""
    match = _ON_THE_HUB.fullmatch(place)
    if match is None:
        return resolve_source(place)
    name = unquote(match["name"] or "")
    revision = unquote(match["revision"] or "")
    plain = resolve_source(f"hf:{match['repository']}{f'/{name}' if name else ''}")
    return replace(plain, place=place, revision=revision if revision not in ("", "main") else None)


def ask(recorded: RecordedFile) -> HostResponse:
    """Asks the host of a place about the file there; no answer is an error."""
    if recorded.place.startswith(REGISTERED):
        return HostResponse(access="here", detail="registered")
    try:
        resolved = resolve_location(recorded.place)
        if resolved.path is not None:
            is_there = resolved.path.exists()
            return HostResponse(access="here" if is_there else "gone", detail="" if is_there else "no such file here")
        if resolved.kind == "hub":
            return _ask_hub(resolved, recorded)
        if reason := get_silence_reason(resolved.url or ""):
            return HostResponse(access="unreachable", detail=reason)
        return _ask_server(resolved.url or "", recorded)
    except ZooError as error:  # a place that cannot be resolved here, as one of a library that is not installed
        return HostResponse(access="unreachable", detail=str(error).rstrip("."))


def _compared(answer: HostResponse, recorded: RecordedFile) -> HostResponse:
    """An answer of a host, changed if its file is not the recorded one."""
    if answer.access != "open":
        return answer
    if recorded.sha256 and answer.sha256 and answer.sha256 != recorded.sha256:
        return replace(answer, access="changed", detail=f"sha256 {answer.sha256}, recorded is {recorded.sha256}")
    if None not in (recorded.size_bytes, answer.size_bytes) and answer.size_bytes != recorded.size_bytes:
        sizes = f"{answer.size_bytes:,} bytes, recorded are {recorded.size_bytes:,}"
        return replace(answer, access="changed", detail=sizes)
    return answer


def _ask_hub(resolved: ResolvedSource, recorded: RecordedFile) -> HostResponse:
    """A repository that has moved on since the recorded revision has changed only if the file is another one."""
    from .huggingface import fetch_hub_metadata, find_hub_token  # half a second that only places on the Hub need

    wanted = resolved.revision or recorded.revision

    def first_of(revision: str, own: str) -> HostResponse:
        """The answer for the first file name that the repository has."""
        answers = (fetch_hub_metadata(resolved, name, revision, token=own) for name in resolved.filenames)
        absent = HostResponse(
            access="gone", detail=f"{resolved.repository} has no file {' or '.join(resolved.filenames)}"
        )
        return next((answer for answer in answers if answer is not None), absent)

    first = _compared(first_of(wanted, ""), recorded)
    if first.access == "gated":
        if not (own := find_hub_token()):
            return replace(first, detail="HF_TOKEN is not set")
        admitted = _compared(first_of(wanted, own), recorded)
        if admitted.access == "open":
            return replace(admitted, access="gated", detail="the account of your token is admitted")
        is_changed = admitted.access == "changed"
        return admitted if is_changed else replace(first, detail="the account of your token is not admitted")
    if resolved.revision or not recorded.revision or first.access not in ("open", "gone"):
        return first
    latest = first_of("", "")
    if latest.access != "open" or latest.revision == recorded.revision:
        return first
    if first.access == "gone":
        return replace(latest, access="changed", detail=f"the recorded revision {recorded.revision} is gone")
    if (latest.sha256, latest.size_bytes) == (first.sha256, first.size_bytes):
        return replace(first, detail=f"the same file in its latest revision {latest.revision}")
    other = f"its latest revision {latest.revision} has another file; the recorded one is still there"
    return replace(latest, access="changed", detail=other)


def _ask_server(url: str, recorded: RecordedFile) -> HostResponse:
    from .connections import Connections  # which listing needs not

    try:
        with Connections(is_public=True) as connections:
            answer = send_request("HEAD", url, connections=connections, allow_redirects=True, timeout=_TIMEOUT_S)
    except (OSError, ValueError) as error:  # those of requests, and of an impossible host
        reason = describe_request_error(error, url, _TIMEOUT_S)
        if is_unconnected(error):
            remember_silent_host(url, reason)
        return HostResponse(access="unreachable", detail=reason)
    said = f"the server answered {answer.status_code} {answer.reason or ''}".strip()
    if answer.status_code in (404, 410):
        return HostResponse(access="gone", detail=said)
    if answer.status_code in (401, 403):  # the second also from stores of files for one that they do not have
        doubt = ", as some hosts do for a file that is gone" if answer.status_code == 403 else ""
        return HostResponse(access="gated", detail=f"{said}{doubt}")
    if not answer.ok:
        return HostResponse(access="unreachable", detail=said)
    if is_page(answer):
        page = f"{format_location(url)} is a web page, and does not say whether the file behind it is open"
        return HostResponse(access="unreachable", detail=page)
    return _compared(HostResponse(access="open", size_bytes=parse_content_length(answer)), recorded)
