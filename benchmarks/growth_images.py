"""How time and memory of features grow with the number of images.

    python benchmarks/growth_images.py [--sizes 1000 10000] [--encoder ID] [--side 64] [--maps]

Folders of so many small JPEG files, rendered, in ten classes. For each `zoo features` computes the features ("first":
decoding, forward passes, shards, index), and is asked again ("again": a look at all files, and the index). Both are
processes of their own: processor seconds of user and kernel, and the most resident memory. The last column is what a
thousand images more take, from one size to the next: equal numbers are linear growth. With ``--maps`` they are maps of
patches, stored as float16; a third process ("read") goes through all of them, 64 images at a time, and a fourth
("probe") trains a quick attentive probe on those of the training images.

On 2026-11-30, two cores at a load of 4: 1,000, 10,000 and 100,000 images of 64 px took 9.7, 30.4 and 180 processor
seconds (2.3 and 1.7 per 1,000 more) with peaks of 726, 729 and 747 MB; asked again 6.0, 13.9 and 37.3 s.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

READ = """import sys; from pathlib import Path; from zoo.features import iterate_maps, load_features
for folder in Path(sys.argv[1]).glob("*/features/*"):
    for maps, _ in iterate_maps(load_features(folder)):
        maps.sum()"""
PROBE = """import sys; from pathlib import Path; from zoo.evaluation import AttentiveProbe
from zoo.features import load_features; from zoo.features.maps import parse_map_grid
found = max(map(load_features, Path(sys.argv[1]).glob("*/features/*")), key=len)
channels = parse_map_grid(found.origin.representation).channels
AttentiveProbe(quick=True, channels=channels).fit(found.x, found.y)"""
START = "import sys; sys.argv[0] = 'zoo'; from zoo.cli import main; main()"


def render(folder: Path, n: int, side: int) -> None:
    """JPEG files of shaded squares, a folder a class."""
    random = np.random.default_rng(0)
    for number in range(n):
        place = folder / f"class-{number % 10}"
        place.mkdir(parents=True, exist_ok=True)
        coarse = random.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        image = Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC)
        image.save(place / f"{number:06}.jpg", quality=90)


def spent(arguments: list[str], home: Path, *, code: str = START) -> tuple[float, float]:
    """Processor seconds and peak MB of a command, or of other code."""
    root = Path(__file__).resolve().parent.parent
    environment = os.environ | {"ZOO_HOME": str(home / "home"), "ZOO_CACHE": str(home / "cache"), "ZOO_OFFLINE": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env=environment | {"PYTHONPATH": str(root)},
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    if ended := os.waitstatus_to_exitcode(status):
        sys.exit(f"zoo {' '.join(arguments)} ended with {ended}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--encoder", default="pocket_simclr_rn_shapes")
    parser.add_argument("--side", type=int, default=64, help="of the images, in px")
    parser.add_argument("--maps", action="store_true")
    options = parser.parse_args()
    of_maps = ["--maps", "--store", "float16"] if options.maps else []
    before: dict[str, tuple[int, float, float]] = {}
    print(f"{'images':>8} {'':6}{'cpu s':>8}{'peak MB':>9}{'s per 1,000 more':>18}{'MB per 1,000 more':>19}")
    for n in options.sizes:
        with tempfile.TemporaryDirectory() as private:
            render(Path(private) / "images", n, options.side)
            to = str(Path(private) / "to")
            command = ["features", options.encoder, str(Path(private) / "images"), "--to", to, *of_maps]
            for when in ("first", "again", *["read", "probe"] * options.maps):
                code = {"read": READ, "probe": PROBE}.get(when, START)
                seconds, megabytes = spent(command if code is START else [to], Path(private), code=code)
                more = ""
                if when in before:
                    m, s, mb = before[when]
                    more = f"{1000 * (seconds - s) / (n - m):18.2f}{1000 * (megabytes - mb) / (n - m):19.2f}"
                print(f"{n:8,} {when:6}{seconds:8.1f}{megabytes:9.0f}{more}", flush=True)
                before[when] = n, seconds, megabytes
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
