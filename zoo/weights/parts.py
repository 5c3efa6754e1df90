"""Checkpoints in several files: an index with its shards is read; of shards that only the library of a training joins,
the message has the command that does.

The SHA-256 of a checkpoint in several files is that of what ``sha256sum INDEX SHARD...`` prints: the index, then the
shards by name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..errors import WeightsRefused, WeightsUnavailable
from .places import file_sha256

INDEX = ".index.json"
_ALONE = ("model.safetensors", "pytorch_model.bin")  # of a folder, as transformers saves a network in one file
_SHARD = re.compile(r"-(\d{5})-of-(?!0*1\.)(\d{5})\.\w+")
_DEEPSPEED = re.compile(r"latest|global_step\d+|zero_to_fp32\.py|(?:bf16_)?zero_pp_rank_.*|mp_rank_\d+_model_states\.pt")
_ZERO = re.compile(r"(?:bf16_)?zero_pp_rank_.*_(?:optim|model)_states\.pt")
_TENSORFLOW = re.compile(r"saved_model\.pb|.+\.data-\d{5}-of-\d{5}|(?!.*\.json$).+\.index")
_MOST_INDEX_BYTES = 64 * 1024**2

JOIN_ZERO = (
    "in the folder that has the file 'latest' run 'python zero_to_fp32.py . joined' (DeepSpeed has put that script "
    "there) and give 'joined'"
)
SAVE_TENSORS = "load it where it was made and save its weights by their names in PyTorch: torch.save(state_dict, FILE)"


def files_of(path: Path) -> tuple[Path, ...]:
    """The files of a user's checkpoint: the path itself; of an index or the folder with one, the index and its shards.

    WeightsUnavailable if a shard is missing; WeightsRefused for shards that are not read here, with what joins them.
    """
    if not path.exists():
        return (path,)
    if path.is_dir():
        path = _main_file(path)
    elif path.suffix == ".distcp" or path.name == ".metadata":
        raise _distributed(path.parent)
    elif _ZERO.fullmatch(path.name):
        raise WeightsRefused(f"{path} is what one process of DeepSpeed has of a network: {JOIN_ZERO}.")
    elif _TENSORFLOW.fullmatch(path.name):
        raise WeightsRefused(f"{path} is of a checkpoint of TensorFlow: {SAVE_TENSORS}.")
    elif shard := _SHARD.search(path.name):
        raise WeightsRefused(
            f"{path} is one of the {int(shard[2])} shards of a checkpoint: give their index (a file that ends in "
            f"{INDEX}) or the folder of both."
        )
    if not path.name.endswith(INDEX):
        return (path,)
    folder = path.parent
    shards = sorted(set(weight_map(path).values()))
    missing = [name for name in shards if not (folder / name).is_file()]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise WeightsUnavailable(
            f"The shard {missing[0]!r}{more} of the {len(shards)} that {path} names is missing; copy all of them into "
            f"{folder}."
        )
    return (path, *(folder / name for name in shards))


def files_sha256(files: Sequence[Path]) -> tuple[str, int]:
    """The SHA-256 of a checkpoint in hexadecimal, and its size in bytes."""
    hashed = [file_sha256(file) for file in files]
    size = sum(n_bytes for _, n_bytes in hashed)
    if len(files) == 1:
        return hashed[0]
    listing = (f"{digest}  {file.name}\n" for file, (digest, _) in zip(files, hashed, strict=True))
    return hashlib.sha256("".join(listing).encode()).hexdigest(), size


def weight_map(index: Path) -> dict[str, str]:
    """From the name of each tensor to the file that has it, in the folder of the index."""
    try:
        if index.stat().st_size > _MOST_INDEX_BYTES:
            raise ValueError("it is too large")
        found = json.loads(index.read_bytes())["weight_map"]
        pairs = list(found.items())
    except OSError as error:
        raise WeightsUnavailable(f"The index {index} cannot be read ({error.strerror}); correct the path.") from error
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise WeightsRefused(f"{index} is no index of shards, expected JSON with 'weight_map' ({error}).") from error
    for _, name in pairs:
        if type(name) is not str or Path(name).name != name or name in ("", ".."):
            raise WeightsRefused(f"The index {index} names {str(name)[:80]!r}, expected files in its own folder.")
    return dict(pairs)


def _main_file(folder: Path) -> Path:
    """The file of a folder that its checkpoint is read from."""
    names = sorted(entry.name for entry in folder.iterdir())
    indices = [name for name in names if name.endswith(INDEX)]
    for found in ([name for name in indices if "safetensors" in name], indices, [n for n in _ALONE if n in names]):
        if len(found) == 1 or (found and "safetensors" in found[0]):
            return folder / found[0]
    if ".metadata" in names or any(name.endswith(".distcp") for name in names):
        raise _distributed(folder)
    if "adapter_config.json" in names:
        raise WeightsRefused(
            f"{folder} has the LoRA matrices of a network and not the network: give the file of the network that they "
            f"were trained on, and --merge-lora {folder}."
        )
    if _any(_DEEPSPEED, names):
        raise WeightsRefused(f"{folder} has shards of DeepSpeed: {JOIN_ZERO}.")
    if _any(_TENSORFLOW, names):
        raise WeightsRefused(f"{folder} has a checkpoint of TensorFlow: {SAVE_TENSORS}.")
    listed = f", such as {names[0]!r}" if names else ""
    raise WeightsUnavailable(
        f"{folder} is a folder of {len(names)} files{listed}, expected one file of weights, or one index of shards "
        f"({INDEX}); give the path of the file."
    )


def _any(pattern: re.Pattern[str], names: Iterable[str]) -> bool:
    return any(pattern.fullmatch(name) for name in names)


def _distributed(folder: Path) -> WeightsRefused:
    return WeightsRefused(
        f"{folder} is of torch.distributed.checkpoint, whose shards are found by a pickle that is not read here: run "
        f"'python -m torch.distributed.checkpoint.format_utils dcp_to_torch {folder} joined.pth' and give 'joined.pth'."
    )
