"""The folder of a site: what stays, what is refused, and what a full disk or a crash leaves."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from zoo.errors import ContentError, QueryError, StoreError
from zoo.site import File, write_site
from zoo.site import folder as folders
from zoo.site.contents import file_names

PAGES = {"index.html": b"first", "encoders/one.html": b"1", "encoders/two.html": b"2", "data/all.csv": b"a,b\n"}


def files(**changed: bytes | None) -> list[File]:
    """The pages, with another content or without it, by the stem of their names."""
    stems = {path: Path(path).stem for path in PAGES}
    contents = {path: changed.get(stems[path], content) for path, content in PAGES.items()}
    return [File(path, content) for path, content in contents.items() if content is not None]


def present(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def identities(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A site that is there already, and was written a while ago."""
    write_site(files(), tmp_path / "site", title="Mine")
    for path in (tmp_path / "site").rglob("*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    return tmp_path / "site"


def alone(folder: Path) -> bool:
    """True if nothing lies beside a folder."""
    return [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_new_site_has_its_files_its_list_and_nothing_beside_it(tmp_path: Path) -> None:
    written = write_site(iter(files()), tmp_path / "site", title="Mine")
    found = present(tmp_path / "site")
    listed = json.loads(found.pop("site.json"))
    assert found == PAGES | {".nojekyll": b""}
    assert (listed["format"], listed["title"], set(listed["files"])) == ("zoo-site-1", "Mine", set(found))
    assert (written.n_pages, written.n_files, written.n_written, written.n_unchanged) == (3, 5, 5, 0)
    assert written.n_bytes == sum(path.stat().st_size for path in (tmp_path / "site").rglob("*") if path.is_file())
    assert alone(tmp_path / "site")


def test_only_what_has_changed_is_rewritten(earlier: Path) -> None:
    before = identities(earlier)
    written = write_site(files(one=b"other", all=None), earlier, title="Mine")
    after = identities(earlier)
    assert {path for path in before if after.get(path) != before[path]} == {
        "encoders/one.html",
        "data/all.csv",
        "site.json",
    }
    assert (earlier / "encoders/one.html").read_bytes() == b"other"
    assert not (earlier / "data").exists()
    assert (written.n_written, written.n_unchanged, written.n_removed) == (1, 3, 1)
    assert alone(earlier)


def test_the_same_again_touches_nothing(earlier: Path) -> None:
    before, inode = identities(earlier), earlier.stat().st_ino
    assert write_site(files(), earlier, title="Mine").n_written == 0
    assert (identities(earlier), earlier.stat().st_ino) == (before, inode)
    assert alone(earlier)


def test_where_links_are_not_possible_files_are_copied_with_their_times(
    earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **more: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    assert write_site(files(one=b"other"), earlier, title="Mine").n_unchanged == 4
    assert (earlier / "encoders/two.html").stat().st_mtime == 1_600_000_000
    assert (earlier / "encoders/one.html").stat().st_mtime > 1_600_000_000


def test_a_file_that_was_removed_is_written_again_and_what_desktops_leave_is_nobodys(earlier: Path) -> None:
    (earlier / "index.html").unlink()
    (earlier / "encoders" / ".DS_Store").write_bytes(b"Finder")
    assert write_site(files(), earlier, title="Mine").n_written == 1
    assert (earlier / "index.html").read_bytes() == b"first"


def put(earlier: Path, what: str) -> str:
    """Makes a folder unfit, and returns what the refusal says of it."""
    match what:
        case "foreign files":
            for name in ("a.txt", "encoders/b.txt", "c.txt", "d.txt"):
                (earlier / name).write_text("mine")
            return "holds 'a.txt', 'c.txt', 'd.txt' and more, not listed in a site.json of a site there"
        case "a link to a folder":
            (earlier / "there").symlink_to(earlier.parent)
            return "holds 'there'"
        case "a changed file":
            (earlier / "encoders/two.html").write_text("mine")
            return "has 'encoders/two.html', changed since the site was written"
        case "a file that became a link":
            (earlier.parent / "elsewhere").mkdir()
            os.rename(earlier / "index.html", earlier.parent / "elsewhere" / "index.html")
            (earlier / "index.html").symlink_to(earlier.parent / "elsewhere" / "index.html")
            return "has 'index.html', changed"
        case "no list":
            (earlier / "site.json").unlink()
            return "holds '.nojekyll', 'data/all.csv', 'encoders/one.html' and more"
        case "a list of another kind":
            (earlier / "site.json").write_text('{"format": "other-1", "files": ["index.html"]}')
            return "holds '.nojekyll', 'data/all.csv', 'encoders/one.html' and more"
    raise AssertionError(what)


@pytest.mark.parametrize(
    "what",
    [
        "foreign files",
        "a link to a folder",
        "a changed file",
        "a file that became a link",
        "no list",
        "a list of another kind",
    ],
)
def test_what_is_not_an_untouched_site_is_refused_and_stays(earlier: Path, what: str) -> None:
    message, before = put(earlier, what), present(earlier)
    with pytest.raises(QueryError) as caught:
        write_site(files(one=b"other"), earlier)
    assert message in str(caught.value)
    assert "expected an absent or empty folder or an untouched earlier site; nothing is overwritten" in str(
        caught.value
    )
    assert present(earlier) == before


def test_what_is_put_there_while_the_site_is_made_stays(earlier: Path) -> None:
    def made() -> Iterator[File]:
        yield from files(one=b"other")
        (earlier / "mine.txt").write_text("mine")

    with pytest.raises(QueryError, match=r"holds 'mine\.txt'"):
        write_site(made(), earlier)
    assert present(earlier).keys() == {*PAGES, ".nojekyll", "site.json", "mine.txt"}
    assert alone(earlier)


def test_places_that_are_no_folder_to_write_are_refused(
    earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(earlier)
    for place, message in {
        tmp_path / "file": "is no folder",
        tmp_path / "link": f"is a symbolic link, expected a folder.*name the folder itself, {earlier}",
        tmp_path / "absent" / "site": "There is no folder .*absent.* make it first",
        tmp_path / "file" / "site": "There is no folder",
        Path("/"): "cannot be replaced as a whole",
    }.items():
        with pytest.raises(QueryError, match=message):
            write_site(files(), place)
    monkeypatch.chdir(earlier)
    with pytest.raises(QueryError, match="is the current folder"):
        write_site(files(), Path("."))
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != tmp_path)
    with pytest.raises(StoreError, match=f"{tmp_path} cannot be written"):
        write_site(files(), tmp_path / "new")


def test_a_full_disk_leaves_the_old_site_and_nothing_half_written(earlier: Path) -> None:
    before = identities(earlier)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(StoreError, match=r"File too large.*what was there is as it was"):
            write_site(files(one=b"x" * 9_000, two=b"x" * 90_000), earlier)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert identities(earlier) == before
    assert alone(earlier)


@pytest.mark.parametrize("call", ["replace_folder", "_synchronise"])
def test_a_disk_that_fails_at_the_end_leaves_the_old_site(
    earlier: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = identities(earlier)
    monkeypatch.setattr(folders, call, fail)
    with pytest.raises(StoreError, match="No space left on device"):
        write_site(files(one=b"other"), earlier)
    assert identities(earlier) == before
    assert alone(earlier)


def test_an_error_while_pages_are_made_is_passed_on_and_leaves_nothing(tmp_path: Path) -> None:
    def made() -> Iterator[File]:
        yield from files()
        raise FileNotFoundError(errno.ENOENT, "of a page", "results")

    with pytest.raises(FileNotFoundError, match="of a page"):
        write_site(made(), tmp_path / "site")
    assert not list(tmp_path.iterdir())


def test_a_site_that_was_set_aside_by_a_killed_process_comes_back(earlier: Path) -> None:
    before, half = identities(earlier), earlier.parent / ".site-0123abcd.tmp"
    os.rename(earlier, earlier.parent / ".site-89abcdef.tmp.earlier")  # the process was killed between its two renames
    half.mkdir()
    write_site(files(), earlier, title="Mine")
    assert identities(earlier) == before
    assert sorted(path.name for path in earlier.parent.iterdir()) == [half.name, "site"]  # it may be of another process
    os.utime(half, (1_600_000_000, 1_600_000_000))
    write_site(files(), earlier, title="Mine")
    assert alone(earlier)


def test_of_two_writers_the_last_one_wins_with_a_whole_site(earlier: Path) -> None:
    def made() -> Iterator[File]:
        first, *others = files(one=b"slow")
        yield first
        write_site(files(one=b"quick", two=None), earlier)
        yield from others

    write_site(made(), earlier)
    assert present(earlier).keys() == {*PAGES, ".nojekyll", "site.json"}
    assert (earlier / "encoders/one.html").read_bytes() == b"slow"
    write_site(files(), earlier)  # its list is right
    assert alone(earlier)


@pytest.mark.parametrize(
    "path",
    [
        "../out.html",
        "/etc/x.html",
        "a//b.html",
        "a/../b.html",
        "",
        ".hidden",
        "a/.git",
        "c:x",
        "a\\b",
        "a\0",
        "a.",
        "é",
    ],
)
def test_a_path_that_leaves_the_folder_or_is_not_safe_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ContentError, match="expected names of ASCII letters"):
        write_site([File(path, b"")], tmp_path / "site")
    assert not list(tmp_path.iterdir())


def test_two_files_of_one_name_are_refused_without_regard_to_case(tmp_path: Path) -> None:
    with pytest.raises(ContentError, match=r"two files 'A\.html'"):
        write_site([File("a.html", b""), File("A.html", b"")], tmp_path / "site")


def test_files_of_ids_with_signs_are_safe_and_distinct(tmp_path: Path) -> None:
    ids = ["mine@layer=avg+cls", "timm:vit.tag", "..", "a/../../b", "CON", "x", "X", "-o", "name with spaces", "ñ"]
    names = file_names(ids)
    write_site([File(f"encoders/{name}.html", b"") for name in names.values()], tmp_path / "site")
    assert len(list((tmp_path / "site" / "encoders").iterdir())) == len(ids)
    shutil.rmtree(tmp_path / "site")
