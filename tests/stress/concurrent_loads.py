"""Sixteen processes load one encoder at the same moment, with file locks that work and with locks that do nothing.

    python tests/stress/concurrent_loads.py [--processes 16] [--rounds 5]

The encoder comes from an address (our own downloader) and from a Hugging Face repository (huggingface_hub's); both take
locks. Where ``fcntl.flock`` is replaced by a function that does nothing, as on some network disks, what relies on it
relies on nothing. Every process must end within two minutes with the same weights, and the cache must hold one whole
file of weights and nothing half. Expected: 16 of 16 in every round; at worst downloads are wasted.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
import tempfile
import time
import traceback
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 120.0


def load_together(n: int, *, broken_locks: bool) -> list[str]:
    """What each of ``n`` processes says of the weights it loaded: their hash, or what went wrong."""
    import torch

    import zoo

    torch.set_num_threads(1)
    start_reading, start_writing = os.pipe()
    children: dict[int, int] = {}
    for _ in range(n):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(start_writing)
            os.read(start_reading, 1)  # returns when the parent closes its end: all start at once
            if broken_locks:
                fcntl.flock = lambda *arguments: None  # type: ignore[assignment]
                fcntl.lockf = lambda *arguments: None  # type: ignore[assignment]
            try:
                encoder, _ = zoo.load("tiny")
                digest = sha256()
                for name, tensor in sorted(encoder.state_dict().items()):
                    digest.update(name.encode() + tensor.numpy().tobytes())
                said = digest.hexdigest()
            except BaseException:
                said = traceback.format_exc()
            os.write(writing, said.encode()[:60_000])
            os._exit(0)
        os.close(writing)
        children[child] = reading
    os.close(start_reading)
    os.close(start_writing)
    deadline = time.monotonic() + _SECONDS
    answers = []
    for child, reading in children.items():
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                break
            time.sleep(0.01)
        with os.fdopen(reading, "rb") as file:
            answers.append(file.read().decode() or "hung or killed")
    return answers


def cache_is_whole(folder: Path) -> bool:
    """One file of weights that is what its name says, and no download left."""
    weights = list(folder.glob("tensors/*.safetensors"))
    is_right = [sha256(path.read_bytes()).hexdigest() == path.stem for path in weights]
    temporary = list(folder.rglob("*.tmp"))
    return is_right == [True] and not temporary and not list(folder.glob("downloads/*"))


def main() -> int:
    """Prints a line for each source and kind of lock; 1 if any process or cache was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    os.environ["TQDM_DISABLE"] = os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    os.environ["HF_HUB_DISABLE_XET"] = "1"
    with tempfile.TemporaryDirectory() as private:
        os.environ["ZOO_HOME"] = str(Path(private, "home"))
        os.environ["ZOO_CACHE"] = str(Path(private, "first"))
        from tests.servers import put_into_hub, serving, serving_hub

        with serving({}) as server, serving_hub({"owner/tiny": {}}) as hub:
            os.environ["HF_ENDPOINT"] = hub.url  # read once, when huggingface_hub is imported, as timm does
            from tests.tiny import checkpoint, write_card

            write_card("tiny", "https://nowhere.invalid/tiny.pth")
            server.files["/tiny.pth"] = checkpoint("tiny")
            put_into_hub(hub, "owner/tiny", "tiny.pth", server.files["/tiny.pth"])
            places = {"address": f"{server.url}/tiny.pth", "Hugging Face": "hf:owner/tiny/tiny.pth"}
            n_bad = 0
            for name, place in places.items():
                for broken_locks in (False, True):
                    n_right, n_whole, n_downloads = 0, 0, 0
                    for number in range(arguments.rounds):
                        folder = Path(private, f"{name[0]}{broken_locks}{number}")
                        os.environ["ZOO_CACHE"] = str(folder)
                        _use_hub_cache(folder / "hf")
                        write_card("tiny", place)
                        Path(private, "home", "zoo.lock").unlink(missing_ok=True)
                        before = len(_bodies(server)) + len(_bodies(hub))
                        answers = load_together(arguments.processes, broken_locks=broken_locks)
                        n_downloads += len(_bodies(server)) + len(_bodies(hub)) - before
                        n_right += sum(answer == answers[0] and len(answer) == 64 for answer in answers)
                        n_whole += cache_is_whole(folder / "weights")
                        for answer in {answer for answer in answers if len(answer) != 64}:
                            print(answer)
                    n_all = arguments.processes * arguments.rounds
                    n_bad += n_all - n_right + arguments.rounds - n_whole
                    locks = "locks do nothing" if broken_locks else "locks work"
                    print(
                        f"{name:13} {locks:17} {n_right:3} of {n_all} processes right, caches whole {n_whole} of "
                        f"{arguments.rounds}, {n_downloads / arguments.rounds:.1f} downloads a round"
                    )
    return int(n_bad > 0)


def _bodies(server: Any) -> list[Any]:
    return [request for request in list(server.log) if request.method == "GET" and request.sent_bytes]


def _use_hub_cache(folder: Path) -> None:
    """The folder is read from the environment once, at import."""
    from huggingface_hub import constants

    constants.HF_HUB_CACHE = str(folder)


if __name__ == "__main__":
    sys.exit(main())
