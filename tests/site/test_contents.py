"""What a site says of encoders of the user's: no key of an address and no path of this machine, on no page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.card_text import VALID
from zoo.site import gather, site_files

PRIVATE = "https://me:SECRET123@h.invalid/page?id=7&token=SECRET123"
CARDS = VALID.replace("https://example.org/tiny.pth", "/home/SECRET123/tiny.pth").replace(
    "https://example.org/models", PRIVATE
)
REGISTERED = f"""
[encoders.tiny_registered]
like = "tiny_vitS16"
weights.url = "{PRIVATE}"
weights.mirrors = ["/home/SECRET123/mirror.pth"]
weights.note = "Also at {PRIVATE}, and so on."
provenance.url = "/home/SECRET123/mine.pth"
paper.url = "{PRIVATE}"
"""


def test_no_key_and_no_path_of_this_machine_reaches_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "mine.toml").write_text(CARDS + REGISTERED)
    contents = gather(only=["tiny_vitS16", "tiny_registered"], with_mine=True)
    assert contents.entries["tiny_registered"].is_mine
    files = {file.path: file.content for file in site_files(replace(contents, with_studies=False))}
    assert "encoders/tiny_registered.html" in files and "data/encoders.csv" in files
    assert b"https://h.invalid/page" in files["data/encoders.csv"]
    assert not [path for path, content in files.items() if b"SECRET123" in content or b"/home/" in content]
