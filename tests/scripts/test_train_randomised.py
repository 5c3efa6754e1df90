"""The randomised population: its draw, the training of a few of its encoders on made-up images, and what is shipped."""

from __future__ import annotations

import csv
import multiprocessing
import shutil
import time
import zlib
from collections import Counter
from dataclasses import asdict, replace
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import train_randomised as script
from randomised_design import LEVELS, N_DRAWN, Choices, card_of, name_of, population, twins
from safetensors.torch import load_file
from scipy.stats import chi2, chi2_contingency, chisquare
from torch import Tensor
from train_pocket_views import Pixels, load_pixels
from train_randomised_objectives import OBJECTIVES, Supervised

from tests.conftest import REPOSITORY
from tests.each import for_each
from zoo.encoders import build_encoder

WEIGHTS = REPOSITORY / "metadata" / "randomised"
CARDS = REPOSITORY / "metadata" / "randomised.toml"
ONE = "randomised_000"
NAMES = ("randomised_003", "randomised_020", "randomised_twin_resnet_small_16")  # what the runs of main train
CHOICES = Choices(
    objective="supervised", projector="none", projector_width=64, dim=16, network="resnet", size="small", epochs=1,
    crop=True, flip=False, intensity=True, blur=True, cutout=True, batch_size=64, rate_factor=1.0, n_views=2,
)  # fmt: skip


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the images, with 300 stripes of ten kinds where Fashion-MNIST would be."""
    folder = tmp_path_factory.mktemp("scratch")
    chance = np.random.default_rng(0)
    arrays: dict[str, Any] = {"n_classes": np.array(10)}
    for split, n in (("train", 300), ("val", 50)):
        labels = np.arange(n) % 10
        pixels = chance.integers(0, 100, (n, 28, 28))
        for image, label in zip(pixels, labels, strict=True):
            image[2 * label : 2 * label + 8] += 120
        shown = np.repeat(pixels[..., None].astype(np.uint8), 3, axis=3)
        arrays |= {split: shown, f"{split}_labels": labels.astype(np.int64)}
    np.savez(folder / "fashion-mnist_28px.npz", **arrays)
    return folder


@pytest.fixture(scope="module")
def pixels(scratch: Path) -> Pixels:
    return load_pixels("fashion-mnist", card_of(ONE, CHOICES).preprocess, scratch)


@pytest.fixture(scope="module")
def finished(scratch: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the script has trained the encoders of NAMES without being disturbed."""
    folder = tmp_path_factory.mktemp("finished")
    script.main(arguments_of(scratch, folder))
    return folder


def arguments_of(scratch: Path, out: Path) -> list[str]:
    return [*NAMES, "--processes", "0", "--scratch", str(scratch), "--out", str(out)]


def rows_of(folder: Path) -> list[dict[str, str]]:
    """The log, without what a run took."""
    with (folder / "log.csv").open(newline="") as file:
        return [{name: value for name, value in row.items() if name != "seconds"} for row in csv.DictReader(file)]


def weights_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.safetensors"))}


# --- the draw --------------------------------------------------------------------------------------------------------


def test_the_draw_is_the_one_that_was_fixed_before_the_first_run() -> None:
    text = "\n".join(f"{name} {sorted(asdict(choices).items())}" for name, choices in population().items())
    assert sha256(text.encode()).hexdigest() == "6cce5b587acc7cc7354c9ecc18e6a3671a5f4bb671e450cc5d31e16fb62670b9"


def test_every_level_was_drawn_about_as_often_as_the_others() -> None:
    drawn = [asdict(choices) for choices in population().values()]
    assert len(drawn) == N_DRAWN
    for name, levels in LEVELS.items():
        counts = Counter(one[name] for one in drawn)
        assert set(counts) == set(levels)
        assert chisquare([counts[level] for level in levels]).pvalue > 1e-4, name


def test_no_two_choices_depend_on_each_other_more_than_chance_makes_them() -> None:
    drawn = [asdict(choices) for choices in population().values()]
    total = freedom = 0.0
    for first, second in combinations(LEVELS, 2):
        counts = Counter((one[first], one[second]) for one in drawn)
        table = [[counts[a, b] for b in LEVELS[second]] for a in LEVELS[first]]
        found = chi2_contingency(table, correction=False)
        assert found.pvalue > 1e-5, (first, second)  # of 105 pairs
        total, freedom = total + found.statistic, freedom + found.dof
    assert 1e-4 < chi2.sf(total, freedom) < 1 - 1e-4


