"""The command ``zoo``: refusals, exit codes, help, completion, pipes, terminals, and what it imports."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click import BadParameter, Context, Option
from click.testing import CliRunner

import zoo
import zoo.errors
from tests.card_text import VALID
from tests.cli_runner import names, on_terminal, process, run
from tests.each import for_each
from tests.weights.test_maintenance import folders, put
from zoo.cards.catalogue import load_catalogue
from zoo.cards.search import list_families
from zoo.cli import VERBS, main, output
from zoo.cli import zoo as command_line
from zoo.cli.options import MOST_SHOWN, parse_duration, parse_memory
from zoo.files import get_content_folder
from zoo.weights.locations import get_weights_folder

__all__ = ["folders"]  # a fixture

HEAVY = ("torch", "torchvision", "timm", "pandas", "numpy", "sklearn", "rich", "filelock")
ESCAPE = "\x1b["


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("show dino_vits1", "There is no encoder named 'dino_vits1'; did you mean dino_vitS16"),
        ("results nonsense", "There is no encoder named 'nonsense'"),
        ("list --where familly==1", "There is no column named 'familly'; did you mean family"),
        ("list --where family=", "Cannot read the condition 'family='"),
        ("list --sort zdim", "There is no column named 'zdim'; did you mean z_dim"),
        ("submit rows", "'submit' is no verb but a script: python scripts/submit_results.py"),
        ("lisst", "There is no verb named 'lisst'; did you mean list?"),
    ],
)
def test_a_name_that_does_not_exist_is_answered_with_the_nearest(arguments: str, sentence: str) -> None:
    result = run(*arguments.split(), code=2)
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {sentence}") and result.stderr.count("\n") == 1


def test_misuse_is_exit_code_2() -> None:
    for arguments in (
        ["list", "--descending"],
        ["list", "--limit", "0"],
        ["list", "--columns", ","],
        ["list", "--columns", "z_dim,encoder,z_dim"],
        ["list", "--where", " "],
        ["compare", "dino_vitS16", "DINO_vits16"],
        ["show"],
        ["--nonsense"],
    ):
        assert "Usage: " in run(*arguments, code=2).stderr, arguments


def test_broken_content_of_ones_own_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    header, row, *_ = (get_content_folder("results") / "published" / "risks.csv").read_text().splitlines(keepends=True)
    for folder in ("metadata", "results"):
        (tmp_path / folder).mkdir()
    (tmp_path / "metadata" / "mine.toml").write_text(VALID.replace("epochs = 800", 'epochs = "many"'))
    (tmp_path / "results" / "mine.csv").write_text(header + row)
    for verb, n_rows in ((["list", "--columns", "encoder"], 0), (["results"], 1)):
        lines = [line for line in run(*verb).stderr.splitlines() if line.startswith("Warning: ")]
        assert sum("mine.toml: encoder 'tiny_vitS16" in line for line in lines) == 2
        assert sum("mine.csv, line 2" in line for line in lines) == n_rows
    (tmp_path / "metadata" / "mine.toml").write_text(VALID)
    assert "tiny_vitS16" in names("list", "tiny_*")


HERE = Context(click.Command("verb")), Option(["--time"])


def test_memory_and_durations_are_read_with_their_units() -> None:
    known: list[tuple[Callable[..., float | None], str | None, float | None]] = [
        (parse_memory, "8GB", 8 * 10**9), (parse_memory, "7.5 g", 7_500_000_000), (parse_memory, "8GiB", 8 * 2**30),
        (parse_memory, "1000000", 10**6), (parse_memory, None, None), (parse_duration, "30m", 1800),
        (parse_duration, "1h 5m 3s", 3903), (parse_duration, "1.5h", 5400), (parse_duration, "none", None),
    ]  # fmt: skip
    for read, text, expected in known:
        assert read(*HERE, text) == expected
    for read, texts in (
        (parse_memory, ("", "GB", "-8GB", "0", "8 apples", "8GBs", "9" * 30)),
        (parse_duration, ("", "30", "h", "0m", "2d", "m30", "9" * 20 + "h")),
    ):
        for wrong in texts:
            with pytest.raises(BadParameter, match=r"such as (8GB|30m)"):
                read(*HERE, wrong)


def test_the_help_lists_every_verb_and_every_verb_explains_itself() -> None:
    text = run("--help").stdout
    assert all(f"  {verb} " in text for verb in VERBS) and "Examples:" in text
    headings = re.findall(r"^(\w+):$", text, re.MULTILINE)
    assert headings == ["Options", "Find", "Measure", "Look", "Share", "Manage"]
    assert run("--version").stdout == f"zoo {zoo.__version__}\n"
    for verb, known in VERBS.items():
        text = run(verb, "--help").stdout
        assert f"Usage: zoo {verb}" in text and known.line.removesuffix(".") in text
        assert ("--json" in text) == (verb != "completion")


def commands() -> Iterator[tuple[str, click.Command]]:
    for verb in VERBS:
        command = command_line.get_command(click.Context(command_line), verb)
        assert command is not None
        yield verb, command
        for below in getattr(command, "verbs", ()):
            yield f"{verb} {below}", command.verb(below)  # type: ignore[attr-defined]


def test_no_help_shows_more_than_30_options_and_help_all_shows_every_one() -> None:
    folded = []
    for name, command in commands():
        declared = {one.opts[-1] for one in command.params if isinstance(one, click.Option) and not one.hidden}
        shown = run(*name.split(), "--help").stdout
        here = {one for one in declared if re.search(rf"^  .*{one}\b", shown.partition("Options:")[2], re.MULTILINE)}
        listed = re.findall(r"^  (?:-\w, )?--[a-z]", shown, flags=re.MULTILINE)
        assert len(listed) <= MOST_SHOWN == 30, name
        if "--help-all" not in declared:
            assert here == declared, name
            continue
        folded.append(name)
        assert shown.splitlines()[-1].endswith(f"more options: zoo {name} --help-all")
        everything = run(*name.split(), "--help-all").stdout
        assert all(re.search(rf"^  .*{one}\b", everything, re.MULTILINE) for one in declared), name
        assert "How the images are understood; see also 'zoo data':" in everything
    assert folded == ["choose", "evaluate", "segment", "layers", "metric", "curve", "features", "predict", "look"]


def test_a_verb_below_another_is_its_first_argument_alone() -> None:
    assert run("results", "merge", "--help").stdout.startswith("Usage: zoo results merge [OPTIONS] PATH...")
    assert "results merge  Add the rows" in run("results", "--help").stdout
    assert "no encoder named 'merge'" in run("results", "--", "merge", code=2).stderr


# --- exit codes ------------------------------------------------------------------------------------------------------


SITUATIONS = {
    "": {
        "get init_vitS16": 0,
        "get pirl_rn50": 1,
        "evaluate pocket_simclr_rn_shapes nowhere/at/all": 2,
        "metric rankme nowhere.npy": 1,
        "probe nowhere nothing": 1,
    },
    "no network": {
        "get dino_vitS16": 1,
        "check dino_vitS16": 1,
        "mirror here dino_vitS16": 1,
        "export dino_vitS16 --hub out": 1,
        "evaluate dino_vitS16 shapes:classes=2,train=12,val=8,size_px=16 --settings full": 1,
        "features dino_vitS16 shapes:classes=2,train=12,val=8,size_px=16": 1,
        "curve dino_vitS16 shapes --task depth": 1,
        "register https://one.invalid/a.pth --like dino_vitS16 --id mine": 1,
    },
    "a file for a cache": {
        "get pocket_simclr_rn_shapes": 1,
        "features pocket_simclr_rn_shapes shapes:classes=2,train=12,val=8,size_px=16": 1,
    },
    "damaged weights": {"verify": 1},
    "a broken lock file": {"verify": 1},
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_situation_has_its_code(
    situation: str, folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if situation == "no network":
        monkeypatch.setenv("ZOO_OFFLINE", "1")
    elif situation == "a file for a cache":
        (tmp_path / "file").touch()
        monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "file"))
    elif situation == "damaged weights":
        record = put("dino_rn50")
        (get_weights_folder() / "tensors" / f"{record.sha256}.safetensors").write_bytes(b"x" * record.size_bytes)
    elif situation == "a broken lock file":
        put("dino_rn50")
        Path("zoo.lock").write_text("nonsense\n")
    for arguments, code in SITUATIONS[situation].items():
        run(*arguments.split(), code=code)


def test_a_path_that_is_not_there_is_said_in_one_sentence() -> None:
    for verb in (["choose"], ["evaluate", "pocket_init_rn"], ["features", "pocket_init_rn"]):
        result = run(*verb, "/no/such/folder", code=2)
        assert result.stderr.count("\n") == 1 and "There is no folder or file '/no/such/folder'" in result.stderr


def test_an_interrupted_verb_says_what_is_kept_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**options: object) -> None:
        raise KeyboardInterrupt

    from zoo.cli.weights import get_command

    monkeypatch.setattr(get_command, "callback", interrupted)
    result = run("get", "dino_vitS16", code=130)
    assert result.stderr.startswith("Stopped. ") and "run the same command again" in result.stderr
    assert result.stdout == "" and result.stderr.count("\n") == 1


# --- processes -------------------------------------------------------------------------------------------------------


def test_a_reader_that_has_seen_enough_ends_it_quietly() -> None:
    command = [sys.executable, "-m", "zoo", "list", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.read(1)
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


def test_output_that_cannot_be_written_is_one_sentence() -> None:
    shell = ["sh", "-c", 'exec "$@" > /dev/full', "sh", sys.executable, "-m", "zoo", "show", "dino_vitS16"]
    printed = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert printed.returncode == 1 and printed.stderr.count("\n") == 1
    assert "output could not be written (No space left on device)" in printed.stderr


@pytest.mark.parametrize(
    ("columns", "arguments"),
    [
        (80, ("results",)),
        (80, ("list", "--help-columns")),
        (60, ("data", "digits")),
        (140, ("recommend", "--labels", "20k")),
        (80, ("compare", "dino_vitS16", "mae_vitB16", "swav_rn50", "clip_rn50x4")),
    ],
)
def test_tables_fit_the_terminal(columns: int, arguments: tuple[str, ...]) -> None:
    lines = on_terminal(columns, *arguments, NO_COLOR="1").splitlines()
    whole = ("https://", "zoo choose IMAGES --encoders")  # addresses and the next command are copied in one piece
    assert max(len(line) for line in lines if not any(part in line for part in whole)) <= columns
    assert not any(ESCAPE in line for line in lines)


def test_a_terminal_is_first_shown_families_in_a_line_each() -> None:
    header, *lines = on_terminal(80, "list", NO_COLOR="1").splitlines()
    known = {family.name: len(family.encoders) for family in list_families(load_catalogue())}
    assert header.split()[:4] == ["family", "encoders", "networks", "measured"]
    assert {line.split()[0]: int(line.split()[1]) for line in lines[: len(known)]} == known
    assert f"{len(known)} families, {len(load_catalogue()):,} encoders" in lines[len(known) + 1]
    assert lines[len(known)] == "this terminal is too narrow for: released, trained by"


def test_a_table_breaks_no_name_and_says_which_columns_a_terminal_has_no_room_for() -> None:
    listed = [line.split()[0] for line in on_terminal(80, "list", "aim*", NO_COLOR="1").splitlines()[1:]]
    assert listed[: len(names("list", "aim*"))] == names("list", "aim*")
    lines = on_terminal(80, "recommend", "--device", "cuda", NO_COLOR="1").splitlines()
    assert {*names("recommend")} <= {word for line in lines for word in line.split()}
    assert any(line.startswith("this terminal is too narrow for: ") for line in lines)
    rows = on_terminal(80, "results", "dino_vitS16", "simclr_resnet50_dNone_e100_m2_headTLinSLin", NO_COLOR="1")
    assert "this terminal is too narrow for: approx, usability" in rows and "\n  30-shot" not in rows  # not blocks
    text = on_terminal(60, "compare", "dino_vitS16", "dinov2_vitS14", "aimv2_vit3B14_448", NO_COLOR="1")
    assert "aimv2_vit3B14_448" in text and "LicenseRef" not in text and "apple-amlr" in text


def test_a_shell_completes_names_options_and_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [
        ("zoo show DINO_vitS16_l", ["dino_vitS16_last"]),
        ("zoo re", ["recommend", "register", "results"]),
        ("zoo results mer", ["merge"]),
        ("zoo list --sort error_3", ["error_30shot", "error_3shot"]),
        ("zoo list --columns encoder,z_dim,z_", ["encoder,z_dim,z_layer"]),
        ("zoo list --sort others_euro", ["others_eurosat", "others_eurosat_spatial"]),
        ("zoo results --dataset resi", ["resisc45"]),
        ("zoo list --family RANDO", ["randomised"]),
        ("zoo recommend --licence A", ["Apache-2.0", "any"]),
        ("zoo recommend --device rtx-4", ["RTX-4090"]),
        ("zoo curve --task n", ["normals"]),
    ]
    for words, completed in cases:
        environment = {"_ZOO_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        result = CliRunner().invoke(command_line, prog_name="zoo", env=environment)
        assert sorted(line.removeprefix("plain,") for line in result.stdout.split()) == sorted(completed), words


@for_each(
    [
        "cache gc --dry-run",
        "check pocket_init_rn",
        "choose digits --dry-run",
        "curve pocket_init_rn digits",
        "evaluate pocket_init_rn digits",
        "export pocket_init_rn --hub folder",
        "features pocket_init_rn digits",
        "layers pocket_init_rn digits",
        "metric rankme features.npy",
        "metric rankme pocket_init_rn digits",
        "predict probe images",
        "probe train test",
        "recommend --labels 20k --min-images-per-second 10",
        "register checkpoint.pth --like dino_vitS16 --id mine",
        "unregister mine --yes",
    ]
)
def test_a_terminal_is_told_something_before_a_slow_library_is_imported(line: str, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("print('imported')\nraise SystemExit(0)")
    path = f"{tmp_path}:{Path(zoo.__file__).parents[1]}"
    printed = on_terminal(80, *line.split(), fresh=True, PYTHONPATH=path, NO_COLOR="1").splitlines()
    assert printed[-2:] == ["loading torch", "imported"]


def test_nothing_is_said_of_slow_libraries_in_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit(0)")
    path = f"{tmp_path}:{Path(zoo.__file__).parents[1]}"
    printed = process("probe", "train", "test", PYTHONPATH=path)
    assert (printed.returncode, printed.stdout, printed.stderr) == (0, "", "")


def test_no_heavy_library_is_imported_nor_another_verb() -> None:
    lines = [
        ["list", "--limit", "1"],
        ["list", "--json"],
        ["list", "--where", "train_test < 20", "--sort", "z_dim"],
        ["show", "dino_vitS16"],
        ["results"],
        ["compare", "dino_vitS16", "mae_vitB16"],
        ["recommend", "--labels", "20k"],
        ["recommend", "--labels", "20k", "--device", "RTX 4090", "--min-images-per-second", "1000"],
        ["doctor", "--offline"],
    ]
    script = f"""
