"""Checkpoints in several files: shards with an index are read; for others there is the command that joins them.

The SHA-256 of several files is that of what ``sha256sum INDEX SHARD...`` prints, the shards in order of their names.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import WeightsRefused, WeightsUnavailable
from .locations import hash_file

INDEX = ".index.json"
JOIN_ZERO = (
    "in the folder that has the file 'latest' run 'python zero_to_fp32.py . joined', a script that DeepSpeed has put "
    "there, and give 'joined'"
)
SAVE_TENSORS = "load it where it was made and save its weights by the names of PyTorch: torch.save(state_dict, FILE)"
_STEPS = r"latest|global_step\d+"
_JOIN = (
    "run 'python -m torch.distributed.checkpoint.format_utils dcp_to_torch {folder} joined.pth' and give 'joined.pth'"
)
_MERGE = "give the file of the network that they belong to, with --merge-lora {folder}"
_KINDS = (  # names of files, what they are, what to do; {folder} is where they are
    (r".*\.distcp|\.metadata", "shards of torch.distributed.checkpoint", _JOIN),
    (rf"(?:bf16_)?zero_pp_rank_.*|zero_to_fp32\.py|{_STEPS}", "shards of DeepSpeed", JOIN_ZERO),
    (r"saved_model\.pb|.+\.data-\d+-of-\d+|.+\.index", "a checkpoint of TensorFlow", SAVE_TENSORS),
    (r"adapter_config\.json", "LoRA matrices alone", _MERGE),
    (r".*-\d{5}-of-(?!0*1\.)\d{5}\.\w+", "shards", f"give their index, a file that ends in {INDEX}, or its folder"),
)
_ALONE = ("model.safetensors", "pytorch_model.bin")  # as transformers saves a network


def list_parts(path: Path) -> tuple[Path, ...]:
    """The files of a user's checkpoint: the path itself; of an index or the folder with one, the index and its shards.

    WeightsUnavailable if one is missing; WeightsRefused for what is not read here, with what to do.
    """
    if path.is_dir():
        names = sorted(entry.name for entry in path.iterdir())
        readable = sorted((name for name in names if name.endswith(INDEX)), key=lambda name: "safetensors" not in name)
        readable += [name for name in _ALONE if name in names]
        if not readable:
            _refuse(names, folder=path)
            raise WeightsUnavailable(f"{path} is not a file, expected one of weights, or of shards; correct the path.")
        path = path / readable[0]
    elif not re.fullmatch(_STEPS, path.name):  # of a file they say nothing
        _refuse([path.name], folder=path.parent)
    if not path.name.endswith(INDEX) or not path.is_file():
        return (path,)
    files = tuple(path.parent / name for name in sorted(set(read_index(path).values())))
    if missing := [file.name for file in files if not file.is_file()]:
        raise WeightsUnavailable(
            f"{path} names {len(files)} shards, of which {missing[0]!r} is missing; copy all of them into its folder."
        )
    return (path, *files)


def _refuse(names: Sequence[str], *, folder: Path) -> None:
    for pattern, kind, remedy in _KINDS:
        if found := next((name for name in names if re.fullmatch(pattern, name)), ""):
            raise WeightsRefused(
                f"{folder / found} is of {kind}, not weights as a whole: {remedy.format(folder=folder)}."
            )


def hash_parts(files: Sequence[Path]) -> tuple[str, int]:
    """The SHA-256 of a checkpoint in hexadecimal, and its size in bytes."""
    hashed = [hash_file(file) for file in files]
    if len(files) == 1:
        return hashed[0]
    listing = "".join(f"{digest}  {file.name}\n" for file, (digest, _) in zip(files, hashed, strict=True))
    return hashlib.sha256(listing.encode()).hexdigest(), sum(size for _, size in hashed)


def read_index(index: Path) -> dict[str, str]:
    """From the name of each tensor to the name of the file next to the index that has it."""
    try:
        pairs = dict(json.loads(index.read_bytes())["weight_map"])
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise WeightsRefused(f"{index} is no index of shards, expected JSON with 'weight_map' ({error}).") from error
    for name in pairs.values():
        if type(name) is not str or Path(name).name != name:
            raise WeightsRefused(f"{index} names {str(name)[:80]!r}, expected files in its own folder.")
    return pairs