def test_a_twin_is_supervised_and_there_is_one_for_every_architecture() -> None:
    of_twins = {card_of(name, choices).architecture.exact for name, choices in twins().items()}
    drawn = {card_of(name, choices).architecture.exact for name, choices in population().items()}
    assert drawn == of_twins and len(of_twins) == len(twins()) == 12
    assert {choices.objective for choices in twins().values()} == {"supervised"}


# --- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("projector", ["none", "mlp"])
def test_every_objective_takes_finite_steps_that_change_the_weights(
    objective: str, projector: str, pixels: Pixels
) -> None:
    network = "vit" if projector == "none" else "resnet"
    choices = replace(CHOICES, objective=objective, projector=projector, network=network, n_views=4)
    card = card_of(ONE, choices)
    before = build_encoder(card, seed=zlib.crc32(ONE.encode()), device="cpu").state_dict()
    encoder, loss, n_steps, failed = script._trained(card, choices, pixels)
    assert not failed and n_steps == 300 // 64 and np.isfinite(loss)
    after = encoder.state_dict()
    assert all(torch.isfinite(tensor).all() for tensor in after.values())
    learnt = [name for name, _ in encoder.named_parameters()]
    changed = [name for name in learnt if not torch.equal(before[name], after[name])]
    assert changed == learnt


def test_a_name_decides_every_number_of_a_run(scratch: Path, tmp_path: Path) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        torch.manual_seed(len(folder))  # which a run does not look at
        script.train(ONE, CHOICES, scratch, tmp_path / folder)
    script.train("randomised_001", CHOICES, scratch, tmp_path / "first")
    first, other = weights_of(tmp_path / "first").values()
    assert [first] == [*weights_of(tmp_path / "second").values()]
    assert first != other


class _Exploding(Supervised):
    """Infinite at the third step, before which it keeps a copy of the encoder's parameters."""

    n_steps = 0
    kept: ClassVar[dict[str, Tensor]] = {}

    def loss(self, views: Any, labels: Tensor, generator: torch.Generator) -> Tensor:
        found = super().loss(views, labels, generator)
        self.n_steps += 1
        if self.n_steps < 3:
            return found
        self.kept.update({name: one.detach().half() for name, one in self.encoder.named_parameters()})
        return found * float("inf")


def test_a_run_whose_loss_becomes_infinite_failed_and_keeps_the_weights_before_that_step(
    scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OBJECTIVES, "supervised", _Exploding)
    run = script.train(ONE, CHOICES, scratch, tmp_path)
    assert (run.state, run.n_steps) == ("failed", 2)
    written = load_file(tmp_path / f"{ONE}.safetensors")
    assert all(torch.isfinite(tensor).all() for tensor in written.values())
    assert _Exploding.kept and all(torch.equal(written[name], one) for name, one in _Exploding.kept.items())
    assert np.isfinite([run.rankme, run.spread, run.accuracy_percent]).all()


class _Flattening(Supervised):
    """Makes the same of all images, whatever the gradient says."""

    def after_step(self, progress: float) -> None:
        with torch.no_grad():
            for parameter in self.encoder.parameters():
                parameter.zero_()


def test_a_run_whose_features_are_all_the_same_collapsed(
    scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OBJECTIVES, "supervised", _Flattening)
    run = script.train(ONE, CHOICES, scratch, tmp_path)
    assert (run.state, run.spread) == ("collapsed", 0.0)
    assert run.rankme == pytest.approx(1.0, abs=1e-6)


def test_rank_and_spread_of_features_whose_singular_values_are_known() -> None:
    assert script._rank_and_spread(torch.cat([torch.eye(8), -torch.eye(8)])) == pytest.approx((8.0, (16 / 15) ** 0.5))
    rank, spread = script._rank_and_spread(torch.ones(50, 8))
    assert rank == pytest.approx(1.0, abs=1e-6) and spread == pytest.approx(0.0, abs=1e-6)


