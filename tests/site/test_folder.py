"""The folder of a site: what stays, what is refused, and what a full disk or a crash leaves."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import pytest

from tests.each import for_each
from zoo.errors import QueryError, StoreError
from zoo.site import File, write_site

PAGES = {"index.html": b"first", "encoders/one.html": b"1", "encoders/two.html": b"2", "data/all.csv": b"a,b\n"}


def files(**changed: bytes | None) -> list[File]:
    """The pages, with another content or without it, by the stem of their names."""
    stems = {path: Path(path).stem for path in PAGES}
    contents = {path: changed.get(stems[path], content) for path, content in PAGES.items()}
    return [File(path, content) for path, content in contents.items() if content is not None]


def present(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A site that is there already, and was written a while ago."""
    write_site(files(), tmp_path / "site", title="Mine")
    return tmp_path / "site"


def alone(folder: Path) -> bool:
    """True if nothing lies next to a folder."""
    return [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_new_site_has_its_files_its_list_and_nothing_next_to_it(tmp_path: Path) -> None:
    written = write_site(iter(files()), tmp_path / "site", title="Mine")
    found = present(tmp_path / "site")
    listed = json.loads(found.pop("site.json"))
    assert found == PAGES | {".nojekyll": b""}
    assert (listed["format"], listed["title"], set(listed["files"])) == ("zoo-site-1", "Mine", set(found))
    assert (written.n_pages, written.n_files, written.n_written, written.n_unchanged) == (3, 5, 5, 0)
    assert written.n_bytes == sum(path.stat().st_size for path in (tmp_path / "site").rglob("*") if path.is_file())
    assert alone(tmp_path / "site")


def test_a_new_version_replaces_the_earlier_one_and_says_what_changed(earlier: Path) -> None:
    (earlier / "index.html").unlink()  # nobody's loss
    (earlier / "encoders" / ".DS_Store").write_bytes(b"Finder")
    written = write_site(files(one=b"other", all=None), earlier, title="Mine")
    assert present(earlier).keys() == {*PAGES, ".nojekyll", "site.json"} - {"data/all.csv"}
    assert (earlier / "encoders/one.html").read_bytes() == b"other"
    assert (written.n_written, written.n_unchanged, written.n_removed) == (1, 3, 1)
    assert write_site(files(one=b"other", all=None), earlier, title="Mine").n_written == 0
    assert alone(earlier)


@for_each(["a foreign file", "a link", "a changed file", "no list", "a list of another kind"])
def test_what_is_not_an_untouched_site_is_refused_and_stays(what: str, tmp_path: Path) -> None:
    place = tmp_path / what
    write_site(files(), place)
    if what == "a foreign file":
        (place / "encoders/mine.txt").write_text("mine")
    elif what == "a link":
        (place / "there").symlink_to(place.parent)
    elif what == "a changed file":
        (place / "encoders/two.html").write_text("mine")
    elif what == "no list":
        (place / "site.json").unlink()
    else:
        (place / "site.json").write_text('{"format": "other-1", "files": ["index.html"]}')
    before = sorted(place.rglob("*"))
    with pytest.raises(QueryError, match="untouched earlier site"):
        write_site(files(one=b"other"), place)
    assert sorted(place.rglob("*")) == before


def test_places_that_are_no_folder_to_write_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for place, message in {
        tmp_path / "file": "is no folder",
        tmp_path / "absent" / "site": "There is no folder .*absent.* make it first",
        Path("/"): "cannot be replaced",
    }.items():
        with pytest.raises(QueryError, match=message):
            write_site(files(), place)
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != tmp_path)
    with pytest.raises(StoreError, match=f"{tmp_path} cannot be written"):
        write_site(files(), tmp_path / "new")


def test_a_full_disk_leaves_the_old_site_and_nothing_half_written(earlier: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(StoreError, match=r"File too large.*what was there is as it was"):
            write_site(files(one=b"x" * 9_000, two=b"x" * 90_000), earlier)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (earlier / "encoders/one.html").read_bytes() == b"1"
    assert alone(earlier)
