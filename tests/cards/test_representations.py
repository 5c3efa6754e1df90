"""Names of other features of an encoder: what they mean, that two spellings are one, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoo
from tests.each import for_each
from tests.result_rows import ERRATUM, user_of
from zoo.cards.catalogue import get_base_card, load_catalogue
from zoo.cards.representations import derive_card, get_base_id, infer_transformer, list_representations
from zoo.cards.schema import NOT_PUBLISHED
from zoo.errors import QueryError
from zoo.results.derived import summaries
from zoo.results.rows import errata, measurements

DINO = load_catalogue()["dino_vitS16"]
BOTH = load_catalogue()["clip_vitL14_px336_extractPredCls"]


@for_each(
    [
        ("dino_vitS16@cls", "dino_vitS16@cls", 384),
        ("DINO_VITS16@ CLS ", "dino_vitS16@cls", 384),
        ("dino_vitS16@cls:-1", "dino_vitS16@cls", 384),
        ("dino_vitS16@cls:9+10+11", "dino_vitS16@cls:9+10+11", 1152),
        ("dino_vitS16@cls:11+9+10", "dino_vitS16@cls:9+10+11", 1152),
        ("dino_vitS16@3xCLS", "dino_vitS16@cls:9+10+11", 1152),
        ("dino_vitS16@avg:0", "dino_vitS16@avg:0", 384),
        ("dino_vitS16@avg+cls", "dino_vitS16@cls+avg", 768),
        ("dino_vitS16@2xcls+avg", "dino_vitS16@cls+avg:10+11", 1536),
        ("dino_vitS16@4xcls", "dino_vitS16", 1536),
        ("dino_vitS16@cls:8+9+10+11", "dino_vitS16", 1536),
        ("dino_vitB16@cls:8+9+10+11", "dino_vitB16@4xcls", 3072),
        ("dino_vitB16@avg+cls", "dino_vitB16", 1536),
        ("mae_vitH14@cls:31", "mae_vitH14", 1280),
        ("simclr_rn50@avgpool", "simclr_rn50", 2048),
        ("lossyless_vitb32_b01@pred", "lossyless_vitb32_b01", 512),
        ("lossyless_vitb32_b01@proj", "lossyless_vitb32_b01@proj", 512),
        ("clip_vitL14_px336_extractPredCls@cls+proj", "clip_vitL14_px336_extractPredCls", 1792),
        ("clip_vitL14_px336_extractPredCls@proj:23", "clip_vitL14_px336_extractPredCls@proj", 768),
    ],
    arguments=3,
)
def test_many_spellings_are_one_name(spelling: str, name: str, dim: int) -> None:
    cards = load_catalogue()
    assert cards.id_of(spelling) == name
    assert (cards[spelling].id, cards[spelling].representation.dim) == (name, dim)
    assert cards.id_of(name) == name
    assert cards[name] == cards[spelling]
    assert spelling in cards


@for_each(zoo.list_encoders())
def test_every_offered_name_is_known_and_leads_back(encoder: str) -> None:
    cards = load_catalogue()
    card = cards[encoder]
    offered = list_representations(card)
    assert next(iter(offered.items())) == (encoder, card.representation)
    for name, how in offered.items():
        found = cards[name]
        assert found.representation == how
        assert cards[name.upper()].id == found.id == name
        assert get_base_id(name) == encoder
    assert get_base_card(found) is card  # found by own_id, after a look at every card file
    assert len(offered) == 1 or infer_transformer(card) is not None
    network = infer_transformer(card)
    assert (len(offered) > 1) == (network is not None and network.words != [card.representation.layer])


@for_each(
    [
        ("cls", None, "dino_vitS16@cls"),
        ("cls", [9, 10, 11], "dino_vitS16@cls:9+10+11"),
        ("cls", (-1, 0), "dino_vitS16@cls:0+11"),
        ("cls", range(8, 12), "dino_vitS16"),
        ("cls", 4, "dino_vitS16"),
        ("cls", np.arange(3), "dino_vitS16@cls:0+1+2"),
        ("Avg", 2, "dino_vitS16@avg:10+11"),
        ("4xcls", None, "dino_vitS16"),
    ],
    arguments=3,
)
def test_arguments_say_what_a_name_says(features: str, layers: Any, name: str) -> None:
    assert derive_card(DINO, features=features, layers=layers) == load_catalogue()[name]


def test_other_features_change_the_facts_about_the_features_alone() -> None:
    card = load_catalogue()["dino_vitS16@cls+avg:3+4"]
    assert card.architecture.exact == "vits16 cls+avg:3+4"
    assert card.representation.order == "concatenated"
    assert card.weights.same_file_as == "dino_vitS16"
    assert card.reported.top1_percent is NOT_PUBLISHED
    assert card.provenance.extracted is True
    assert (
        replace(
            card,
            id=DINO.id,
            architecture=DINO.architecture,
            representation=DINO.representation,
            weights=replace(card.weights, same_file_as=DINO.weights.same_file_as),
            reported=DINO.reported,
            provenance=DINO.provenance,
            errata=DINO.errata,
        )
        == DINO
    )
    assert (card.architecture.n_parameters, card.weights.url) == (DINO.architecture.n_parameters, DINO.weights.url)


@for_each(
    [
        ("dino_vitS16", "foo", None, r"no features 'foo' of 'dino_vitS16', .* cls, avg and cls\+avg of its blocks 0 "),
        ("dino_vitS16", "cls+cls", None, r"no features 'cls\+cls'"),
        ("dino_vitS16", "avgpool", None, "no features 'avgpool'.* offers cls"),
        ("dino_vitS16", "proj", None, "no features 'proj' of 'dino_vitS16'"),
        ("dino_vitS16", "cls", [12], "no block 12 of 'dino_vitS16'.*blocks 0 to 11"),
        ("dino_vitS16", "cls", 13, "no last 13 blocks"),
        ("dino_vitS16", "cls", [3, 3], "block 3 of 'dino_vitS16' twice"),
        ("dino_vitS16", "cls", [], r"layers=\[\].* whole numbers of blocks from 0 to 11"),
        ("dino_vitS16", "cls", [1.0], r"layers=\[1\.0\]"),
        ("dino_vitS16", "cls", "11", "layers='11'"),
        ("dino_vitS16", "cls", True, "layers=True"),
        ("dino_vitS16", "4xcls", [1], "in features='4xcls' and again"),
        ("dino_vitS16", "3xcls:9", None, "in features='3xcls:9' and again"),
        ("dino_vitS16", None, [1], "layers of 'dino_vitS16' and no features"),
        ("clip_vitL14_px336_extractPred", "proj", [3], "no projection of blocks 3 .*proj and proj.cls of the last"),
        ("simclr_rn50", "cls", None, "no features 'cls' of 'simclr_rn50', .* offers avg of its blocks 0 to 15"),
        ("simclr_rn50", "avg", [16], "no block 16 of 'simclr_rn50'"),
        ("clip_rn50", "proj", None, "gives 'attnpool' by itself and offers avg of its blocks"),
        ("jigsaw_alexnet", "cls", None, "no features 'cls' of 'jigsaw_alexnet', .* gives 'pooled' alone"),
    ],
    arguments=4,
)
def test_what_is_not_there_is_refused_in_one_sentence(encoder: str, features: Any, layers: Any, reason: str) -> None:
    with pytest.raises(QueryError, match=reason) as caught:
        derive_card(load_catalogue()[encoder], features=features, layers=layers)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".") and encoder in message


def test_features_of_features_are_refused() -> None:
    with pytest.raises(QueryError, match=r"'dino_vitS16@cls' says already .* others of 'dino_vitS16'"):
        derive_card(load_catalogue()["dino_vitS16@cls"], features="avg")
    with pytest.raises(QueryError, match="says already"):
        zoo.load("dino_vitS16@cls", features="avg", device="meta")


def test_other_features_are_counted_and_listed_nowhere() -> None:
    before = list(load_catalogue())
    load_catalogue()["dino_vitS16@cls"]
    assert list(load_catalogue()) == before == zoo.list_encoders()
    assert not any("@" in name for name in before)
    assert not any("@" in name for name in zoo.metadata_df().index)


def test_rows_of_other_features_are_read_under_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_rows = user_of(tmp_path, monkeypatch)
    add_rows({"encoder": "Dino_vits16@2xcls"}, {"encoder": "dino_vitS16@cls:10+11", "seed": "1", "value": "24.3"})
    (tmp_path / "results" / "errata.toml").write_text(ERRATUM)
    mine = [row for row in measurements(exclude_wrong=True) if row.source == "me"]
    assert [(row.encoder, row.value) for row in mine] == [
        ("dino_vitS16@cls:10+11", 24.5),
        ("dino_vitS16@cls:10+11", 24.3),
    ]
    assert measurements(encoders="dino_vitS16@cls:11+10", metrics="linear_probe_error") == mine
    assert {erratum.encoder for erratum in errata() if erratum.reason.endswith("lunch.")} == {"dino_vitS16"}
    found = summaries()["dino_vitS16@cls:10+11"]
    assert found.errors == {"100%": pytest.approx(24.4)}
    assert found.errata == ()