# --- the log ---------------------------------------------------------------------------------------------------------


def test_a_run_that_is_killed_before_its_row_is_written_is_made_again_and_no_other(
    scratch: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, forking = arguments_of(scratch, tmp_path), multiprocessing.get_context("fork")
    is_late, train = forking.Event(), script.train

    def waiting_after_the_second(name: str, *given: Any) -> script.Run:
        run = train(name, *given)
        if name == NAMES[1]:
            is_late.set()
            time.sleep(600)
        return run

    monkeypatch.setattr(script, "train", waiting_after_the_second)
    child = forking.Process(target=script.main, args=(arguments,), daemon=True)
    child.start()
    assert is_late.wait(100)
    child.kill()
    child.join()
    assert [row["encoder"] for row in rows_of(tmp_path)] == [NAMES[0]]
    assert len(weights_of(tmp_path)) == 2
    first = (tmp_path / f"{NAMES[0]}.safetensors").stat().st_mtime_ns
    monkeypatch.setattr(script, "train", train)
    script.main(arguments)
    assert rows_of(tmp_path) == rows_of(finished)
    assert weights_of(tmp_path) == weights_of(finished)
    assert (tmp_path / f"{NAMES[0]}.safetensors").stat().st_mtime_ns == first


def test_what_has_another_recipe_or_other_weights_than_its_row_is_trained_anew(
    scratch: Path, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(finished, tmp_path / "changed")
    log, damaged = folder / "log.csv", folder / f"{NAMES[1]}.safetensors"
    runs = script.read_log(log)
    script.write_log(log, [replace(runs[0], recipe="0" * 32), *runs[1:]])
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\0")
    script.main(arguments_of(scratch, folder))
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "1 of 3 are there" and [line.split()[0] for line in said[1:]] == [*NAMES[:2]]
    assert rows_of(folder) == rows_of(finished)
    assert weights_of(folder) == weights_of(finished)


def test_rows_of_encoders_that_are_not_asked_for_stay(scratch: Path, finished: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished, tmp_path / "asked")
    (folder / f"{NAMES[0]}.safetensors").unlink()
    script.main([NAMES[0], *arguments_of(scratch, folder)[len(NAMES) :]])
    assert rows_of(folder) == rows_of(finished)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["randomised_096"], "randomised_096 was not drawn"), (["--first", "-1"], "got -1, expected 0 or more")],
)
def test_what_cannot_be_trained_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        script.main(arguments)
    assert said in capsys.readouterr().err


# --- what is shipped -------------------------------------------------------------------------------------------------


def test_the_log_begins_with_the_population_in_the_order_of_the_draw() -> None:
    logged = [run.encoder for run in script.read_log(WEIGHTS / "log.csv")]
    drawn = [name for name in logged if name in population()]
    assert drawn == [name_of(number) for number in range(len(drawn))]
    assert logged == [*drawn, *twins()] and len(drawn) >= 64


@for_each(script.read_log(WEIGHTS / "log.csv"), name=lambda run: run.encoder)
def test_a_row_of_the_log_is_of_this_recipe_and_of_the_file_next_to_it(run: script.Run) -> None:
    assert run.state in ("trained", "collapsed", "failed")
    assert script._is_done(run, population() | twins(), WEIGHTS)
    assert run.size_bytes == (WEIGHTS / f"{run.encoder}.safetensors").stat().st_size < script.LARGEST_BYTES


def test_no_file_of_weights_is_without_its_row() -> None:
    files = {path.stem for path in WEIGHTS.glob("*.safetensors")}
    assert files == {run.encoder for run in script.read_log(WEIGHTS / "log.csv")}


def test_the_cards_are_those_that_the_script_writes_of_the_draw_and_the_log(tmp_path: Path) -> None:
    shipped = CARDS.read_text(encoding="utf-8")
    runs = {run.encoder: run for run in script.read_log(WEIGHTS / "log.csv")}
    of_cards = {name: run for name, run in runs.items() if f"[encoders.{name}]\n" in shipped}
    script.write_cards(tmp_path / "written.toml", population() | twins(), of_cards)
    assert (tmp_path / "written.toml").read_text(encoding="utf-8") == shipped
    assert len(of_cards) == shipped.count("[encoders.")
