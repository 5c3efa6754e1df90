"""The README with which a site is a static Space of the Hugging Face Hub."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ..site.contents import Contents
from ..site.rendering import File
from ..version import __version__

LICENCE = "mit"  # of the code, as the Hub spells it
UPLOAD = "hf upload OWNER/NAME {folder} --repo-type space --delete '*'"


def iterate_space_files(contents: Contents) -> Iterator[File]:
    """What a Space needs next to the site: ``README.md``, whose front matter says that it is static."""
    yield File("README.md", _readme(contents).encode())


def _readme(contents: Contents) -> str:
    n = len(contents.entries)
    title = json.dumps(contents.title, ensure_ascii=False)  # which YAML reads as it is
    own = " Encoders and measurements marked as mine are by the authors of this page." if contents.with_mine else ""
    return f"""\
---
title: {title}
emoji: 🔭
colorFrom: blue
colorTo: gray
sdk: static
app_file: index.html
pinned: false
license: {LICENCE}
---

Vision encoders ({n:,}): what each is, who may use it for what, what was measured or reported of it, and where a linear
probe on its features loses accuracy. Static pages, made by `zoo export --space` of SSL Zoo {__version__}.{own}

The licence above is that of the code. Weights are their authors' and under their own licences, which each page names.
"""
