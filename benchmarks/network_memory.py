"""Memory of forward passes on a CPU: what the table counts, what tensors take, and what the process takes.

    python benchmarks/network_memory.py [--encoders pocket_init_vit sup_rn50 ...] [--batch-size 16]

For each encoder, with random weights, in a process of its own:

* ``counted``: the most activations alive at once by ``metadata/costs.tsv``, for the batch;
* ``followed``: the same of a real run, from the storages of its tensors; equal to the last few kilobytes;
* ``process``: by how much the resident memory of the process grew at most over a pass, after one of one image that
  loads the libraries. Allocators keep and round, and kernels take workspaces for a while, so that this is more or less
  a little; ``zoo.cards.costs.CPU_MARGIN`` is for that.

Columns are megabytes, and the ratio of ``process`` to ``counted``. Ends with 1 if ``followed`` is away from ``counted``
by more than 0.1 percent.

On two cores with one thread, batches of 16, ratios in the order of ``ENCODERS``: 1.63, 1.50, 1.17, 1.43 and 1.77.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from zoo.cards.catalogue import load_catalogue
from zoo.cards.costs import find_cost

ENCODERS = ("sup_efficientnet_lite0", "sup_rn50", "dino_vitS16", "mae_vitB16", "clip_rn50")


def measured(name: str, batch_size: int) -> dict[str, float]:
    """Bytes of one encoder in this process."""
    import torch

    from zoo.encoders import build_encoder
    from zoo.encoders.costs import track_memory

    torch.set_num_threads(1)
    card = load_catalogue()[name]
    encoder, px = build_encoder(card, device="cpu"), card.preprocess.crop_px
    with torch.no_grad():
        encoder(torch.zeros(1, 3, px, px))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    images = torch.ones(batch_size, 3, px, px)
    with torch.no_grad():
        encoder(images)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    cost = find_cost(card)
    assert cost is not None
    counted = cost.fixed_bytes + batch_size * cost.activation_bytes
    return {"counted": counted, "followed": track_memory(encoder, images).peak_bytes, "process": grown}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoders", nargs="+", default=ENCODERS)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(measured(options.one, options.batch_size)))
        return 0
    print(f"{'encoder':28} {'counted':>9} {'followed':>9} {'process':>9} {'ratio':>6}")
    is_wrong = False
    for name in options.encoders:
        command = [sys.executable, __file__, "--one", name, "--batch-size", str(options.batch_size)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        cells = " ".join(f"{found[key] / 1e6:9.1f}" for key in ("counted", "followed", "process"))
        print(f"{name:28} {cells} {found['process'] / found['counted']:6.2f}", flush=True)
        is_wrong |= abs(found["followed"] / found["counted"] - 1) > 1e-3
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
