"""The table of blocks, and names of the means of their maps."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo.cards.blocks import COLUMNS, Stages, read_blocks, stages_of_card
from zoo.cards.catalogue import catalogue
from zoo.cards.representations import Staged, network_of, transformer
from zoo.encoders.taps import stages_of
from zoo.errors import ContentError


@pytest.mark.parametrize(
    "name",
    ["pocket_simclr_rn_shapes", "sup_rn50", "dissl_resnet50_d4096_e100_m2", "sup_efficientnet_lite0", "dinov2_vitB14"],
)
def test_the_table_has_the_blocks_of_the_network(name: str) -> None:
    card = catalogue()[name]
    if stages_of_card(card) is None:
        assert transformer(card) is not None and transformer(card).n_blocks == 12  # type: ignore[union-attr]
    else:
        assert stages_of_card(card) == stages_of(card)


def test_widths_and_labels_follow_the_stages() -> None:
    stages = stages_of_card(catalogue()["sup_rn50"])
    assert stages is not None and stages.pools_last
    assert [len(stage) for stage in stages.widths] == [3, 4, 6, 3]
    assert [stages.label(block) for block in (0, 2, 3, 15)] == ["1.1", "1.3", "2.1", "4.3"]
    with pytest.raises(IndexError):
        stages.label(16)


def test_names_of_blocks_are_one_whatever_their_spelling() -> None:
    zoo = catalogue()
    assert zoo.id_of("SUP_RN50@2xAVG") == zoo.id_of("sup_rn50@avg:-2+-1") == "sup_rn50@avg:14+15"
    assert zoo.id_of("sup_rn50@avg") == zoo.id_of("sup_rn50@avg:15") == "sup_rn50"
    assert zoo["sup_rn50@avg:14+3"].representation.dim == 2048 + 512
    assert zoo.id_of("sup_efficientnet_lite0@avg") == "sup_efficientnet_lite0@avg"  # its card has one more convolution


def test_every_network_of_a_card_is_either_known_or_has_no_blocks_to_read() -> None:
    unknown = sorted({card.architecture.backbone for card in catalogue().values() if network_of(card) is None})
    assert all(one.startswith(("zoo:alexnet", "zoo:swinv2_of_torchvision", "timm:")) for one in unknown)
    assert len(unknown) < 12
    staged = [card for card in catalogue().values() if isinstance(network_of(card), Staged)]
    assert len(staged) > 300


def test_a_table_reads_as_it_is_written(tmp_path: Path) -> None:
    stages = Stages(((64, 64), (64, 128, 128)), False)
    path = tmp_path / "blocks.tsv"
    path.write_text("\t".join(COLUMNS) + f'\nzoo:a\t{{"depth": 2}}\tno\t{stages.as_text()}\n', encoding="utf-8")
    assert read_blocks(path) == {("zoo:a", '{"depth": 2}'): stages}


@pytest.mark.parametrize("text", ["backbone\tdepth\nzoo:a\t3\n", "\t".join(COLUMNS) + "\nzoo:a\t{}\tyes\t64by2\n"])
def test_a_damaged_table_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "blocks.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ContentError, match=r"blocks\.tsv cannot be read .*; restore it"):
        read_blocks(path)
