"""``zoo site`` and ``zoo export --space``: what they write, say and refuse."""

from __future__ import annotations

import json
import sys
import threading
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli_runner import document, run
from tests.own_encoder import MINE, add_own_encoder
from zoo.hub.space import LICENCE
from zoo.site import building
from zoo.site.contents import Contents
from zoo.site.rendering import File, SiteRenderer
from zoo.site.serving import SiteServer

FEW = ("--only", "dino_vitS16", "--only", "MAE_vitb*")


def pages(contents: Contents, renderer: SiteRenderer) -> Iterator[File]:
    """The first page and one per encoder; those of the zoo have tests of their own."""
    yield File("index.html", f"<title>{contents.title}</title>".encode())
    for entry in contents.entries.values():
        yield File(f"encoders/{entry.file}.html", f"{entry.id} {entry.is_mine} {len(entry.own_means)}".encode())


@pytest.fixture(autouse=True)
def few_makers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "MAKERS", {"pages": pages})


def present(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_it_says_what_was_written_and_how_to_look_at_it(tmp_path: Path) -> None:
    first = run("site", "--out", str(tmp_path / "site"), *FEW)
    n = len(present(tmp_path / "site"))
    assert first.stdout.startswith(f"Wrote {n - 2} pages ({n - 1} files, ")
    assert f" to {tmp_path / 'site'} in " in first.stdout
    assert f" s: {n - 1} files new or changed, 0 removed." in first.stdout
    assert f"open {tmp_path / 'site' / 'index.html'} in a browser" in first.stderr
    again = run("site", "--out", str(tmp_path / "site"), *FEW)
    assert "0 files new or changed, 0 removed." in again.stdout
    fewer = run("site", "--out", str(tmp_path / "site"), *FEW[:2], "--title", "Ours & theirs")
    assert "1 file new or changed, " in fewer.stdout and "encoders/dino_vitS16.html" in present(tmp_path / "site")


def test_encoders_of_mine_are_there_with_the_option_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    add_own_encoder(tmp_path / "home", monkeypatch)
    path = f"encoders/{MINE}.html"
    run("site", "--out", str(tmp_path / "site"), "--only", MINE, code=2)
    result = run("site", "--out", str(tmp_path / "site"), "--only", MINE, "--with-mine")
    assert "--with-mine added 1 encoder of yours, and your measurements of 1 encoder" in result.stderr
    assert (tmp_path / "site" / path).read_text().startswith(f"{MINE} True 8")


def test_what_cannot_be_done_is_refused_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    for arguments, message in {
        "site": "Got neither --out nor --serve, expected --out DIR",
        "site --out site --only nosuchthing": "No encoder has a name like 'nosuchthing'",
        "site --out site --port 8000": "--port 8000 has no effect",
        "site --serve --port 0": "not in the range",
        "site --out .": "is the current folder",
        "site --out there": "holds 'mine.txt'",
        "export dino_vitS16 --space a": "NAME --hub DIR",
        "export --space a --hub b": "NAME --hub DIR",
        "export --hub a": "NAME --hub DIR",
        "export": "NAME --hub DIR",
        "export dino_vitS16 --hub a --title x": "--title x has no effect",
        "export --space a --only nosuchthing": "No encoder has a name like",
    }.items():
        assert message in run(*arguments.split(), code=2).stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["there", "mine.txt"]


@pytest.mark.parametrize(
    ("library", "options", "code"),
    [("markdown_it", ["--no-studies"], 1), ("xgboost", [], 1), ("xgboost", ["--no-studies"], 0)],
)
def test_a_missing_library_is_said_before_any_work(
    library: str, options: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    said = run("site", "--out", str(tmp_path / "site"), *FEW[:2], *options, code=code).stderr
    assert (f"A site needs the library '{library}'" in said and "[site]" in said) == bool(code)
    assert (tmp_path / "site").exists() == (not code)


def test_it_is_served_from_the_cache_until_it_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve, asked = SiteServer.serve, []

    def ask_and_interrupt(server: SiteServer, folder: Path) -> None:
        thread = threading.Thread(target=serve, args=(server, folder))
        thread.start()
        with urllib.request.urlopen(server.address, timeout=10) as response:
            asked.append((folder, response.read()))
        server.stop()
        thread.join(10)
        raise KeyboardInterrupt

    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(SiteServer, "serve", ask_and_interrupt)
    shown = run("site", "--serve", "--no-browser", *FEW[:2])
    assert "Serving it at http://127.0.0.1:" in shown.stdout
    assert asked == [(tmp_path / "cache" / "site", b"<title>SSL Zoo</title>")]
    made = json.loads(run("site", "--serve", "--no-browser", *FEW[:2], "--json").stdout)
    assert made["address"].startswith("http://127.0.0.1:") and made["written"] == 0


def test_a_space_has_the_same_site_and_a_readme_that_makes_it_static(tmp_path: Path, repository: Path) -> None:
    title = 'Ours: "all" # & more'
    result = run("export", "--space", str(tmp_path / "my space"), *FEW, "--title", title)
    assert f"hf upload OWNER/NAME '{tmp_path / 'my space'}' --repo-type space" in result.stderr
    run("site", "--out", str(tmp_path / "site"), *FEW, "--title", title)
    assert present(tmp_path / "my space") == {*present(tmp_path / "site"), "README.md"}
    _, front, text = (tmp_path / "my space" / "README.md").read_text().split("---\n")
    facts = yaml.safe_load(front)
    assert (facts["title"], facts["sdk"], facts["app_file"]) == (title, "static", "index.html")
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    assert facts["license"] == LICENCE == project["license"].casefold()
    assert "what was measured or reported" in text
    assert "README.md" in json.loads((tmp_path / "my space" / "site.json").read_text())["files"]
    again = document("export", "--space", str(tmp_path / "my space"), *FEW, "--title", title)
    assert (again["written"], again["upload"][:9]) == (0, "hf upload")
    run("site", "--out", str(tmp_path / "my space"), *FEW)  # a site again
    assert "README.md" not in present(tmp_path / "my space")
