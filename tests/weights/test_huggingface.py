"""Files of the Hub: the real huggingface_hub against a small Hub on loopback, each time in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.servers import COMMIT, Fault, Server, put_into_hub, serving, serving_hub

BODY = bytes(range(256)) * 40
SPACED = b"spaces in its name" * 100
PICKLE = b"the only file" * 100
REPOSITORIES = {
    "own/er": {"model.safetensors": BODY, "trained models/vit small.pth": SPACED},
    "own/pickle": {"pytorch_model.bin": PICKLE},
}
SHA = sha256(BODY).hexdigest()
MODEL = "/own/er/resolve/main/model.safetensors"

_CHILD = """
import json, sys
from pathlib import Path
opened = []
sys.addaudithook(lambda event, arguments: opened.append(event) if event in
                 ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto") else None)
from zoo.errors import ZooError
from zoo.weights.download import fetch
for place, known in json.loads(sys.argv[2]):
    try:
        got = fetch(place, folder=Path(sys.argv[1]), sha256=known)
        print(json.dumps({"path": str(got.path), "sha256": got.sha256, "size_bytes": got.size_bytes,
                          "origin": got.origin, "is_ours": got.is_ours, "opened": len(opened)}))
    except ZooError as error:
        print(json.dumps({"error": type(error).__name__, "says": str(error), "opened": len(opened)}))
"""


class Home:
    """A user with a cache of huggingface_hub, and the Hub that it knows."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.server = folder, server
        self.blob = folder / "hf/hub/models--own--er/blobs" / SHA  # the file itself, in the cache

    def fetch(self, *places: str | tuple[str, str], **environment: str) -> list[dict[str, Any]]:
        """What came of each place, as records; a tuple adds the sha256 that is known."""
        pairs = [(place, None) if isinstance(place, str) else place for place in places]
        variables = {
            "PYTHONPATH": str(REPOSITORY),
            "HF_HOME": str(self.folder / "hf"),
            "HF_ENDPOINT": self.server.url,
            "NO_PROXY": "127.0.0.1,localhost",
        }
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, str(self.folder / "weights"), json.dumps(pairs)],
            env={**os.environ, **variables, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        records = [json.loads(line) for line in done.stdout.splitlines()]
        assert all(record.get("says", ".").endswith(".") and "\n" not in record.get("says", "") for record in records)
        return records


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with serving_hub(REPOSITORIES, gated=("own/gated",)) as server:
        yield Home(tmp_path, server)


def test_files_of_the_hub_are_fetched_hashed_and_found_again_without_network(home: Home) -> None:
    put_into_hub(home.server, "own/er", "old.pth", b"older", revision="v1")
    plain, spaced, pickle, older = home.fetch(
        "hf:own/er", "hf:own/er/trained models/vit small.pth", "hf:own/pickle", "hf:own/er@v1/old.pth"
    )
    for record, body in ((plain, BODY), (spaced, SPACED), (pickle, PICKLE), (older, b"older")):
        assert Path(record["path"]).read_bytes() == body
        assert (record["sha256"], record["size_bytes"]) == (sha256(body).hexdigest(), len(body))
        assert not record["is_ours"]
    assert plain["origin"] == f"{home.server.url}/own/er/resolve/{COMMIT}/model.safetensors"
    assert spaced["origin"].endswith("/trained%20models/vit%20small.pth")
    assert not (home.folder / "weights").exists()
    home.server.log.clear()
    again, absent = home.fetch("hf:own/pickle", "hf:own/er/absent.pth", ZOO_OFFLINE="1")
    assert again["path"] == pickle["path"]
    assert absent["error"] == "WeightsUnavailable"
    assert "ZOO_OFFLINE" in absent["says"]
    (forbidden,) = home.fetch("hf:own/er/absent.pth", HF_HUB_OFFLINE="1")
    assert "HF_HUB_OFFLINE" in forbidden["says"]
    (known,) = home.fetch(("hf:own/er", SHA))  # with a known hash the Hub need not be asked
    assert known["sha256"] == SHA
    assert again["opened"] == absent["opened"] == known["opened"] == len(home.server.log) == 0


def test_a_file_that_rotted_in_the_cache_or_is_not_the_known_one_is_refused(home: Home) -> None:
    (other,) = home.fetch(("hf:own/er", "ab" * 32))
    assert other["error"] == "WeightsRefused"
    assert "ab" * 32 in other["says"] and SHA in other["says"]
    home.blob.write_bytes(BODY[:-1] + b"!")
    for environment in ({}, {"ZOO_OFFLINE": "1"}):
        (rotten,) = home.fetch("hf:own/er", **environment)
        assert rotten["error"] == "WeightsRefused"
        assert f"remove {home.blob}" in rotten["says"]


def test_what_the_hub_does_not_give_is_one_sentence_with_the_way_out(home: Home) -> None:
    home.server.always("/own/er/resolve/gone/a.pth", Fault(status=404, headers={"X-Error-Code": "RevisionNotFound"}))
    home.server.always("/own/er/resolve/main/b.pth", Fault(status=403))
    home.server.plan(MODEL, Fault())  # the question; not the download
    home.server.always(MODEL, Fault(status=410))
    home.server.files["/own/er/resolve/main/other.pth"] = b"without what the Hub says about its files"
    expected = {
        "hf:own/gated": f"accept its licence at {home.server.url}/own/gated and set HF_TOKEN",
        "hf:own/unknown": "no Hugging Face repository own/unknown",
        "hf:own/er@gone/a.pth": "no revision 'gone'",
        "hf:own/er/no.pth": "has no file no.pth",
        "hf:own/er/b.pth": "403",
        "hf:own/er/model.safetensors": "410",
        "hf:own/er/other.pth": "could not be asked",
    }
    for record, says in zip(home.fetch(*expected), expected.values(), strict=True):
        assert record["error"] == "WeightsUnavailable"
        assert says in record["says"]


def test_the_token_goes_to_the_hub_and_not_where_it_redirects_to(home: Home) -> None:
    with serving({"/blob": BODY}) as elsewhere:
        somewhere = elsewhere.url.replace("127.0.0.1", "localhost")
        about = {**home.server.headers[MODEL], "ETag": None}
        home.server.always(MODEL, Fault(redirect=f"{somewhere}/blob?signature=secret", headers=about))
        (record,) = home.fetch("hf:own/er", HF_TOKEN="hf_own")
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
