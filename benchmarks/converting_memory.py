"""How much memory it takes to convert a checkpoint and to load what was converted, in addition to the network's own
size.

    python benchmarks/converting_memory.py [--encoder openclip_vitG14] [--depth 6] [--kind float32 ...] [--folder DIR]

For each kind of file: a checkpoint is written to ``--folder`` (random numbers) with a card that names it, a process of
its own does what ``zoo get`` does (the cache empty; the features of four images are recorded), another one loads what
is in the cache. Both first import all that they need and load a small encoder. What is given, in units of the network's
parameters and buffers:

resident   the largest resident set since then (``VmHWM``), less the resident set at that time: all that a process
           shows, also pages of mapped files, which the kernel takes back when it needs them
anonymous  the largest anonymous part of it (``RssAnon``), looked at every 5 ms: what cannot be taken back

The goal is at most 1.3 for both. The folder needs three times the size of the file; everything in it is removed. The
whole network is built with ``--depth 0``; ViT-G/14 is 4 GB. ``training`` is a file of the network and of an optimizer,
``legacy`` one of torch before 1.6, whose numbers are read into memory, all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_GOAL = 1.3
_KINDS = ("float32", "float16", "safetensors", "float16 safetensors", "training", "legacy")

_MEASURE = """
import json, os, sys, threading, time
import zoo
from zoo.cards.catalogue import load_catalogue

def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name + ":"))

zoo.load("pocket_simclr_vit_shapes")
import timm, torchvision  # whatever the encoder needs
with open("/proc/self/clear_refs", "w") as file_:
    file_.write("5")  # VmHWM starts anew
resident, anonymous = status("VmRSS"), status("RssAnon")
peak, done = [anonymous], threading.Event()

def watch():
    while not done.wait(0.005):
        peak[0] = max(peak[0], status("RssAnon"))

watcher = threading.Thread(target=watch, daemon=True)
watcher.start()
started = time.perf_counter()
encoder, _ = zoo.load("measured")
seconds = time.perf_counter() - started
done.set()
watcher.join()
size = sum(tensor.nbytes for tensor in encoder.state_dict().values())
print(json.dumps({"size": size, "resident": status("VmHWM") - resident, "anonymous": peak[0] - anonymous,
                  "seconds": seconds}))
"""

_WRITE = """
import sys
import torch
from safetensors.torch import save_file
from zoo.cards.catalogue import load_catalogue
from zoo.encoders import build_encoder

kind, path = sys.argv[1:]
generator = torch.Generator().manual_seed(1)
meta = build_encoder(load_catalogue()["measured"], device="meta").state_dict()
dtype = torch.float16 if "float16" in kind else torch.float32
state = {key.removeprefix("backbone."): (torch.randn(tensor.shape, generator=generator).mul_(0.02).to(dtype)
         if tensor.is_floating_point() else torch.zeros((), dtype=torch.int64)) for key, tensor in meta.items()}
for key, tensor in state.items():
    if key.endswith("running_var"):
        tensor.abs_().add_(0.5)
if kind == "training":
    moments = {i: {"exp_avg": torch.zeros_like(t), "exp_avg_sq": torch.zeros_like(t)}
               for i, t in enumerate(state.values())}
    torch.save({"state_dict": state, "optimizer": {"state": moments, "param_groups": []}, "epoch": 3}, path)
elif "safetensors" in kind:
    save_file(state, path)
else:
    torch.save(state, path, _use_new_zipfile_serialization=kind != "legacy")
"""


def card(like: str, depth: int, file: Path) -> str:
    """A card of the user's own: the same network, maybe of fewer blocks, in this file."""
    from zoo.cards.catalogue import load_catalogue

    options = dict(load_catalogue()[like].architecture.options) | ({"depth": depth} if depth else {})
    listed = ", ".join(f"{key} = {json.dumps(value)}" for key, value in options.items())
    return (
        f'[encoders.measured]\nlike = "{like}"\narchitecture = {{ options = {{ {listed} }}, n_parameters = 1 }}\n'
        f'weights.url = {json.dumps(str(file))}\nweights.mirrors = []\nweights.sha256 = "not published"\n'
        'weights.size_bytes = "not published"\nweights.same_file_as = "not applicable"\n'
    )


def main() -> int:
    """Prints a table; 1 if anything is over the goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="openclip_vitG14", help="whose network it is")
    parser.add_argument("--depth", type=int, default=6, help="blocks of a transformer; 0 for all, and for ResNets")
    parser.add_argument("--kind", action="append", choices=_KINDS, help="of file; all unless given")
    parser.add_argument("--folder", type=Path, help="for the files; a temporary folder unless given")
    options = parser.parse_args()
    worst = 0.0
    print(f"{'file':26}{'network':>10}{'file size':>11}{'':4}{'resident':>10}{'anonymous':>11}{'seconds':>9}")
    for kind in options.kind or _KINDS:
        with tempfile.TemporaryDirectory(dir=options.folder) as private:
            folder = Path(private)
            environment = os.environ | {"ZOO_HOME": f"{folder}/home", "ZOO_CACHE": f"{folder}/cache"}
            file = folder / "checkpoint"
            (folder / "home" / "metadata").mkdir(parents=True)
            (folder / "home" / "metadata" / "own.toml").write_text(card(options.encoder, options.depth, file))

            def run(script: str, *arguments: str, environment: dict[str, str] = environment) -> str:
                command = [sys.executable, "-c", script, *arguments]
                return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout

            run(_WRITE, kind, str(file))
            for step in ("convert", "load"):
                found = json.loads(run(_MEASURE).splitlines()[-1])
                shares = [found[part] / found["size"] for part in ("resident", "anonymous")]
                worst = max(worst, *shares)
                sizes = f"{found['size'] / 1e6:>7,.0f} MB{file.stat().st_size / 1e6:>8,.0f} MB"
                print(
                    f"{kind if step == 'convert' else '':20}{step:8}{sizes}{shares[0]:>10.2f}{shares[1]:>11.2f}"
                    f"{found['seconds']:>9.1f}",
                    flush=True,
                )
    print(f"largest {worst:.2f}, goal {_GOAL}")
    return int(worst > _GOAL)


if __name__ == "__main__":
    sys.exit(main())
