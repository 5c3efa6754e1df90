"""Files of the Hub: the real huggingface_hub against a small Hub on loopback, each time in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.servers import COMMIT, Fault, Server, put_into_hub, serving, serving_hub

BODY = bytes(range(256)) * 40
SPACED = b"spaces in its name" * 100
FILES = {"model.safetensors": BODY, "trained models/vit small.pth": SPACED}
PICKLE = b"the only file" * 100
REPOSITORIES = {"own/er": FILES, "own/pickle": {"pytorch_model.bin": PICKLE}}
SHA = sha256(BODY).hexdigest()

_CHILD = """
import json, sys
from pathlib import Path
opened = []
sys.addaudithook(lambda event, arguments: opened.append(event) if event in
                 ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto") else None)
from zoo.errors import ZooError
from zoo.weights.download import fetch
told = []
class Told:
    def start(self, name, total_bytes, done_bytes): told.append([name, total_bytes, done_bytes])
    def advance(self, n_bytes): told.append(n_bytes)
    def end(self): told.append("end")
progress = Told() if len(sys.argv) > 3 and sys.argv[3] else None
for place, known in json.loads(sys.argv[2]):
    try:
        got = fetch(place, folder=Path(sys.argv[1]), sha256=known, progress=progress)
        print(json.dumps({"path": str(got.path), "sha256": got.sha256, "size_bytes": got.size_bytes,
                          "origin": got.origin, "is_ours": got.is_ours, "told": told, "opened": len(opened)}))
    except ZooError as error:
        print(json.dumps({"error": type(error).__name__, "says": str(error), "opened": len(opened)}))
"""


class Home:
    """A user with a cache of huggingface_hub, and the Hub that it knows."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.server = folder, server

    def fetch(self, *places: str | tuple[str, str], told: bool = False, **environment: str) -> list[dict[str, Any]]:
        """What came of each place, as records; a tuple adds the sha256 that is known."""
        pairs = [(place, None) if isinstance(place, str) else place for place in places]
        command = [sys.executable, "-c", _CHILD, str(self.folder / "weights"), json.dumps(pairs), "1" if told else ""]
        variables = {
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "HF_HOME": str(self.folder / "hf"),
            "HF_ENDPOINT": self.server.url,
            "NO_PROXY": "127.0.0.1",
        }
        done = subprocess.run(
            command, env={**variables, **environment}, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        records = [json.loads(line) for line in done.stdout.splitlines()]
        for record in records:
            if "says" in record:
                assert record["says"].endswith(".")
                assert "\n" not in record["says"]
        return records

    def blob(self) -> Path:
        """The file itself, in the cache, under its sha256."""
        return self.folder / "hf/hub/models--own--er/blobs" / SHA


@pytest.fixture
def home(tmp_path: Path) -> Any:
    with serving_hub(REPOSITORIES, gated=("own/gated",)) as server:
        yield Home(tmp_path, server)


def asked(server: Server, method: str = "GET") -> list[str]:
    return [request.path for request in server.log if request.method == method and "/resolve/" in request.path]


def test_a_file_of_the_hub_is_fetched_hashed_and_left_in_its_cache(home: Home) -> None:
    plain, spaced = home.fetch("hf:own/er", "hf:own/er/trained models/vit small.pth", told=True)
    assert Path(plain["path"]).read_bytes() == BODY
    assert (plain["sha256"], plain["size_bytes"], plain["is_ours"]) == (SHA, len(BODY), False)
    assert plain["origin"] == f"{home.server.url}/own/er/resolve/{COMMIT}/model.safetensors"
    assert plain["told"] == [["model.safetensors", len(BODY), 0], len(BODY), "end"]
    assert Path(spaced["path"]).read_bytes() == SPACED
    assert spaced["origin"].endswith("/trained%20models/vit%20small.pth")
    assert not (home.folder / "weights").exists()


def test_the_first_of_the_usual_names_that_exists_is_taken_and_found_again_without_network(home: Home) -> None:
    (first,) = home.fetch("hf:own/pickle")
    assert Path(first["path"]).read_bytes() == PICKLE
    asked_before = len(home.server.log)
    again, absent = home.fetch("hf:own/pickle", "hf:own/er", ZOO_OFFLINE="1")
    assert again["path"] == first["path"]
    assert again["opened"] == absent["opened"] == 0
    assert absent["error"] == "WeightsUnavailable"
    assert "ZOO_OFFLINE" in absent["says"]
    assert len(home.server.log) == asked_before


def test_the_hubs_own_offline_switch_is_obeyed_and_named(home: Home) -> None:
    (record,) = home.fetch("hf:own/er", HF_HUB_OFFLINE="1")
    assert record["error"] == "WeightsUnavailable"
    assert "HF_HUB_OFFLINE" in record["says"]
    assert home.server.log == []


def test_a_known_hash_makes_it_needless_to_ask_the_hub(home: Home) -> None:
    home.fetch("hf:own/er")
    home.server.log.clear()
    (record,) = home.fetch(("hf:own/er", SHA))
    assert record["sha256"] == SHA
    assert record["opened"] == 0
    assert home.server.log == []


def test_a_revision_is_asked_for(home: Home) -> None:
    put_into_hub(home.server, "own/er", "model.safetensors", b"older", revision="v1")
    (record,) = home.fetch("hf:own/er@v1/model.safetensors")
    assert Path(record["path"]).read_bytes() == b"older"
    assert asked(home.server) == ["/own/er/resolve/v1/model.safetensors"]


def test_a_file_that_rotted_in_the_cache_is_fetched_again(home: Home) -> None:
    home.fetch("hf:own/er")
    home.blob().write_bytes(BODY[:-1] + b"!")
    (record,) = home.fetch("hf:own/er")
    assert record["sha256"] == SHA
    assert Path(record["path"]).read_bytes() == BODY
    assert len(asked(home.server)) == 2


def test_a_file_that_rotted_is_removed_and_refused_where_it_cannot_be_fetched_again(home: Home) -> None:
    home.fetch("hf:own/er")
    home.blob().write_bytes(b"!" * len(BODY))
    (record,) = home.fetch("hf:own/er", ZOO_OFFLINE="1")
    assert record["error"] == "WeightsRefused"
    assert "removed" in record["says"]
    assert not home.blob().exists()


def test_a_hub_that_sends_other_bytes_than_it_says_is_believed_once_and_refused_then(home: Home) -> None:
    path = "/own/er/resolve/main/model.safetensors"
    wrong = Fault(body=b"?" * len(BODY))
    home.server.plan(path, Fault(), wrong)  # HEAD, GET; then HEAD, GET again
    (record,) = home.fetch("hf:own/er")
    assert record["sha256"] == SHA
    home.blob().unlink()
    home.server.always(path, wrong)
    (record,) = home.fetch("hf:own/er")
    assert record["error"] == "WeightsRefused"
    assert SHA in record["says"]
    assert not home.blob().exists()


def test_a_file_that_is_not_the_locked_one_is_refused_and_stays_the_hubs(home: Home) -> None:
    (record,) = home.fetch(("hf:own/er", "ab" * 32))
    assert record["error"] == "WeightsRefused"
    assert "ab" * 32 in record["says"]
    assert SHA in record["says"]
    assert home.blob().exists()


def test_what_the_hub_does_not_give_is_one_sentence_with_the_way_out(home: Home) -> None:
    home.server.always("/own/er/resolve/gone/a.pth", Fault(status=404, headers={"X-Error-Code": "RevisionNotFound"}))
    home.server.always("/own/er/resolve/main/b.pth", Fault(status=403))
    gated, unknown, revision, file, forbidden = home.fetch(
        "hf:own/gated", "hf:own/unknown", "hf:own/er@gone/a.pth", "hf:own/er/no.pth", "hf:own/er/b.pth"
    )
    for record in (gated, unknown, revision, file, forbidden):
        assert record["error"] == "WeightsUnavailable"
    assert f"accept its licence at {home.server.url}/own/gated and set HF_TOKEN" in gated["says"]
    assert "no Hugging Face repository own/unknown" in unknown["says"]
    assert "no revision 'gone'" in revision["says"]
    assert "has no file no.pth" in file["says"]
    assert "403" in forbidden["says"]


def test_a_broken_download_or_a_server_that_is_no_hub_is_one_sentence(home: Home) -> None:
    home.server.plan("/own/er/resolve/main/model.safetensors", Fault())  # the question; not the download
    home.server.always("/own/er/resolve/main/model.safetensors", Fault(status=410))
    home.server.files["/own/er/resolve/main/other.pth"] = b"without what the Hub says about its files"
    broken, other = home.fetch("hf:own/er/model.safetensors", "hf:own/er/other.pth")
    assert broken["error"] == other["error"] == "WeightsUnavailable"
    assert "410" in broken["says"]
    assert "could not be asked" in other["says"]


def test_the_token_goes_to_the_hub_and_not_where_it_redirects_to(home: Home) -> None:
    path = "/own/er/resolve/main/model.safetensors"
    with serving({"/blob": BODY}) as elsewhere:
        somewhere = elsewhere.url.replace("127.0.0.1", "localhost")
        about = {**home.server.headers[path], "ETag": None}
        home.server.always(path, Fault(redirect=f"{somewhere}/blob?signature=secret", headers=about))
        (record,) = home.fetch("hf:own/er", HF_TOKEN="hf_own", NO_PROXY="127.0.0.1,localhost")
        assert record["sha256"] == SHA
        assert "secret" not in record["origin"]
        assert home.server.log[-1].headers["authorization"] == "Bearer hf_own"
        assert elsewhere.log
        assert all("authorization" not in request.headers for request in elsewhere.log)


def test_a_cache_that_cannot_be_written_is_one_sentence(home: Home) -> None:
    (home.folder / "hf").write_text("a file where the folder should be")
    (record,) = home.fetch("hf:own/er")
    assert record["error"] == "StoreError"
    assert "HF_HOME" in record["says"]
