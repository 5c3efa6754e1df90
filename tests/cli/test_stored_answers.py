"""What was measured and is asked for again is read: the same words and rows, without PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.cli_runner import run

ENCODER, OTHER = "pocket_simclr_rn_shapes_d24", "pocket_sup_rn_shapes_d24"
SHAPES = "shapes:classes=3,train=48,val=30,size_px=16,seed=2"
LINES = {
    "evaluate": ("evaluate", ENCODER, SHAPES, "--settings", "full", "--no-knn"),
    "metric": ("metric", "rankme", ENCODER, SHAPES),
    "choose": ("choose", SHAPES, "--encoders", f"{ENCODER},{OTHER}", "--device", "cpu", "--time", "none"),
}
HEAVY = ("torch", "torchvision", "timm", "sklearn", "scipy", "pandas", "matplotlib")


pytestmark = pytest.mark.usefixtures("own_folders")


def ask_in_a_new_process(*arguments: str) -> tuple[str, list[str]]:
    """What it prints, and which heavy libraries it imports."""
    script = (
        "import contextlib, io, json, sys\n"
        "from zoo.cli import zoo as command\n"
        "with contextlib.redirect_stdout(io.StringIO()) as printed:\n"
        "    command.main(sys.argv[1:], standalone_mode=False)\n"
        f"found = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "print(json.dumps([printed.getvalue(), found]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    printed, found = json.loads(done.stdout)
    return printed, found


@pytest.mark.parametrize("verb", LINES)
def test_a_stored_answer_is_given_again_without_pytorch(verb: str) -> None:
    first = run(*LINES[verb])
    assert first.exit_code == 0, first.output
    again = run(*LINES[verb])  # of results with the rows of the first
    assert again.stdout == first.stdout
    assert ask_in_a_new_process(*LINES[verb]) == (first.stdout, [])


SLOW = ("torch._dynamo", "sklearn", "scipy.stats", "scipy.optimize", "pandas")


def test_what_needs_no_scikit_learn_or_pandas_does_not_import_them(own_folders: Path) -> None:
    saved = str(own_folders / "probe")
    run(*LINES["evaluate"], "--save", saved)
    image = own_folders / "one.png"
    Image.new("RGB", (16, 16), "red").save(image)
    script = (
        "import sys\nfrom zoo.cli import zoo as command\n"
        "for line in sys.argv[1:]:\n"
        "    command.main(line.split('|'), standalone_mode=False)\n"
        f"print([name for name in {SLOW!r} if name in sys.modules])\n"
    )
    lines = [
        ("predict", saved, str(image)),
        ("look", ENCODER, str(image), "--out", str(own_folders / "look")),
        LINES["metric"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", script, *map("|".join, lines)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_another_question_is_measured(own_folders: Path) -> None:
    def ask(*more: str, images: str = SHAPES) -> Any:
        done = run("evaluate", ENCODER, images, "--settings", "full", *more, "--json")
        return json.loads(done.stdout)["evaluations"][0]

    first = ask("--no-knn")
    assert ask("--no-knn")["recorded"]["known"] == first["recorded"]["new"] == 1
    assert ask()["neighbours"] is not None
    other = ask("--no-knn", "--dataset", "others", images=SHAPES.replace("seed=2", "seed=3"))
    assert other["errors"] != first["errors"]


def test_an_answer_of_another_version_of_a_library_is_not_given_again(
    own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(*LINES["metric"])
    monkeypatch.setattr("zoo.execution.executor.find_library_version", lambda library: "0.1")
    run(*LINES["metric"])
    assert len([*own_folders.rglob("answers/*")]) == 2


DAMAGES = {
    "cut off": lambda text: text[:300],
    "empty": lambda text: "",
    "no keys": lambda text: "{}",
    "other keys": lambda text: json.dumps({"document": {}, "shown": 3, "rows": []}),
    "another number": lambda text: text.replace('"value": ', '"value": 1'),
    "nested": lambda text: "[" * 100_000,
}


@pytest.mark.parametrize("verb", LINES)
def test_a_damaged_answer_is_found_anew(verb: str, own_folders: Path) -> None:
    first = run(*LINES[verb])
    (path,) = own_folders.rglob("answers/*")
    whole = path.read_text()
    for damage in DAMAGES.values() if verb == "evaluate" else [DAMAGES["no keys"]]:
        path.write_text(damage(whole))
        again = run(*LINES[verb])
        assert again.exit_code == 0, again.output
        if verb == "evaluate":  # the others show seconds
            assert again.stdout == first.stdout


def test_the_answer_of_a_folder_that_was_moved_names_files_that_are_there(own_folders: Path) -> None:
    line = (*LINES["evaluate"], "--json", "--to")
    run(*line, str(own_folders / "old"))
    (own_folders / "old").rename(own_folders / "new")
    found = json.loads(run(*line, str(own_folders / "new")).stdout)["evaluations"][0]
    assert all(Path(folder).is_dir() for folder in found["features"].values())
