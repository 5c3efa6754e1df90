"""Licences in plain words: what an id means, whether commercial use is allowed, and where its text is.

One table has every id that a card names: SPDX ids, and ``LicenseRef-NAME`` for texts that SPDX has no id for. It says
what was read in the text or on the page that releases the weights, and is no legal advice: read the text. An id that is
not in it means what its SPDX text says; whether commercial use is allowed is then "unknown".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

CommercialUse: TypeAlias = Literal["yes", "no", "conditions", "unknown"]

LICENCE_WORDS = ("any", "permissive", "commercial", "conditions")
"""What ``--licence`` takes in addition to ids of licences; several are joined by commas, and one of them is enough."""


@dataclass(frozen=True, slots=True)
class LicenceTerms:
    """One licence."""

    id: str
    commercial_use: CommercialUse  # conditions: yes, for those who do what the text asks beyond naming the authors
    summary: str
    url: str  # of its text, or of the page that names it
    at_timm: str = ""  # what timm calls it, where that is not the id in lower case


_SPDX = "https://spdx.org/licenses/{}.html"
_CC = "https://creativecommons.org/licenses/{}/legalcode"
_GITHUB = "https://github.com/{}/blob/HEAD/{}"  # HEAD: whatever the main branch is called
_FREE = "free for any use if the notice is kept"
_COPYLEFT = "free for any use; what contains it and is passed on must be under the same licence, with its source"

_TERMS = (
    LicenceTerms("MIT", "yes", _FREE, _SPDX.format("MIT")),
    LicenceTerms("ISC", "yes", _FREE, _SPDX.format("ISC")),
    LicenceTerms("BSD-2-Clause", "yes", _FREE, _SPDX.format("BSD-2-Clause")),
    LicenceTerms(
        "BSD-3-Clause", "yes", f"{_FREE}; the authors' names may not advertise for you", _SPDX.format("BSD-3-Clause")
    ),
    LicenceTerms(
        "Apache-2.0",
        "yes",
        f"{_FREE} and changes are named; grants patents, and ends for anyone who sues over them",
        _SPDX.format("Apache-2.0"),
    ),
    LicenceTerms(
        "CC0-1.0", "yes", "all rights are waived", "https://creativecommons.org/publicdomain/zero/1.0/legalcode"
    ),
    LicenceTerms("CC-BY-4.0", "yes", "free for any use if the authors and changes are named", _CC.format("by/4.0")),
    LicenceTerms(
        "CC-BY-SA-4.0",
        "conditions",
        "free for any use if the authors are named; altered copies must be under the same licence",
        _CC.format("by-sa/4.0"),
    ),
    LicenceTerms("CC-BY-NC-4.0", "no", "no commercial use; name the authors and changes", _CC.format("by-nc/4.0")),
    LicenceTerms(
        "CC-BY-NC-ND-4.0",
        "no",
        "no commercial use; altered copies may not be passed on, such as fine-tuned weights",
        _CC.format("by-nc-nd/4.0"),
    ),
    LicenceTerms(
        "CC-BY-NC-SA-4.0",
        "no",
        "no commercial use; altered copies must be under the same licence",
        _CC.format("by-nc-sa/4.0"),
    ),
    LicenceTerms(
        "ODC-By-1.0", "yes", "free for any use if the source is named", "https://opendatacommons.org/licenses/by/1-0/"
    ),
    LicenceTerms("MPL-2.0", "conditions", "free for any use; changed files stay under it", _SPDX.format("MPL-2.0")),
    LicenceTerms("GPL-3.0-only", "conditions", _COPYLEFT, _SPDX.format("GPL-3.0-only")),
    LicenceTerms("GPL-3.0-or-later", "conditions", _COPYLEFT, _SPDX.format("GPL-3.0-or-later")),
    LicenceTerms(
        "AGPL-3.0-only",
        "conditions",
        "free for any use; what contains it and is passed on or offered over a network is so too, with its source",
        _SPDX.format("AGPL-3.0-only"),
    ),
    LicenceTerms(
        "LicenseRef-apple-amlr",
        "no",
        "for research alone: no product, no service, no development of either; derived weights likewise",
        _GITHUB.format("apple/ml-mobileclip", "LICENSE_MODELS"),
        "apple-amlr",
    ),
    LicenceTerms(
        "LicenseRef-apple-ascl",
        "conditions",
        "Apple's licence of sample code: personal, no patents, nothing may be promoted with Apple's name",
        _GITHUB.format("apple/ml-aim", "LICENSE"),
        "apple-ascl",
    ),
    LicenceTerms(
        "LicenseRef-DenseCL-academic",
        "no",
        "for academic use; anything else is for its authors to allow",
        "https://github.com/WXinlong/DenseCL",
    ),
    LicenceTerms(
        "LicenseRef-DINOv3",
        "conditions",
        "commercial use too; passed on under the same terms, no military or weapons use, publications name it",
        _GITHUB.format("facebookresearch/dinov3", "LICENSE.md"),
        "dinov3-license",
    ),
    LicenceTerms(
        "LicenseRef-FAIR-Noncommercial-Research",
        "no",
        "for research that is not commercial, its outputs too; publications name it",
        _GITHUB.format("facebookresearch/EUPE", "LICENSE.md"),
        "fair-noncommercial-research-license",
    ),
    LicenceTerms(
        "LicenseRef-Franca-Research-RAIL-AMS",
        "no",
        "the weights are for research alone, because of the data they saw, though the code is Apache-2.0",
        _GITHUB.format("valeoai/Franca", "LICENSE_MODEL"),
    ),
    LicenceTerms(
        "LicenseRef-Gemma",
        "conditions",
        "commercial use too; a list of forbidden uses that must be passed on, and Google may restrict use",
        "https://ai.google.dev/gemma/terms",
        "gemma",
    ),
    LicenceTerms(
        "LicenseRef-HAI-DEF",
        "conditions",
        "commercial use too; a list of forbidden uses that must be passed on, clinical use needs its own approval",
        "https://developers.google.com/health-ai-developer-foundations/terms",
    ),
    LicenceTerms(
        "LicenseRef-Kaiko-NC",
        "no",
        "no commercial use and no patents with it; altered copies must be under the same licence",
        _GITHUB.format("kaiko-ai/towards_large_pathology_fms", "LICENSE"),
    ),
    LicenceTerms(
        "LicenseRef-Lunit-Public",
        "no",
        "no commercial use and no patents with it; may be revoked",
        _GITHUB.format("lunit-io/benchmark-ssl-pathology", "LICENSE"),
    ),
    LicenceTerms(
        "LicenseRef-NAVER-DUNE-NC",
        "no",
        "no commercial use; passed on only under the same terms",
        _GITHUB.format("naver/dune", "Project%20NLE%20DUNE%20LICENSE.txt"),
    ),
    LicenceTerms(
        "LicenseRef-NVIDIA-Open-Model",
        "conditions",
        "commercial use too; passed on with the licence and a notice, and ends for anyone who sues over it",
        "https://www.nvidia.com/en-us/agreements/enterprise-software/nvidia-open-model-license/",
        "nvidia-open-model-license",
    ),
    LicenceTerms(
        "LicenseRef-NVIDIA-Source-Code-RADIO",
        "no",
        "for research and evaluation alone, derived weights likewise",
        _GITHUB.format("NVlabs/RADIO", "LICENSE"),
    ),
    LicenceTerms(
        "LicenseRef-Owkin-NC",
        "no",
        "for research in organisations that make no profit; altered copies must be under the same licence",
        _GITHUB.format("owkin/HistoSSLscaling", "LICENSE.txt"),
    ),
    LicenceTerms(
        "LicenseRef-Qwen-Community-1.0",
        "conditions",
        "Qwen's own terms, which its page on the Hub names; their text was not read",
        "https://huggingface.co/Qwen",
        "qwen-community-1.0",
    ),
    LicenceTerms(
        "LicenseRef-SAM",
        "conditions",
        "commercial use too; passed on under the same terms, no military or weapons use, publications name it",
        _GITHUB.format("facebookresearch/sam3", "LICENSE"),
    ),
    LicenceTerms(
        "LicenseRef-Sapiens2",
        "conditions",
        "commercial use too; passed on under the same terms, no surveillance, biometry, military or weapons use",
        _GITHUB.format("facebookresearch/sapiens2", "LICENSE.md"),
        "sapiens2-license",
    ),
    LicenceTerms(
        "LicenseRef-SEER",
        "no",
        "for research alone: no commercial or production use, no surveillance, no biometry; may be revoked",
        _GITHUB.format("facebookresearch/vissl", "projects/SEER/MODEL_LICENSE.md"),
        "seer-license",
    ),
    LicenceTerms(
        "LicenseRef-Theia-NC",
        "no",
        "for research that is not commercial, also by companies",
        _GITHUB.format("bdaiinstitute/theia", "LICENSE"),
    ),
)

LICENCES: dict[str, LicenceTerms] = {terms.id: terms for terms in _TERMS}
PERMISSIVE = ("MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause")
_BY_LABEL = {(terms.at_timm or terms.id).casefold(): terms.id for terms in _TERMS}
FREEDOM: tuple[CommercialUse, ...] = ("no", "unknown", "conditions", "yes")  # the strictest first
_JOINS = {" OR ": max, " AND ": min}  # the loosest first; of two to choose from the better one counts


def shorten_licence(licence: str) -> str:
    """A licence as a table names it: without the prefix of texts that SPDX has no id for.

    >>> shorten_licence("LicenseRef-DINOv3"), shorten_licence("MIT")
    ('DINOv3', 'MIT')
    """
    return licence.removeprefix("LicenseRef-")


def get_commercial_use(licence: str) -> CommercialUse:
    """Whether a licence allows commercial use, from the table; of an SPDX expression, what all of it together allows.

    >>> [get_commercial_use(licence) for licence in ("MIT", "CC-BY-NC-4.0 OR GPL-3.0-only", "LicenseRef-Mine")]
    ['yes', 'conditions', 'unknown']
    """
    terms = LICENCES.get(licence)
    return terms.commercial_use if terms else FREEDOM[_freedom(licence)]


def _freedom(expression: str) -> int:
    """Index into :data:`FREEDOM`; what parentheses hold is replaced by its index, which then stands for itself."""
    while (inner := re.search(r"\(([^()]*)\)", expression)) is not None:
        expression = expression.replace(inner[0], str(_freedom(inner[1])))
    for join, choose in _JOINS.items():
        if join in expression:
            return choose(_freedom(part) for part in expression.split(join))
    name = expression.partition(" WITH ")[0].strip()
    if name.isdigit():
        return int(name)
    return FREEDOM.index(LICENCES[name].commercial_use if name in LICENCES else "unknown")


def parse_licence_ids(expression: str) -> Iterator[str]:
    """The ids in an SPDX expression, without exceptions.

    >>> list(parse_licence_ids("(MIT OR Apache-2.0) AND GPL-3.0-only WITH GCC-exception-3.1"))
    ['MIT', 'Apache-2.0', 'GPL-3.0-only']
    """
    words = expression.replace("(", " ").replace(")", " ").split()
    for before, word in zip(["", *words], words, strict=False):
        if word not in ("OR", "AND", "WITH") and before != "WITH":
            yield word


def resolve_licence_label(label: str) -> str:
    """The id of a label as timm or the Hub write it; the label itself if it is of no licence in the table.

    >>> resolve_licence_label("apache-2.0"), resolve_licence_label("apple-ascl"), resolve_licence_label("a wish")
    ('Apache-2.0', 'LicenseRef-apple-ascl', 'a wish')
    """
    return _BY_LABEL.get(label.casefold(), label)


def describe_licence(licence: str) -> str:
    """A licence in a line: its summary, or that there is none in the table."""
    if licence in LICENCES:
        return LICENCES[licence].summary
    known = [LICENCES[name].summary for name in parse_licence_ids(licence) if name in LICENCES]
    return "; ".join(known) or "not one that the zoo knows: read its text"


def find_licence_text(licence: str) -> str:
    """Where the text of a licence is; "" if that is not known."""
    return LICENCES[licence].url if licence in LICENCES else ""


def describe_commercial_use(use: CommercialUse) -> str:
    """Whether commercial use is allowed, to follow a colon."""
    return {"conditions": "under conditions", "unknown": "unknown, ask its authors"}.get(use, use)
