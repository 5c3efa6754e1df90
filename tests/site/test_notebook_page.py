"""The page of the notebook: its text as HTML, its tables without styles of their own, its pictures as files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from zoo.site import notebook_page
from zoo.site.contents import gather
from zoo.site.rendering import SiteRenderer


def test_it_has_every_cell_and_pictures_of_their_own_size(repository: Path) -> None:
    renderer = SiteRenderer(gather(only=["dino_vitS16"]))
    [page] = notebook_page.build_files(renderer.contents, renderer)
    text = page.content.decode()
    cells = json.loads((repository / "docs" / "quickstart.ipynb").read_text(encoding="utf-8"))["cells"]
    assert text.count('class="cell"') == sum(cell["cell_type"] == "code" for cell in cells)
    assert text.count("<h1>") == 1 and "<style" not in text and "style=" not in text and "data:" not in text
    pictures = [file for name, file in renderer.assets.items() if name.startswith("notebook-")]
    assert len(pictures) == text.count("<img ") == 6
    for picture in pictures:
        assert f'src="{picture.path}"' in text and picture.content.startswith(b"\x89PNG")


def test_what_is_written_between_cells_is_text(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(shutil.copy(repository / "docs" / "quickstart.ipynb", tmp_path))
    document = json.loads(path.read_text(encoding="utf-8"))
    evil = "<script>alert(1)</script>"
    document["cells"][0]["source"] = [f"# Title\n\n{evil} [link](javascript:alert(2))"]
    document["cells"][2] |= {"source": [evil], "outputs": [{"output_type": "stream", "text": [evil]}]}
    path.write_text(json.dumps(document), encoding="utf-8")
    monkeypatch.setattr(notebook_page, "get_content_folder", lambda name: tmp_path)
    renderer = SiteRenderer(gather(only=["dino_vitS16"]))
    [page] = notebook_page.build_files(renderer.contents, renderer)
    text = page.content.decode()
    assert text.count("&lt;script&gt;alert(1)") == 3 and "<script>alert" not in text
    assert 'href="javascript' not in text
