"""Writes the home of a user who registered an encoder and measured it, as an archive that later versions must open.

To archive the home of a version, run this file with that version's checkout in PYTHONPATH:
``python tests/saved_homes/writing.py tests/saved_homes/NAME.tar.xz``. An archive is never renewed: it stands for what
users have.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ENCODER, LIKE = "mine", "pocket_simclr_rn_shapes_d24"
IMAGES = "shapes:classes=3,train=45,val=30,size_px=16"
VERBS: dict[str, tuple[str, ...]] = {  # paths are relative to the folder of the archive
    "features": ("features", ENCODER, IMAGES, "--out", "features"),
    "evaluate": (
        *("evaluate", ENCODER, IMAGES, "--settings", "full,5-shot", "--seeds", "2", "--subsets", "2"),
        *("--decompose", "--save", "probe"),
    ),
    "metric": ("metric", "rankme", ENCODER, IMAGES),
    "curve": (
        *("curve", ENCODER, IMAGES, "--task", "classification", "--regimes", "20,all", "--seeds", "1"),
        *("--maximal", "1", "--learning-rates", "3e-3", "--set", "least_steps=4", "--set", "most_steps=4"),
        *("--out", "figures"),
    ),
    "predict": ("predict", "probe", IMAGES),
    "results": ("results", ENCODER),
    "show": ("show", ENCODER),
}
_RECOMPUTED = ("figures", "weights.safetensors", "cache/locks")  # left out of the archive, like compiled cards


def write_home(folder: Path) -> dict[str, Any]:
    """Fills the folders home, cache, features and probe in ``folder``; returns what the verbs print with --json."""
    os.environ |= {"ZOO_HOME": str(folder / "home"), "ZOO_CACHE": str(folder / "cache")}
    os.chdir(folder)
    from safetensors.torch import load_file, save_file

    from zoo.files import get_content_folder

    state = load_file(get_content_folder("metadata") / "pocket" / f"{LIKE}.safetensors")
    save_file({name: value * (1.5 if value.ndim == 4 else 1) for name, value in state.items()}, "weights.safetensors")
    call("register", "weights.safetensors", "--like", LIKE, "--id", ENCODER, "--inherit", "pretraining")
    return {verb: json.loads(call(*arguments, "--json")[0]) for verb, arguments in VERBS.items()}


def call(*arguments: str) -> tuple[str, str]:
    """What a verb prints, and says along with it."""
    from click.testing import CliRunner

    from zoo.cli import zoo

    result = CliRunner().invoke(zoo, arguments)
    assert result.exit_code == 0, (arguments, result.output, result.exception)
    return result.stdout, result.stderr


def main(arguments: Sequence[str]) -> None:
    """Writes the archive."""
    archive = Path(arguments[0]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        answers = json.dumps(write_home(folder), indent=1, sort_keys=True)
        (folder / "answers.json").write_text(answers.replace(f"{folder}/", ""))
        with tarfile.open(archive, "w:xz") as packed:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                known = path.relative_to(folder).as_posix()
                is_compiled = path.parent == folder / "cache"
                if not known.startswith(_RECOMPUTED) and not is_compiled and path.name != ".lock":
                    packed.add(path, known, filter=_without_owner)


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main(sys.argv[1:])
