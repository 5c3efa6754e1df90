"""Names that would move the cursor, colour, turn or hide what a terminal shows, and cells that would be formulas."""

from __future__ import annotations

import csv
import re
import shutil
import unicodedata
from pathlib import Path
from xml.etree import ElementTree

import click
import numpy as np
import pytest
from PIL import Image

from tests.children import ForkedCommand
from tests.cli_runner import document, on_terminal, run
from tests.each import for_each
from tests.servers import Fault, serving
from zoo.cards.answers import make_table
from zoo.cli.output import echo, escape_output, print_table, style_text
from zoo.errors import DataError, UnknownName, escape_unprintable
from zoo.files import escape_csv_cell
from zoo.progress import SilentProgress
from zoo.weights.download import RetryPolicy, fetch

ENCODER = "pocket_simclr_rn_shapes"
EVIL = "c\x1b]0;title\x07a\x1b[31mt\u202egnp\x9b2Jz\u200bz\x7f"
SHOWN = r"c\x1b]0;title\x07a\x1b[31mt\u202egnp\x9b2Jz\u200bz\x7f"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def strange(text: str) -> list[str]:
    """Characters of a text that act on a terminal or are not seen, colours apart."""
    return [one for one in COLOURS.sub("", text) if one not in "\n\r" and unicodedata.category(one) in ("Cc", "Cf")]


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a class of a strange name, and files of strange names."""
    root = tmp_path_factory.mktemp("images") / f"pets{EVIL}"
    for number in range(24):
        file = root / (EVIL, "=dog")[number % 2] / f"{'-=+@'[number % 4]}{number}{EVIL}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.random.default_rng(number).integers(0, 256, (16, 16, 3), np.uint8)).save(file)
    return root


@pytest.fixture(scope="module")
def saved(pets: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A probe that was saved, and what a terminal showed meanwhile."""
    folder = tmp_path_factory.mktemp("saved") / "probe"
    options = ("--settings", "full", "--no-knn", "--no-record", "--save", str(folder), "--verbose")
    return folder, on_terminal(110, "evaluate", ENCODER, str(pets), *options)


def test_a_terminal_shows_them_escaped_in_titles_tables_and_notes(saved: tuple[Path, str], pets: Path) -> None:
    said = re.sub(r"\r[^\n]*\r", "", saved[1])
    assert not strange(said), strange(said)
    together = said.replace("\n", "")
    assert SHOWN in together and r"\u202e" in together and f"on pets{SHOWN}" in together
    assert "\x1b[31mt" not in said and "\x1b[1m" in said  # our own are there
    piped = ForkedCommand("evaluate", ENCODER, str(pets), "--settings", "full", "--no-knn", "--no-record")
    code, out, err = piped.finish()
    assert code == 0 and not strange(out + err)
    assert SHOWN in out


