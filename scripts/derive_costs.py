"""Writes ``metadata/costs.tsv``, what every network of the zoo costs to run, or says how it differs from the cards.

    python scripts/derive_costs.py [--fresh | --check]

A row per network: encoders that share backbone, options, features and size of images share it. Each is run on tensors
without content (:func:`zoo.encoders.costs.compute_card_cost`), which takes a second whatever its size; no weights are
needed.

Networks that are in the table stay as they are, so that a run which was interrupted goes on; those of no card go away.
``--fresh`` computes all again, as after a change of a library or of the counting. ``--check`` writes nothing, computes
nothing, and exits with 1 if a network is missing or left over.

A network that cannot be built here, for a library is missing or its parts come with its weights, has a row that says
why, and is tried again next time.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import time
from dataclasses import asdict

from zoo.cards.catalogue import load_catalogue
from zoo.cards.costs import COLUMNS, compute_network_key, locate_costs_table, read_costs
from zoo.cards.schema import EncoderCard
from zoo.encoders.costs import compute_card_cost
from zoo.errors import BuildError, MissingExtra
from zoo.files import replace_file

SAVED_EVERY_S = 20.0

Row = dict[str, str]


def row_of(card: EncoderCard) -> Row:
    """The row of a card's network."""
    about = {
        "network": compute_network_key(card),
        "backbone": card.architecture.backbone,
        "layer": card.representation.layer,
        "px": str(card.preprocess.crop_px),
    }
    try:
        numbers = {name: str(value) for name, value in asdict(compute_card_cost(card)).items()}
        return dict.fromkeys(COLUMNS, "") | numbers | about
    except (BuildError, MissingExtra) as error:
        return dict.fromkeys(COLUMNS, "") | about | {"unknown": " ".join(str(error).split())}


def write(rows: dict[str, Row], encoders: dict[str, list[str]]) -> None:
    """Writes the table whole or not at all; ``encoders`` are those of each network."""
    for key, row in rows.items():
        row["encoders"] = " ".join(encoders[key])
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE, quotechar=None)
    writer.writeheader()
    writer.writerows(
        sorted(rows.values(), key=lambda row: (row["backbone"], int(row["px"]), row["layer"], row["network"]))
    )
    with replace_file(locate_costs_table()) as file:
        file.write(text.getvalue().encode())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--fresh", action="store_true", help="compute all networks again")
    how.add_argument("--check", action="store_true", help="write nothing, exit with 1 if the table is not complete")
    options = parser.parse_args(arguments)
    networks: dict[str, EncoderCard] = {}
    encoders: dict[str, list[str]] = {}
    for card in load_catalogue().values():
        networks.setdefault(compute_network_key(card), card)
        encoders.setdefault(compute_network_key(card), []).append(card.id)
    known = {} if options.fresh else read_costs(locate_costs_table())
    rows = {key: row for key, row in known.items() if key in networks and not row["unknown"]}
    if options.check:
        missing, left_over = networks.keys() - known.keys(), known.keys() - networks.keys()
        wrong = [key for key in networks.keys() & known.keys() if known[key]["encoders"] != " ".join(encoders[key])]
        print(f"{len(networks)} networks; {len(missing)} missing, {len(left_over)} left over, {len(wrong)} of others")
        return int(bool(missing or left_over or wrong))
    todo = [card for key, card in networks.items() if key not in rows]
    saved_s = time.monotonic()
    for place, card in enumerate(todo, start=1):
        row = row_of(card)
        rows[row["network"]] = row
        print(f"({place} of {len(todo)}) {card.id}: {row['unknown'] or row['gflops'] + ' GFLOPs'}", flush=True)
        if time.monotonic() - saved_s > SAVED_EVERY_S:
            write(rows, encoders)
            saved_s = time.monotonic()
    write(rows, encoders)
    without = [row for row in rows.values() if row["unknown"]]
    print(f"{len(networks)} networks of {len(load_catalogue())} encoders, {len(without)} of them without numbers")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
