"""Downloads killed (SIGKILL) at random moments, and what the next process makes of what they left.

    python tests/stress/fetch_kills.py [--kills 100] [--seed 0]

Every round starts a process that downloads a file of 6 MB from a throttled server on loopback, kills it, and lets a
second process end the download. Four of five moments lie between the first byte and the last; the others lie up to
30 ms after the last, where the file is hashed, synchronised and published. Nothing but the server's log says what was
sent twice. Expected: every second process ends with the right file, and no round sends more than one chunk of 1 MiB
again; the command exits with 1 otherwise.

Measured on 2026-11-20 with Python 3.11.7 on two busy cores: 100 of 100 right; of the 80 killed in the body the median
sent 49,152 bytes again and the worst 98,304, of the 20 killed after it none sent any.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.servers import Fault, serving
from tests.weights.test_download_faults import killed_then_whole

_SIZE_BYTES = 6_000_000
_CHUNK_BYTES = 1 << 20
_PIECE_BYTES = 16_384  # small, as is the connection's buffer, so that hardly anything is on its way when a kill comes


def main() -> int:
    """Kills, counts and prints one table."""
    parser = argparse.ArgumentParser(description="Kill downloads at random moments and let others end them.")
    parser.add_argument("--kills", type=int, default=100, help="how many [100]")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and of the file [0]")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    body = chance.randbytes(_SIZE_BYTES)
    whole = sha256(body).hexdigest()
    right = 0
    again: dict[str, list[int]] = {"in the body": [], "after the body": []}
    with serving({"/weights.pth": body}, send_buffer_bytes=_PIECE_BYTES) as server:
        server.always("/weights.pth", Fault(piece_bytes=_PIECE_BYTES, pause_s=0.0005))
        for number in range(options.kills):
            is_late = number % 5 == 4
            at_byte = _SIZE_BYTES if is_late else chance.randrange(_SIZE_BYTES)
            later_s = chance.uniform(0, 0.03 if is_late else 0.003)
            with tempfile.TemporaryDirectory() as folder:
                said, sent_again = killed_then_whole(
                    server, "/weights.pth", Path(folder), at_byte=at_byte, later_s=later_s
                )
                published = [path.name.rpartition("-")[2] for path in Path(folder, "downloads").iterdir()]
                left = list(Path(folder, "partial").glob("*.part"))
            is_right = said == whole and published == [whole] and not left
            right += is_right
            again["after the body" if is_late else "in the body"].append(sent_again)
            if not is_right or sent_again > _CHUNK_BYTES:
                print(
                    f"round {number}, killed {later_s * 1e3:.1f} ms after byte {at_byte}: {said}, {sent_again}, {left}"
                )
    print(f"{right} of {options.kills} downloads ended with the right file, and nothing else was left")
    print(f"{'killed':16}{'rounds':>8}{'bytes sent again: median':>28}{'most':>12}")
    for moment, counts in again.items():
        if counts:
            print(f"{moment:16}{len(counts):8}{statistics.median(counts):28.0f}{max(counts):12}")
    most = max(count for counts in again.values() for count in counts)
    return 0 if right == options.kills and most <= _CHUNK_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
