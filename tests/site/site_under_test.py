"""The site that the tests of pages look at: encoders of every kind, and a user whose cards try to break out of it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.card_text import VALID
from tests.result_rows import ERRATUM, ROW, user_of
from zoo.errors import ContentWarning
from zoo.site.contents import Contents, gather

ONLY = (
    "dino_vitS16", "dino_vitS16_last", "dino_vitB16", "dino_rn50", "barlow_rn50", "byol_rn50_bs64", "byol_rn50_augCrop",
    "swav_rn50", "simclr_rn50", "mae_vitB16", "beit_vitB16_pt22k", "clip_rn50", "clip_vitB16", "densecl_rn50_200ep*",
    "jigsaw_rn50", "sup_rn50", "sup_vitB16_dino", "init_rn50", "init_vitS16",  # of the study, one of each mode
    "deepcluster_rn50_bs512_ep200_mmselfsup",  # whose measurements an erratum excludes
    "pocket_simclr_rn_shapes", "pocket_dino_vit_shapes", "pocket_sup_rn_digits", "pocket_init_rn",
    "sup_efficientnet_lite0",
    "uni_vitL16", "hibou_vitL14", "npidpp_rn50w2",  # gated, not recorded, gone
    "aim_1B14_dfn2b", "dinov2_vitS14", "dinov2_vitg14_reg4", "capi_vitL14_in1k", "cradio_v3_vitB16",  # reported only
    "beit3_vitB16", "semisl_rn50_yfcc100m_ft1k", "barlow_rn50_official",  # neither measured nor reported
    "hostile*", "dino_vitS16@*",
)  # fmt: skip
"""Patterns of the encoders of the test site."""

SCRIPT = "<script>alert('a')</script>"
HANDLER = '" onmouseover="alert(2)" x="'
TEMPLATE = "{{ 7 * 7 }}{% raw %}"
LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 3
SCRIPTS_OF_PEOPLE = "自己教師あり学習 التعلّم الذاتي самообучение 🦁 e\u0301"
END_OF_SCRIPT = "</script><img src=x onerror=alert(3)>\u2028&amp;<!--"

HOSTILE = f'''
[encoders.hostile_script]
like = "tiny_vitS16"
weights.url = "https://example.org/script.pth?a=1&b=<2>"
objective.name = """{SCRIPT}"""
objective.variant = """{END_OF_SCRIPT}"""
architecture.exact = """{HANDLER}"""
pretraining.dataset = "a & b < c > d"
paper.title = """{SCRIPT}{TEMPLATE}"""
paper.url = "javascript:alert(4)"
paper.bibtex_key = """}}{SCRIPT}"""
provenance.url = "javascript:alert(5)"
weights.note = """{END_OF_SCRIPT}"""
licence = {{ weights = "Apache-2.0", published = """{HANDLER}""" }}

[[encoders.hostile_script.errata]]
field = "weights"
published = """{SCRIPT}"""
reason = """{END_OF_SCRIPT} {TEMPLATE}"""

[encoders.hostile_{"long" * 30}]
like = "tiny_vitS16"
weights.url = "https://example.org/{"long" * 60}.pth"
objective.name = "{LONG}"
architecture.exact = "{LONG}"
pretraining.dataset = "{LONG}"
weights.note = "{LONG} {LONG}"
paper.title = "{LONG}"
paper.url = "https://example.org/{"very/" * 60}"

[encoders.hostile_people]
like = "tiny_vitS16"
weights.url = "https://example.org/自己.pth"
objective.name = "{SCRIPTS_OF_PEOPLE}"
objective.mode = "generative"
architecture.exact = "{SCRIPTS_OF_PEOPLE}"
pretraining.dataset = "=cmd|' /C calc'!A0"
paper.title = "{SCRIPTS_OF_PEOPLE}"
weights.note = "{SCRIPTS_OF_PEOPLE}"
'''
"""Cards of the user's: every text that a card leaves free holds markup, or is as long or as foreign as it may be."""

MINE = ("hostile_script", "hostile_" + "long" * 30, "hostile_people")
_ERRORS = {
    "train -> val": ("1281167", 24.5),
    "train 30-shot -> val": ("30000", 36),
    "train 1% -> val": ("12811", 40),
    "train 5-shot -> val": ("5000", 46),
    "train 3-shot -> val": ("3000", 51),
    "train -> train": ("1281167", 12),
    "train minus subset -> subset": ("1231167", 22),
}


@cache
def contents() -> Contents:
    """The contents of a site of all shipped encoders."""
    return gather()


def rows_of_user() -> Iterator[dict[str, str]]:
    """All risks of an own encoder by a protocol that is markup, and a metric of other features of a shipped one."""
    blank = {"ci_low": "", "ci_high": "", "protocol": f"mine {SCRIPT}", "source": f"me {HANDLER}"}
    for number, encoder in enumerate(MINE[:2]):
        for split, (n_train, error) in _ERRORS.items():
            yield {**blank, "encoder": encoder, "split": split, "n_train": n_train, "value": str(error + number)}
        twin = {"metric": "supervised_twin_error", "split": "train -> train", "n_train": "1281167", "value": "1.5"}
        yield {**blank, "encoder": encoder, **twin}
    elsewhere = {"dataset": END_OF_SCRIPT, "n_train": "", "value": "33.25", "source": "me"}
    yield {**blank, **elsewhere, "encoder": "hostile_people"}
    yield {**blank, **elsewhere, "encoder": "dino_vitS16@cls:9+10"}
    yield {**ROW, "encoder": "dino_vitS16", "protocol": "mine"}


@contextmanager
def user(home: Path) -> Iterator[None]:
    """Makes ``home`` the folder of a user with those cards and rows, until the block ends."""
    with pytest.MonkeyPatch.context() as patch:
        add_rows = user_of(home, patch)
        (home / "metadata").mkdir()
        (home / "metadata" / "hostile.toml").write_text(VALID + HOSTILE)
        add_rows(*rows_of_user())
        (home / "results" / "errata.toml").write_text(
            ERRATUM.replace("dino_vits16", "swav_rn50").replace("after lunch", SCRIPT)
        )
        yield


def write(folder: Path, *, only: tuple[str, ...] = ONLY, with_mine: bool = True) -> None:
    """Writes a site of these encoders into ``folder``."""
    from zoo.site import site_files

    with warnings.catch_warnings():
        warnings.simplefilter("error", ContentWarning)  # a card that is left out tests nothing
        contents = gather(only=only, with_mine=with_mine, title=f"A zoo {SCRIPT}")
        files = list(site_files(replace(contents, with_studies=False)))  # each of which takes seconds
    for file in files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
