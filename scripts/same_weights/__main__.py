"""``python -m same_weights FAMILY CLONES``: prints what one family gives, as JSON in one line."""

from __future__ import annotations

import importlib
import json
import platform
import subprocess
import sys
import tarfile
from dataclasses import asdict
from datetime import date
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

PACKAGES = ("timm", "transformers", "open_clip_torch", "torch", "torchvision", "numpy", "pillow")


def take_out(clones: Path, repository: str, commit: str, paths: tuple[str, ...], into: Path) -> Path:
    """Some files of a commit of a clone, which may be bare."""
    clone = clones / repository.replace("/", "+")
    places = [place for place in (clone, clone / ".git", clone / "repo", clone / "repo" / ".git") if place.is_dir()]
    git = next((place for place in places if (place / "HEAD").is_file()), None)
    if git is None:
        raise SystemExit(f"{clone} is no clone of {repository}; make one there")
    packed = subprocess.run(
        ["git", "--git-dir", git, "archive", commit, *paths], check=True, stdout=subprocess.PIPE
    ).stdout
    folder = into / repository.replace("/", "+")
    with tarfile.open(fileobj=BytesIO(packed)) as files:
        files.extractall(folder, filter="data")
    return folder


def main() -> None:
    """Run one family."""
    name, clones = sys.argv[1], Path(sys.argv[2])
    family = importlib.import_module(f"same_weights.{name}")
    torch.manual_seed(0)
    with TemporaryDirectory() as folder, torch.inference_mode():
        authors = {key: take_out(clones, key, *taken, Path(folder)) for key, taken in family.AUTHORS.items()}
        differences = [asdict(one) for one in family.measure(authors)]
    about = {
        "authors": {repository: commit for repository, (commit, _) in family.AUTHORS.items()},
        "date": date.today().isoformat(),
        "differences": differences,
        "python": platform.python_version(),
        "versions": {package: version(package) for package in PACKAGES},
    }
    print(json.dumps(about))


if __name__ == "__main__":
    main()
