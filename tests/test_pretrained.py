"""Loading trained weights as a user does: fetched once, checked always, never half."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch

import zoo
from tests.children import Child
from tests.servers import serving
from tests.tiny import checkpoint, state, write_card
from zoo.errors import DataError, WeightsRefused, WeightsUnavailable
from zoo.weights.locations import get_weights_folder

IMAGE = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))


pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def body(own_folders: Path) -> bytes:
    write_card("tiny", "https://nowhere.invalid/tiny.pth")
    return checkpoint("tiny")


@pytest.fixture
def server(body: bytes) -> Iterator[Any]:
    with serving({"/tiny.pth": body, "/again/tiny.pth": body}) as running:
        write_card("tiny", f"{running.url}/tiny.pth")
        yield running


def left() -> list[str]:
    """Files of weights, their records and downloads; what is resumable or empty does not count."""
    folder = get_weights_folder()
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] != "partial"
    )


def test_the_first_load_fetches_and_the_second_does_not(server: Any) -> None:
    encoder, _ = zoo.load("tiny")
    n_requests = len(server.log)
    again, _ = zoo.load("tiny")
    assert n_requests >= 1
    assert len(server.log) == n_requests
    assert torch.equal(encoder(IMAGE), again(IMAGE))
    assert not encoder.training and not any(parameter.requires_grad for parameter in again.parameters())
    assert sorted(name.partition("/")[0] for name in left()) == ["checks", "records", "tensors"]
    expected = state("tiny")
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(tensor, expected[name.removeprefix("backbone.")])


def test_a_loaded_encoder_can_be_trained_without_touching_the_cache(server: Any) -> None:
    encoder, _ = zoo.load("tiny")
    encoder.requires_grad_()
    encoder(IMAGE).sum().backward()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(1.0)
    again, _ = zoo.load("tiny")
    assert not torch.equal(encoder(IMAGE), again(IMAGE))


def test_two_cards_of_one_file_share_download_and_cache(server: Any) -> None:
    write_card("tiny_avg", f"{server.url}/tiny.pth", layer="cls+avg", same_file_as="tiny")
    zoo.load("tiny")
    n_requests = len(server.log)
    encoder, _ = zoo.load("tiny_avg")
    assert encoder(IMAGE).shape == (1, 64)
    assert len(server.log) == n_requests


def test_a_mirror_is_tried_when_the_best_place_has_no_such_file(server: Any) -> None:
    write_card("tiny", f"{server.url}/absent.pth", mirrors=[f"{server.url}/again/tiny.pth"])
    encoder, _ = zoo.load("tiny")
    assert encoder(IMAGE).shape == (1, 32)


def test_an_error_says_why_no_place_has_the_weights(server: Any) -> None:
    write_card("tiny", f"{server.url}/absent.pth", mirrors=[f"{server.url}/missing.pth"])
    with pytest.raises(WeightsUnavailable, match=r"2 places: \(1\) .*absent\.pth.* \(2\) .*missing\.pth") as caught:
        zoo.load("tiny")
    assert "\n" not in str(caught.value)
    assert left() == []


def test_the_hash_of_the_card_must_match(server: Any, body: bytes) -> None:
    wrong = "0" * 64
    write_card("tiny", f"{server.url}/tiny.pth", sha256=wrong)
    with pytest.raises(WeightsRefused) as caught:
        zoo.load("tiny")
    assert wrong in str(caught.value)
    assert sha256(body).hexdigest() in str(caught.value)
    assert left() == []
    assert not Path(os.environ["ZOO_HOME"], "zoo.lock").exists()


def test_a_card_that_learns_another_hash_refuses_what_is_cached(server: Any, body: bytes) -> None:
    zoo.load("tiny")
    write_card("tiny", f"{server.url}/tiny.pth", sha256="0" * 64)
    with pytest.raises(WeightsRefused, match="the card says 0000"):
        zoo.load("tiny")


def test_the_first_download_is_locked_and_a_later_difference_names_both(server: Any, body: bytes) -> None:
    zoo.load("tiny")
    lock = Path(os.environ["ZOO_HOME"], "zoo.lock")
    assert f"sha256:{sha256(body).hexdigest()} {len(body)} {server.url}/tiny.pth" in lock.read_text()
    for file in left():
        (get_weights_folder() / file).unlink()
    other = checkpoint("tiny", seed=2)
    server.files["/tiny.pth"] = other
    with pytest.raises(WeightsRefused) as caught:
        zoo.load("tiny")
    assert sha256(body).hexdigest() in str(caught.value)
    assert sha256(other).hexdigest() in str(caught.value)
    assert left() == []


def test_a_lock_file_of_an_experiment_refuses_other_weights_in_the_cache(server: Any, body: bytes) -> None:
    zoo.load("tiny")
    Path("zoo.lock").write_text(f"sha256:{'1' * 64} {len(body)} {server.url}/tiny.pth\n")
    with pytest.raises(WeightsRefused, match="1111") as caught:
        zoo.load("tiny")
    assert sha256(body).hexdigest() in str(caught.value)


def test_one_flipped_bit_in_the_cache_is_refused(server: Any) -> None:
    zoo.load("tiny")
    (file,) = get_weights_folder().glob("tensors/*")
    whole = file.read_bytes()
    for position in (0, 9, 300, -1):
        content = bytearray(whole)
        content[position] ^= 16
        file.write_bytes(content)
        with pytest.raises(WeightsRefused, match="zoo cache rm tiny"):
            zoo.load("tiny")
    file.write_bytes(whole)
    (file,) = get_weights_folder().glob("records/*")
    file.write_bytes(file.read_bytes().replace(b"tiny", b"tinz", 1))
    with pytest.raises(WeightsRefused, match="record"):
        zoo.load("tiny")


def test_offline_is_one_sentence_before_and_no_obstacle_after(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    with pytest.raises(WeightsUnavailable, match="ZOO_OFFLINE"):
        zoo.load("tiny")
    assert server.log == []
    monkeypatch.setenv("ZOO_OFFLINE", "0")
    zoo.load("tiny")
    n_requests = len(server.log)
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    zoo.load("tiny")
    assert len(server.log) == n_requests


def test_weights_that_are_gone_say_where_they_were() -> None:
    with pytest.raises(WeightsUnavailable, match=r"npidpp_rn50w2.* gone .*dl\.fbaipublicfiles\.com") as caught:
        zoo.load("npidpp_rn50w2")
    assert "weights='PATH'" in str(caught.value)


def test_a_file_of_another_network_is_not_even_fetched(server: Any) -> None:
    write_card("tiny", f"{server.url}/tiny.pth", availability="unfit")
    n_requests = len(server.log)
    with pytest.raises(WeightsRefused, match=r"'tiny' .* is of another network"):
        zoo.load("tiny")
    assert len(server.log) == n_requests


def test_weights_whose_features_are_not_finite_are_refused_at_every_load(server: Any) -> None:
    buffer = io.BytesIO()
    torch.save({name: tensor * 1e30 for name, tensor in state("tiny").items()}, buffer)
    server.files["/tiny.pth"] = buffer.getvalue()
    for _ in range(2):
        with pytest.raises(DataError, match="not finite"):
            zoo.load("tiny")
        assert left() == []


def test_torch_hub_loads_trained_weights(server: Any, repository: Path, body: bytes) -> None:
    Path("mine.pth").write_bytes(body)
    encoder, _ = torch.hub.load(str(repository), "tiny", source="local", weights="mine.pth")
    again, _ = torch.hub.load(str(repository), "tiny", source="local")
    assert torch.equal(encoder(IMAGE), again(IMAGE))


def test_several_processes_load_one_encoder_at_once(server: Any, body: bytes) -> None:
    def total() -> float:
        encoder, _ = zoo.load("tiny")
        return float(sum(tensor.double().sum() for tensor in encoder.state_dict().values()))

    answers = [child.result() for child in [Child(total) for _ in range(3)]]
    assert len(set(answers)) == 1
    assert [name for name in left() if name.startswith("downloads")] == []
