"""Blocks of networks whose names do not say them: how many there are in each stage, and their channels.

``metadata/blocks.tsv`` has a row per network, by backbone and options; ``scripts/derive_blocks.py`` writes it with
:func:`zoo.encoders.intermediate_features.detect_stages`, which looks at the network itself. Nothing here imports torch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..errors import ContentError
from ..files import get_content_folder
from .schema import EncoderCard

TABLE = "blocks.tsv"
COLUMNS = ("backbone", "options", "pools_last", "stages")


@dataclass(frozen=True, slots=True)
class Stages:
    """The blocks of a network, stage by stage."""

    widths: tuple[tuple[int, ...], ...]  # channels of each block's map, of each stage
    pools_last: bool  # what the network pools is the mean of the last block's map

    @property
    def of_blocks(self) -> tuple[int, ...]:
        """Channels of every block, the first first."""
        return tuple(width for stage in self.widths for width in stage)

    def label(self, block: int) -> str:
        """Stage and block in it, both counted from 1.

        >>> Stages(((64, 64), (128, 128)), True).label(2)
        '2.1'
        """
        for number, stage in enumerate(self.widths, start=1):
            if block < len(stage):
                return f"{number}.{block + 1}"
            block -= len(stage)
        raise IndexError(f"no block {block} beyond the last")

    def as_text(self) -> str:
        """For the table: blocks of one width together, stages apart.

        >>> Stages(((64, 64), (64, 128, 128)), True).as_text()
        '64*2 64*1,128*2'
        """
        return " ".join(",".join(f"{width}*{n}" for width, n in _runs(stage)) for stage in self.widths)


def find_stages(card: EncoderCard) -> Stages | None:
    """The blocks of a card's network; None for one that is not in the table, as most transformers are not."""
    return _table().get((card.architecture.backbone, format_options(card.architecture.options)))


def format_options(options: dict[str, object]) -> str:
    """Options of a backbone as the table writes them."""
    return json.dumps(options, sort_keys=True, default=str)


def read_blocks(path: Path) -> dict[tuple[str, str], Stages]:
    """Rows of such a table, by backbone and options; ContentError if it is damaged."""
    try:
        head, *rows = (line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line)
        if tuple(head) != COLUMNS:
            raise ValueError(f"it has the columns {', '.join(head)}, expected {', '.join(COLUMNS)}")
        return {(backbone, options): _stages(stages, pools) for backbone, options, pools, stages in rows}
    except (OSError, ValueError) as error:
        raise ContentError(f"The table {path} cannot be read ({error}); restore it.") from error


@cache
def _table() -> dict[tuple[str, str], Stages]:
    return read_blocks(get_content_folder("metadata") / TABLE)


def _stages(text: str, pools_last: str) -> Stages:
    if pools_last not in ("yes", "no"):
        raise ValueError(f"pools_last is {pools_last!r}, expected yes or no")
    widths = []
    for stage in text.split(" "):
        runs = [tuple(map(int, run.split("*"))) for run in stage.split(",")]
        widths.append(tuple(width for width, n in runs for _ in range(n)))
    return Stages(tuple(widths), pools_last == "yes")


def _runs(stage: tuple[int, ...]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for width in stage:
        if runs and runs[-1][0] == width:
            runs[-1] = (width, runs[-1][1] + 1)
        else:
            runs.append((width, 1))
    return runs
