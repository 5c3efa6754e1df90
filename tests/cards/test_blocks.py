"""The table of blocks, and names of the means of their maps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.each import for_each
from zoo.cards.blocks import COLUMNS, Stages, find_stages, read_blocks
from zoo.cards.catalogue import load_catalogue
from zoo.cards.representations import HierarchicalNetwork, infer_network
from zoo.errors import ContentError


@for_each(["pocket_simclr_rn_shapes", "sup_rn50", "dissl_resnet50_d4096_e100_m2", "sup_efficientnet_lite0"])
def test_the_table_has_the_blocks_of_the_network(name: str) -> None:
    from zoo.encoders.intermediate_features import detect_stages

    card = load_catalogue()[name]
    assert find_stages(card) == detect_stages(card)


def test_every_network_of_a_card_is_either_known_or_has_no_blocks_to_read() -> None:
    unknown = sorted({card.architecture.backbone for card in load_catalogue().values() if infer_network(card) is None})
    others = ("zoo:alexnet", "zoo:swinv2_of_torchvision", "transformers:sam3_vit_model", "timm:")
    assert all(one.startswith(others) for one in unknown)
    assert len(unknown) < 12
    staged = [card for card in load_catalogue().values() if isinstance(infer_network(card), HierarchicalNetwork)]
    assert len(staged) > 300


def test_a_table_reads_as_it_is_written(tmp_path: Path) -> None:
    stages = Stages(((64, 64), (64, 128, 128)), False)
    path = tmp_path / "blocks.tsv"
    path.write_text("\t".join(COLUMNS) + f'\nzoo:a\t{{"depth": 2}}\tno\t{stages.as_text()}\n', encoding="utf-8")
    assert read_blocks(path) == {("zoo:a", '{"depth": 2}'): stages}


@for_each(["backbone\tdepth\nzoo:a\t3\n", "\t".join(COLUMNS) + "\nzoo:a\t{}\tyes\t64by2\n"])
def test_a_damaged_table_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "blocks.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ContentError, match=r"blocks\.tsv cannot be read .*; restore it"):
        read_blocks(path)
