"""Writes ``metadata/blocks.tsv``: the blocks of every network of a card whose name does not say how many it has.

python scripts/derive_blocks.py            # writes the table
python scripts/derive_blocks.py --check    # says what differs from the installed timm and torchvision
"""

from __future__ import annotations

import argparse
import sys

from zoo.cards.blocks import COLUMNS, TABLE, format_options, read_blocks
from zoo.cards.catalogue import load_catalogue
from zoo.cards.representations import Transformer, infer_transformer
from zoo.encoders.intermediate_features import detect_stages
from zoo.files import get_content_folder, replace_file


def is_known(network: Transformer | None) -> bool:
    """True if name and options of the backbone say how many blocks it has."""
    return network is not None and network.n_blocks is not None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the table is another")
    arguments = parser.parse_args()
    path, found = get_content_folder("metadata") / TABLE, {}
    before = read_blocks(path)
    for card in load_catalogue().values():
        key = card.architecture.backbone, format_options(card.architecture.options)
        if key in found or (is_known(infer_transformer(card)) and key not in before):  # others' depths are of the table
            continue
        found[key] = stages = detect_stages(card)
        print(*key, "not readable" if stages is None else stages.as_text(), file=sys.stderr)
    known = {key: stages for key, stages in sorted(found.items()) if stages is not None}
    if arguments.check:
        different = {
            key for key in known.keys() | read_blocks(path).keys() if known.get(key) != read_blocks(path).get(key)
        }
        print(*sorted(different), sep="\n")
        return int(bool(different))
    lines = ["\t".join(COLUMNS)]
    for (backbone, options), stages in known.items():
        lines.append("\t".join((backbone, options, "yes" if stages.pools_last else "no", stages.as_text())))
    with replace_file(path) as file:
        file.write(("\n".join(lines) + "\n").encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