def test_errors_show_them_escaped(pets: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(pets, tmp_path / "pets")
    (broken / EVIL / f"{EVIL}.png").write_bytes(b"no image")
    (tmp_path / f"{EVIL}.csv").write_text(f"path,{EVIL}\na.png,1\n")
    for command, code in (
        (("evaluate", ENCODER, str(broken), "--no-record"), 1),
        (("evaluate", ENCODER, str(tmp_path / f"{EVIL}.csv")), 1),
        (("evaluate", ENCODER, f"./{EVIL}"), 2),
        (("show", EVIL), 2),
        (("predict", f"{tmp_path}/{EVIL}", str(broken)), 1),
        (("look", ENCODER, str(pets), "--queries", EVIL), 2),
    ):
        found = run(*command, code=code)
        assert not strange(found.stderr + found.stdout), (command, found.stderr)
        assert r"\x1b" in found.stderr, found.stderr


def test_json_keeps_names_as_they_are(pets: Path) -> None:
    found = document("evaluate", ENCODER, str(pets), "--settings", "full", "--no-knn", "--no-record")
    assert found["evaluations"][0]["dataset"] == pets.name


def test_the_reason_of_a_server_is_escaped(tmp_path: Path) -> None:
    with serving({}) as server:
        server.always("/a.pth", Fault(status=404))
        server._listener.RequestHandlerClass.responses = {404: ("No\x1b]0;title\x07 \x9b2J", "")}  # type: ignore[attr-defined]
        with pytest.raises(Exception, match="404 No") as caught:
            fetch(
                f"{server.url}/a.pth",
                folder=tmp_path,
                sha256="0" * 64,
                progress=SilentProgress(),
                policy=RetryPolicy(attempts=1),
            )
    assert not strange(str(caught.value)) and r"\x1b]0;title\x07" in str(caught.value)


def test_the_figure_of_a_probe_is_xml_and_its_predictions_are_no_formulas(
    saved: tuple[Path, str], pets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ElementTree.fromstring((saved[0] / "confusion.svg").read_bytes())
    monkeypatch.chdir(pets / "=dog")
    out = tmp_path / "predictions.csv"
    said = run("predict", str(saved[0]), ".", "--out", str(out)).output
    assert not strange(said)
    rows = list(csv.reader(out.open(encoding="utf-8", newline="")))
    assert len(rows) == 13
    for row in rows[1:]:
        assert row[0][0] == "'" and row[0][1:] in {path.name for path in Path().iterdir()}
        assert row[1] in ("'=dog", EVIL) and all(0 <= float(cell) <= 1 for cell in row[2:])


@for_each(
    [
        ("=1+1", "'=1+1"), ("+cmd", "'+cmd"), ("-x", "'-x"), ("@a", "'@a"), ("\t=1", "'\t=1"), ("\r=1", "'\r=1"),
        ("-0.5", "-0.5"), ("+3e-4", "+3e-4"), ("a=1", "a=1"), ("", ""), (-0.5, -0.5), (None, None),
    ],
    arguments=2,
)  # fmt: skip
def test_a_cell_that_would_be_a_formula_is_a_text(cell: object, written: object) -> None:
    assert escape_csv_cell(cell) == written


@for_each(
    [
        ("Fuß, 日本, café, עברית, 👩\u200d🔬, क्\u200dष", "Fuß, 日本, café, עברית, 👩\u200d🔬, क्\u200dष"),
        ("a\u200db", r"a\u200db"),
        ("\u2066a\u2069\u2028\ufeff", r"\u2066a\u2069\u2028\ufeff"),
        ("\udc80 \x00\t\r", r"\udc80 \x00\t\r"),
        ("two\nlines", "two\nlines"),
    ],
    arguments=2,
)
def test_letters_of_all_scripts_stay_and_what_hides_is_escaped(text: str, shown: str) -> None:
    assert escape_unprintable(text) == shown and escape_unprintable(shown) == shown


def test_an_error_is_one_line_and_a_long_id_is_cut() -> None:
    assert str(DataError("The image 'a\nError: b'")) == r"The image 'a\nError: b'"
    assert len(str(UnknownName("encoder", "a b " * 10_000, []))) < 300
    assert len(str(DataError(f"There is no {'x' * 10_000}"))) < 300
    assert len(run("show", "x" * 100_000, code=2).stderr) < 500
    path = "/data" * 100
    assert path in str(DataError(f"There is no {path}"))


def test_our_own_colours_go_through_and_a_name_cannot_have_them(capsys: pytest.CaptureFixture[str]) -> None:
    with escape_output():
        click.secho(f"{style_text('a', bold=True)} {EVIL}", fg="red")
        click.echo(f"{click.style(EVIL, fg='red')} b", err=True)
        print_table(make_table(["a", EVIL], [[style_text("one", fg="red"), "x\ny"]]))
    echo(EVIL)
    said = capsys.readouterr()
    assert not strange(said.out + said.err)
    assert said.err == f"{SHOWN} b\n" and said.out.endswith(f"one  x\\ny\n{SHOWN}\n")
