"""Weights on the Hub: what their publisher gives to some alone, and the recorded revision and file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import zoo
from tests.cli_runner import document, run
from tests.hub_here import use_hub
from tests.servers import COMMIT, Server, put_into_hub, serving_hub
from tests.tiny import checkpoint, write_card
from zoo.cards.catalogue import load_catalogue
from zoo.cards.gated_access import suggest_open_encoder
from zoo.errors import WeightsRefused, WeightsUnavailable


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for variable in ("ZOO_HOME", "ZOO_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    with serving_hub({}, gated=("own/gated",)) as server:
        use_hub(server, monkeypatch)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
        yield server


def refusal(name: str, kind: type[Exception] = WeightsUnavailable) -> str:
    with pytest.raises(kind) as caught:
        zoo.load(name)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", ".)"))
    return message


def gated_card(**more: str) -> None:
    path = write_card("tiny", "hf:own/gated/tiny.pth", availability="gated")
    lines = [f'weights.{name} = "{value}"\n' for name, value in more.items()]
    path.write_text(path.read_text() + "".join(lines))


def test_without_a_token_one_sentence_says_where_to_ask_what_to_set_and_what_is_nearest(hub: Server) -> None:
    gated_card(gate="a form for members of universities")
    assert refusal("tiny") == (
        "The weights of 'tiny' are given only to those whom their publisher admits (a form for members of "
        f"universities): accept its licence at {hub.url}/own/gated and set HF_TOKEN, or pass pretrained=False for "
        f"random weights; {suggest_open_encoder(zoo.card('tiny'), load_catalogue())}."
    )


def test_a_token_whose_account_is_not_admitted_is_told_so(hub: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    gated_card()
    use_hub(hub, monkeypatch, token="hf_own")
    assert "for the account of the present one is not admitted, or pass" in refusal("tiny")
    assert {request.headers.get("authorization") for request in hub.log if "own/gated" in request.path} == {
        "Bearer hf_own"
    }


def test_a_file_of_the_hub_that_is_another_than_the_recorded_one_is_refused_and_nothing_is_kept(
    hub: Server, tmp_path: Path
) -> None:
    write_card("tiny", "hf:own/gated/tiny.pth", sha256="ab" * 32)
    put_into_hub(hub, "own/gated", "tiny.pth", checkpoint("tiny"))
    message = refusal("tiny", WeightsRefused)
    assert "ab" * 32 in message
    assert not list((tmp_path / "ZOO_CACHE").rglob("*.safetensors"))


def test_the_recorded_revision_is_fetched_and_stored_weights_of_another_are_refused(hub: Server) -> None:
    older, newer = "ab" * 20, COMMIT
    path = write_card("tiny", "hf:own/er/tiny.pth")
    put_into_hub(hub, "own/er", "tiny.pth", checkpoint("tiny", seed=2))
    recorded = put_into_hub(hub, "own/er", "tiny.pth", checkpoint("tiny"), revision=older)
    hub.headers[recorded]["X-Repo-Commit"] = older
    plain = path.read_text()
    path.write_text(f'{plain}weights.revision = "{older}"\n')
    zoo.load("tiny")
    assert {request.path for request in hub.log if "resolve" in request.path} == {recorded}
    path.write_text(f'{plain}weights.revision = "{newer}"\n')
    message = refusal("tiny", WeightsRefused)
    assert f"came from the revision {older}" in message
    assert f"the card says {newer}; run 'zoo cache rm tiny'." in message


def test_weights_by_request_say_whom_to_ask(hub: Server) -> None:
    write_card("tiny", "not published", availability="by request")
    message = refusal("tiny")
    assert message.startswith("The weights of 'tiny' are by request (ask at https://github.com/facebookresearch/dino)")
    assert "pass weights='PATH'" in message
    assert "the nearest open encoder is" in message


def test_zoo_show_says_who_is_admitted_and_what_is_nearest(hub: Server) -> None:
    gated_card(gate="members")
    text = run("show", "tiny", "--all").stdout
    assert "gated: members; ask at https://huggingface.co/own/gated" in text
    assert "the nearest open encoder is" in text
    assert document("show", "tiny")["access"] == "gated: members; ask at https://huggingface.co/own/gated"
