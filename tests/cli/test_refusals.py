"""What the command ``zoo`` refuses, each in one sentence, and how it explains itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import zoo
from tests.card_text import VALID
from tests.cli_runner import names, run
from zoo.cli import VERBS
from zoo.files import content_folder


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["show", "dino_vits1"], "There is no encoder named 'dino_vits1'; did you mean dino_vitS16"),
            (["results", "nonsense"], "There is no encoder named 'nonsense'"),
            (["compare", "dino_vitS16", "mae_vit"], "There is no encoder named 'mae_vit'; did you mean mae_vit"),
            (["list", "--where", 'familly == "vit"'], "There is no column named 'familly'; did you mean family"),
            (["list", "--where", "family ="], "Cannot read the condition 'family ='"),
            (["list", "--sort", "zdim"], "There is no column named 'zdim'; did you mean z_dim"),
            (["list", "--columns", "encoder,lisence"], "There is no column named 'lisence'; did you mean licence"),
            (["lisst"], "There is no verb named 'lisst'; did you mean list?"),
        ],
    )
    def test_a_name_that_does_not_exist_is_answered_with_the_nearest(self, arguments: list[str], sentence: str) -> None:
        result = run(*arguments, code=2)
        assert result.stdout == ""
        assert result.stderr.startswith(f"Error: {sentence}")
        assert result.stderr.count("\n") == 1

    @pytest.mark.parametrize(
        "arguments",
        [
            ["list", "--descending"],
            ["list", "--limit", "0"],
            ["list", "--columns", ","],
            ["list", "--columns", ""],
            ["list", "--columns", "encoder,encoder"],
            ["list", "--sort", ""],
            ["list", "--where", " "],
            ["show"],
            ["--nonsense"],
        ],
        ids=" ".join,
    )
    def test_misuse_is_exit_code_2(self, arguments: list[str]) -> None:
        assert "Usage: " in run(*arguments, code=2).stderr

    def test_a_column_is_refused_twice_under_the_same_name_only(self) -> None:
        message = run("list", "--columns", "z_dim,encoder,z_dim", code=2).stderr
        assert "Got z_dim more than once for --columns, expected each column once." in message
        header = run("list", "--columns", "train_test,error_100pct").stdout.splitlines()[0]
        assert header.split() == ["train_test", "error_100pct"]

    def test_every_broken_card_of_ones_own_is_one_warning(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ZOO_HOME", str(tmp_path))
        (tmp_path / "metadata").mkdir()
        (tmp_path / "metadata" / "mine.toml").write_text(VALID.replace("epochs = 800", 'epochs = "many"'))
        for verb in (["list"], ["show", "dino_vitS16"], ["results"], ["recommend", "--labels", "5000"]):
            result = run(*verb)
            lines = [line for line in result.stderr.splitlines() if line.startswith("Warning: ")]
            for line, name in zip(lines, ("tiny_vitS16", "tiny_vitS16_twin"), strict=True):
                assert f"mine.toml: encoder {name!r}, field 'pretraining.epochs'" in line

    def test_a_repeated_row_of_ones_own_is_one_warning(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        header, row, *_ = (content_folder("results") / "published" / "risks.csv").read_text().splitlines(keepends=True)
        monkeypatch.setenv("ZOO_HOME", str(tmp_path))
        (tmp_path / "results").mkdir()
        (tmp_path / "results" / "mine.csv").write_text(header + row)
        (line,) = [line for line in run("results").stderr.splitlines() if line.startswith("Warning: ")]
        assert "mine.csv, line 2" in line

    def test_a_card_of_ones_own_is_listed_and_shown(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ZOO_HOME", str(tmp_path))
        (tmp_path / "metadata").mkdir()
        (tmp_path / "metadata" / "mine.toml").write_text(VALID)
        assert "tiny_vitS16" in names("list", "tiny_*")
        assert "vits16 cls" in run("show", "tiny_vits16").stdout


class TestHelp:
    def test_the_version_is_that_of_the_package(self) -> None:
        assert run("--version").stdout == f"zoo {zoo.__version__}\n"

    def test_the_help_lists_every_verb_and_gives_examples(self) -> None:
        text = run("--help").stdout
        assert all(f"  {verb} " in text for verb in VERBS)
        assert "Examples:" in text

    @pytest.mark.parametrize("verb", VERBS)
    def test_every_verb_explains_itself(self, verb: str) -> None:
        text = run(verb, "--help").stdout
        assert f"Usage: zoo {verb}" in text
        assert VERBS[verb].line.removesuffix(".") in text
        assert ("--json" in text) == (verb != "completion")

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_a_shell_gets_its_completion_script(self, shell: str) -> None:
        assert f"_ZOO_COMPLETE={shell}_complete" in run("completion", shell).stdout
