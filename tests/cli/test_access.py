"""``zoo doctor --access``: what hosts say of the weights of encoders, compared with what the cards say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tests.card_text import VALID
from tests.cli_runner import document, run
from tests.hub_here import use_hub
from tests.servers import COMMIT, Server, put_into_hub, serving, serving_hub

BODY = b"weights" * 100
HEAD = VALID.partition("[encoders.")[0]
Write = Callable[[str], None]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving_hub({"own/er": {"model.safetensors": BODY, "b.pth": BODY}}, gated=("own/gated",)) as server:
        use_hub(server, monkeypatch)
        yield server


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes cards of one's own: a line of facts of the weights for each of mine_a, mine_b ..."""
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    (tmp_path / "metadata").mkdir()

    def write_cards(facts: str) -> None:
        cards = [
            f"[encoders.mine_{letter}]\nweights = {{ {line} }}\n"
            for letter, line in zip("abcdefgh", facts.strip().splitlines(), strict=False)
        ]
        (tmp_path / "metadata" / "mine.toml").write_text(HEAD + "\n".join(cards))

    return write_cards


def test_every_place_of_the_matching_encoders_is_asked_and_held_against_the_card(hub: Server, write: Write) -> None:
    digest = sha256(BODY).hexdigest()
    with serving({"/here.pth": BODY}) as server:
        write(f"""
url = "hf:own/er", revision = "{COMMIT}", sha256 = "{digest}", mirrors = ["https://127.0.0.1:9/a.pth"]
url = "hf:own/gated", availability = "gated", gate = "members"
url = "hf:own/nothing"
url = "{server.url}/here.pth", size_bytes = 1
url = "{server.url}/nothing.pth", availability = "gone"
url = "not published", availability = "by request", gate = "by mail"
""")
        put_into_hub(hub, "own/er", "model.safetensors", BODY, revision=COMMIT)
        found = document("doctor", "--access", "mine_*", code=1)
    answers = {one["encoder"]: one for one in found["encoders"]}
    assert {encoder: one["access"] for encoder, one in answers.items()} == {
        "mine_a": "open", "mine_b": "gated", "mine_c": "gone", "mine_d": "changed", "mine_e": "gone", "mine_f": None,
    }  # fmt: skip
    agree = {encoder: [place["agrees"] for place in one["places"]] for encoder, one in answers.items()}
    assert agree == {
        "mine_a": [True, None], "mine_b": [True], "mine_c": [False], "mine_d": [False], "mine_e": [True], "mine_f": [],
    }  # fmt: skip
    assert found["counts"] == {"gone": 2, "open": 1, "gated": 1, "changed": 1}
    assert (found["n_encoders"], found["agrees"]) == (6, False)
    first = answers["mine_a"]["places"][0]
    assert "not as the card says: mine_c" in run("doctor", "--access", "mine_*", code=1).stderr
    assert (first["revision"], first["sha256"], first["size_bytes"]) == (COMMIT, digest, len(BODY))


def test_where_no_host_may_be_asked_or_no_encoder_is_meant_nothing_is_asked(
    hub: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--offline" in run("doctor", "--access", "dino", "--offline", code=2).stderr
    assert "no_such" in run("doctor", "--access", "no_such*", code=1).stderr
    assert document("doctor", "--access", "pocket_*")["counts"].keys() == {"here"}  # they come with the zoo
    assert hub.log == []
