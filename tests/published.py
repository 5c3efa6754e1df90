"""The cards of the 204 published and of the toy encoders: for tests of networks and files, which take long."""

from __future__ import annotations

from tests.conftest import REPOSITORY
from zoo.cards.catalogue import load_catalogue

ENTRY_POINTS_WITHOUT_PUBLISHED_FACTS = {
    "init_rn50_d8192",
    "npidpp_rn50w2",
    "selav2_rn50_ep400_2x160_4x96",
    "swav_rn50w5",
}
TABLE = [line for line in (REPOSITORY / "metadata" / "published.txt").read_text().splitlines() if line[0] != "#"]
PUBLISHED = [load_catalogue()[encoder] for encoder in (*TABLE, *sorted(ENTRY_POINTS_WITHOUT_PUBLISHED_FACTS))]
POCKET = [card for card in load_catalogue().values() if card.family == "pocket"]
EARLY = [*PUBLISHED, *POCKET]
