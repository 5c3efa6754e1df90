"""Hosts that do not answer, and what hosts say of files of weights: a Hub and other servers on loopback."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub_here import use_hub
from tests.servers import COMMIT, Fault, Server, put_into_hub, serving, serving_hub
from zoo.errors import WeightsUnavailable
from zoo.progress import SilentProgress
from zoo.weights import hosts
from zoo.weights.access import RecordedFile, ask, resolve_location
from zoo.weights.download import RetryPolicy, fetch
from zoo.weights.locations import HostResponse

ONCE = RetryPolicy(timeout_s=1.0, attempts=2, first_wait_s=0.01)
BODY, OTHER = b"weights" * 100, b"other weights" * 100
SHA = hashlib.sha256(BODY).hexdigest()
OLDER = "ab" * 20
GATED = Fault(status=403, headers={"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted"})
NO_REVISION = Fault(status=404, headers={"X-Error-Code": "RevisionNotFound"})


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_silent", {})
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving_hub({"own/er": {"model.safetensors": BODY}}, gated=("own/gated",)) as server:
        use_hub(server, monkeypatch)
        yield server


def asked(place: str, *, revision: str = "", sha256: str = "", size_bytes: int | None = None) -> HostResponse:
    return ask(RecordedFile(place=place, revision=revision, sha256=sha256, size_bytes=size_bytes))


def closed_port() -> int:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return int(closed.getsockname()[1])


class TestSilentHosts:
    def test_a_host_that_takes_no_connection_is_one_sentence_and_not_waited_for_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        address = f"http://127.0.0.1:{closed_port()}/a.pth"
        reasons = []
        for _ in range(2):
            with pytest.raises(WeightsUnavailable, match="there is no connection to 127") as caught:
                fetch(address, folder=tmp_path, progress=SilentProgress(), policy=ONCE)
            reasons.append(caught.value.unreached)
            monkeypatch.setattr("requests.request", None)  # nothing is asked the second time
        assert reasons[0] == reasons[1] != ()
        assert asked(address).access == "unreachable"
        monkeypatch.undo()
        monkeypatch.setattr("zoo.weights.hosts._VALID_S", 0.0)
        assert hosts.get_silence_reason(address) == ""
        with serving({"/": b"here"}) as server:
            assert hosts.find_unreachable([address, f"{server.url}/absent"], seconds=2.0).keys() == {address}

    def test_an_unknown_name_and_a_proxy_that_is_down_are_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(WeightsUnavailable, match=r"no connection to weights\.invalid"):
            fetch("https://weights.invalid/a.pth", folder=tmp_path, progress=SilentProgress(), policy=ONCE)
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{closed_port()}")
        monkeypatch.setenv("no_proxy", "")
        with pytest.raises(WeightsUnavailable, match="through the proxy"):
            fetch("https://weights.example/a.pth", folder=tmp_path, progress=SilentProgress(), policy=ONCE)


class TestTheHub:
    def test_an_open_file_is_found_with_what_can_be_recorded_of_it(self, hub: Server) -> None:
        found = asked("hf:own/er")
        assert (found.access, found.revision, found.sha256, found.size_bytes) == ("open", COMMIT, SHA, len(BODY))
        of_files = [request for request in hub.log if "/resolve/" in request.path]  # the library asks about itself too
        assert [(request.method, request.sent_bytes) for request in of_files] == [("HEAD", 0)]
        assert asked("hf:own/er", sha256=SHA, size_bytes=len(BODY)).access == "open"
        assert asked("hf:own/er", sha256="cd" * 32).access == "changed"
        assert "recorded are 1" in asked("hf:own/er", size_bytes=1).detail
        assert [asked(place).access for place in ("hf:own/er/no.pth", "hf:own/nothing")] == ["gone", "gone"]

    def test_a_repository_that_moved_on_has_changed_only_if_its_file_has(self, hub: Server) -> None:
        put_into_hub(hub, "own/er", "model.safetensors", BODY, revision=OLDER)
        same = asked("hf:own/er", revision=OLDER)
        assert same.access == "open"
        assert COMMIT in same.detail
        put_into_hub(hub, "own/er", "model.safetensors", OTHER)
        other = asked("hf:own/er", revision=OLDER)
        assert (other.access, other.sha256) == ("changed", hashlib.sha256(OTHER).hexdigest())
        assert "the recorded one is still there" in other.detail
        for name in ("model.safetensors", "open_clip_model.safetensors"):
            hub.always(f"/own/er/resolve/{OLDER}/{name}", NO_REVISION)
        assert asked("hf:own/er", revision=OLDER).detail == f"the recorded revision {OLDER} is gone"
        hub.always("/own/er/resolve/main/model.safetensors", NO_REVISION)
        assert asked("hf:own/er", revision=OLDER).access == "gone"

    def test_a_gated_file_says_whether_the_users_token_is_admitted(
        self, hub: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
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

    def test_a_token_is_sent_where_it_is_needed_and_to_the_hub_alone(
        self, hub: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        use_hub(hub, monkeypatch, token="hf_own")
        path = put_into_hub(hub, "own/er", "model.safetensors", BODY)
        with serving({"/blob": BODY, "/a.pth": BODY}) as elsewhere:
            somewhere = elsewhere.url.replace("127.0.0.1", "localhost")
            hub.always(path, Fault(redirect=f"{somewhere}/blob?signature=secret", headers=hub.headers[path]))
            assert asked("hf:own/er", sha256=SHA).access == "open"
            assert asked(f"{elsewhere.url}/a.pth").access == "open"
            assert all("authorization" not in request.headers for request in [*hub.log, *elsewhere.log])
            hub.plan(path, GATED)
            asked("hf:own/er")
        assert [request.headers.get("authorization") for request in hub.log][-1] == "Bearer hf_own"


def test_an_answer_of_a_server_is_one_of_the_kinds_of_access() -> None:
    answers = [
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
    ]
    with serving({"/a.pth": BODY, "/b.pth": BODY}) as server:
        for fault, access in answers:
            server.always("/a.pth", fault)
            assert asked(f"{server.url}/a.pth", size_bytes=len(BODY)).access == access, fault
        assert {request.method for request in server.log if request.path != "/"} == {"HEAD"}
        assert server.sent_bytes == 0


def test_what_needs_no_host_is_not_asked_for_anywhere(tmp_path: Path) -> None:
    (tmp_path / "a.pth").write_bytes(BODY)
    assert asked(str(tmp_path / "a.pth")).access == "here"
    assert asked(str(tmp_path / "b.pth")).access == "gone"
    assert asked("zoo:" + "ab" * 32).access == "here"
    assert "unknown scheme" in asked("ftp://host/a.pth").detail


def test_an_address_of_the_hub_is_a_place_on_the_hub() -> None:
    page = resolve_location("https://huggingface.co/owner/name")
    assert (page.kind, page.repository, page.revision) == ("hub", "owner/name", None)
    file = resolve_location("https://huggingface.co/owner/name/resolve/v1/sub/a%20b.pth?download=true")
    assert (file.repository, file.revision, file.filenames) == ("owner/name", "v1", ("sub/a b.pth",))
    assert resolve_location("https://huggingface.co/owner/name/resolve/main/a.pth").revision is None
    assert resolve_location("https://host/owner/name").kind == "http"
