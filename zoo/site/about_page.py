"""``about.html``: whose numbers the site shows, how they were come by, and what they do not say."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ..analysis.label_budget import N_CLASSES
from ..cards.wording import label_of, meanings
from ..results.values import PUBLISHED_SOURCE, SETTINGS
from ..version import __version__
from .contents import TITLE, Contents
from .rendering import DATATABLES, File, Renderer, third_party

PAGE = "about.html"
BIBTEX = f"""\
@software{{ssl_zoo,
  title   = {{SSL Zoo}},
  author  = {{{{SSL Zoo contributors}}}},
  version = {{{__version__}}},
  license = {{MIT}}
}}

@inproceedings{{dubois2023evaluating,
  title     = {{Evaluating Self-Supervised Learning via Risk Decomposition}},
  author    = {{Dubois, Yann and Hashimoto, Tatsu and Liang, Percy}},
  booktitle = {{Proceedings of the 40th International Conference on Machine Learning}},
  year      = {{2023}},
  url       = {{https://arxiv.org/abs/2302.03068}}
}}"""
"""What to cite, as ``CITATION.cff`` has it."""

COMPONENTS = (
    (
        "approximation",
        "R_ΦF",
        "error of a supervised network of the same architecture (its twin) on its own training images",
        "what the architecture cannot represent",
    ),
    (
        "usability",
        "R_AF - R_ΦF",
        "R_AF: error of the linear probe on its own training images",
        "what a linear probe cannot get out of features that were learnt without labels",
    ),
    (
        "probe generalization",
        "R_AS - R_AF",
        "R_AS: error of the probe on training images that were held out from it",
        "what the probe loses because its labels are finitely many",
    ),
    (
        "encoder generalization",
        "R_US - R_AS",
        "R_US: error of the probe on the validation images",
        "what is lost because the encoder saw finitely many images",
    ),
)
"""Name, how it is computed, what the symbols are, and what it says; together they are R_US."""


def files(contents: Contents, renderer: Renderer) -> Iterator[File]:
    """The page."""
    entries = contents.entries.values()
    yield renderer.page(
        "about.html.jinja",
        PAGE,
        title="About",
        kind="about",
        contents=contents,
        n_encoders=len(entries),
        n_families=len({entry.card.family for entry in entries}),
        n_measured=sum(entry.summary is not None for entry in entries),
        n_elsewhere=sum(bool(entry.means) for entry in entries),
        n_reported=sum(bool(entry.reported) for entry in entries),
        n_wrong=sum(entry.subject.is_wrong for entry in entries),
        settings=SETTINGS,
        n_classes=N_CLASSES,
        published=PUBLISHED_SOURCE,
        components=COMPONENTS,
        software=[(*one, DATATABLES) for one in third_party()],
        bibtex=BIBTEX,
        made_with=_command(contents),
        facts=[*_facts()],
    )


def _facts() -> Iterator[tuple[str, str, str]]:
    """Part of the card, name and meaning of every fact, as pages of encoders call them."""
    for fact, meaning in meanings().items():
        part, _, name = fact.rpartition(".")
        label, unit = label_of(name)
        yield part or "card", label, f"{meaning}, in{unit}" if unit else meaning


def _command(contents: Contents) -> str:
    """The command line that makes a site of the same encoders."""
    only = "".join(f" --only {shlex.quote(pattern)}" for pattern in contents.only)
    title = "" if contents.title == TITLE else f" --title {shlex.quote(contents.title)}"
    return f"zoo site --out site{only}{title}" + " --with-mine" * contents.with_mine