import contextlib, io, json, sys
import zoo
from zoo.cli import zoo as command
found = []
for arguments in {lines!r}:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        command.main(arguments, standalone_mode=False)
    found.append(sorted(name for name in sys.modules if name.startswith("zoo.cli.") or name in {HEAVY!r}))
print(json.dumps(found))
"""
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found = json.loads(printed.stdout)
    assert found[0] == [f"zoo.cli.{name}" for name in ("facts", "list", "options", "output")]
    assert not set(HEAVY) & set(found[-1])


def test_a_pipe_hears_what_is_being_done_once_a_minute_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def long() -> None:
        output.log_progress("1%: 5 linear probes")
        output.log_progress("full: 1 linear probe")

    assert CliRunner().invoke(long).output == ""
    monkeypatch.setattr(output, "_QUIET_SECONDS", -1.0)  # as if the minute had passed
    assert CliRunner().invoke(long).output.splitlines()[-1] == "full: 1 linear probe"


def test_threads_of_the_command_wait_without_spinning_unless_the_user_wants_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["zoo", "--version"])
    for chosen, kept in (("", "PASSIVE"), ("ACTIVE", "ACTIVE")):
        monkeypatch.setenv("OMP_WAIT_POLICY", chosen)
        if not chosen:
            monkeypatch.delenv("OMP_WAIT_POLICY")
        with contextlib.suppress(SystemExit):
            main()
        assert os.environ["OMP_WAIT_POLICY"] == kept
