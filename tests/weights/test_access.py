"""What hosts answer about files of weights: a Hub and other servers on loopback, asked by HEAD alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub_here import use_hub
from tests.servers import COMMIT, Fault, Server, put_into_hub, serving, serving_hub
from zoo.weights.hosts import Recorded, ask, located
from zoo.weights.places import Answer

BODY, OTHER = b"weights" * 100, b"other weights" * 100
SHA = hashlib.sha256(BODY).hexdigest()
OLDER = "ab" * 20
GATED = Fault(status=403, headers={"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted"})
NO_REVISION = Fault(status=404, headers={"X-Error-Code": "RevisionNotFound"})


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving_hub({"own/er": {"model.safetensors": BODY}}, gated=("own/gated",)) as server:
        use_hub(server, monkeypatch)
        yield server


def asked(place: str, *, revision: str = "", sha256: str = "", size_bytes: int | None = None) -> Answer:
    return ask(Recorded(place=place, revision=revision, sha256=sha256, size_bytes=size_bytes))


def test_an_open_file_of_the_hub_is_found_with_what_can_be_recorded_of_it(hub: Server) -> None:
    found = asked("hf:own/er")
    assert (found.access, found.revision, found.sha256, found.size_bytes) == ("open", COMMIT, SHA, len(BODY))
    of_files = [request for request in hub.log if "/resolve/" in request.path]  # the library asks about itself too
    assert [(request.method, request.sent_bytes) for request in of_files] == [("HEAD", 0)]


def test_a_file_of_another_hash_or_size_has_changed(hub: Server) -> None:
    assert asked("hf:own/er", sha256=SHA, size_bytes=len(BODY)).access == "open"
    assert asked("hf:own/er", sha256="cd" * 32).access == "changed"
    assert "recorded are 1" in asked("hf:own/er", size_bytes=1).detail


def test_a_repository_that_moved_on_has_changed_only_if_its_file_has(hub: Server) -> None:
    put_into_hub(hub, "own/er", "model.safetensors", BODY, revision=OLDER)
    same = asked("hf:own/er", revision=OLDER)
    assert same.access == "open"
    assert COMMIT in same.detail
    put_into_hub(hub, "own/er", "model.safetensors", OTHER)
    other = asked("hf:own/er", revision=OLDER)
    assert (other.access, other.sha256) == ("changed", hashlib.sha256(OTHER).hexdigest())
    assert "the recorded one is still there" in other.detail


def test_a_revision_that_is_gone_is_a_change_where_there_is_a_later_one(hub: Server) -> None:
    path = f"/own/er/resolve/{OLDER}/"
    for name in ("model.safetensors", "open_clip_model.safetensors"):
        hub.always(path + name, NO_REVISION)
    assert asked("hf:own/er", revision=OLDER).detail == f"the recorded revision {OLDER} is gone"
    hub.always("/own/er/resolve/main/model.safetensors", NO_REVISION)
    assert asked("hf:own/er", revision=OLDER).access == "gone"


def test_what_the_hub_does_not_have_is_gone(hub: Server) -> None:
    no_file, no_repository = asked("hf:own/er/no.pth"), asked("hf:own/nothing")
    assert (no_file.access, no_file.detail) == ("gone", "own/er has no file no.pth")
    assert (no_repository.access, no_repository.detail) == ("gone", "no repository own/nothing, or it is private")


def test_a_gated_file_says_whether_the_users_token_is_admitted(hub: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put_into_hub(hub, "own/gated", "model.safetensors", BODY)
    hub.plan(path, GATED)
    assert asked("hf:own/gated/model.safetensors").detail == "HF_TOKEN is not set"
    use_hub(hub, monkeypatch, token="hf_own")
    hub.plan(path, GATED, GATED)
    assert asked("hf:own/gated/model.safetensors").detail == "the account of your token is not admitted"
    hub.plan(path, GATED)
    admitted = asked("hf:own/gated/model.safetensors", sha256=SHA)
    assert (admitted.access, admitted.detail) == ("gated", "the account of your token is admitted")
    hub.plan(path, GATED)
    assert asked("hf:own/gated/model.safetensors", sha256="cd" * 32).access == "changed"


def test_a_token_is_sent_where_it_is_needed_and_to_the_hub_alone(hub: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    use_hub(hub, monkeypatch, token="hf_own")
    path = put_into_hub(hub, "own/er", "model.safetensors", BODY)
    with serving({"/blob": BODY, "/a.pth": BODY}) as elsewhere:
        somewhere = elsewhere.url.replace("127.0.0.1", "localhost")
        hub.always(path, Fault(redirect=f"{somewhere}/blob?signature=secret", headers=hub.headers[path]))
        assert asked("hf:own/er", sha256=SHA).access == "open"
        assert asked(f"{elsewhere.url}/a.pth").access == "open"
        everybody = [*hub.log, *elsewhere.log]
        assert all("authorization" not in request.headers for request in everybody)
        hub.plan(path, GATED)
        asked("hf:own/er")
    assert [request.headers.get("authorization") for request in hub.log][-1] == "Bearer hf_own"


@pytest.mark.parametrize(
    ("fault", "access"),
    [
        (Fault(), "open"),
        (Fault(status=401), "gated"),
        (Fault(status=403), "gated"),
        (Fault(status=404), "gone"),
        (Fault(status=410), "gone"),
        (Fault(status=503), "unreachable"),
        (Fault(status=405), "unreachable"),
        (Fault(headers={"Content-Type": "text/html"}), "unreachable"),
        (Fault(body=OTHER), "changed"),
        (Fault(redirect="/b.pth"), "open"),
        (Fault(redirect="/nowhere"), "gone"),
        (Fault(redirect="/a.pth"), "unreachable"),
        (Fault(redirect="ftp://127.0.0.1/a.pth"), "unreachable"),
    ],
)
def test_an_answer_of_a_server_is_one_of_the_kinds_of_access(
    fault: Fault, access: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving({"/a.pth": BODY, "/b.pth": BODY}) as server:
        server.always("/a.pth", fault)
        assert asked(f"{server.url}/a.pth", size_bytes=len(BODY)).access == access
        assert {request.method for request in server.log if request.path != "/"} == {"HEAD"}
        assert server.sent_bytes == 0


def test_a_host_that_does_not_answer_is_unreachable_and_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving({}) as server:
        address = f"{server.url}/a.pth"
    found = asked(address)
    assert found.access == "unreachable"
    assert "there is no connection" in found.detail


def test_a_file_here_is_not_asked_for_anywhere(tmp_path: Path) -> None:
    (tmp_path / "a.pth").write_bytes(BODY)
    assert asked(str(tmp_path / "a.pth")).access == "here"
    assert asked(str(tmp_path / "b.pth")).access == "gone"
    assert asked("zoo:" + "ab" * 32).access == "here"


def test_an_address_of_the_hub_is_a_place_on_the_hub() -> None:
    page = located("https://huggingface.co/owner/name")
    assert (page.kind, page.repository, page.revision) == ("hub", "owner/name", None)
    file = located("https://huggingface.co/owner/name/resolve/v1/sub/a%20b.pth?download=true")
    assert (file.repository, file.revision, file.filenames) == ("owner/name", "v1", ("sub/a b.pth",))
    assert located("https://huggingface.co/owner/name/resolve/main/a.pth").revision is None
    assert located("https://host/owner/name").kind == "http"


def test_a_place_that_cannot_be_resolved_says_why() -> None:
    found = asked("ftp://host/a.pth")
    assert found.access == "unreachable"
    assert "unknown scheme" in found.detail
