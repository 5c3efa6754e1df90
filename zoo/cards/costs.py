"""What an encoder costs to run: floating point operations, parameters and activations, computed from its network.

``metadata/costs.tsv`` has a row per network: the numbers do not depend on the weights, so encoders that share backbone,
options, features and size of images share a row. ``scripts/derive_costs.py`` writes it with
:func:`zoo.encoders.costs.compute_card_cost`, which runs each network on tensors without content. Nothing here imports
torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from ..errors import ContentError, QueryError
from ..files import get_content_folder
from .catalogue import get_base_card
from .schema import EncoderCard

TABLE = "costs.tsv"
COLUMNS = (
    "network", "backbone", "layer", "px", "gflops", "parameter_bytes", "activation_bytes", "fixed_bytes",
    "written_bytes", "n_operations", "unknown", "encoders",
)  # fmt: skip
"""Of the table; ``unknown`` says why a network has no numbers, ``encoders`` has the ids of those that share it."""

_WHOLE = ("px", "parameter_bytes", "activation_bytes", "fixed_bytes", "written_bytes", "n_operations")
Precision: TypeAlias = Literal["float32", "float16", "bfloat16"]
BATCH_SIZE = 64
"""Images of a forward pass, where nobody says otherwise."""
CONTEXT_BYTES = 800_000_000
"""Reserved on a GPU for CUDA's context, its libraries and their workspaces."""
AUTOCAST_SHARE = 0.8
"""Of the bytes of activations, what autocast leaves: 0.53 were counted of a ResNet-50, 0.78 of a ViT-S (its norms)."""
GPU_MARGIN = 1.2
"""By which activations are multiplied on a GPU for what its allocator rounds up and leaves in gaps; not measured."""
CPU_MARGIN = 1.8
"""The same on a CPU, whose kernels copy into layouts of their own: 1.2 to 1.8 in ``benchmarks/network_memory.py``."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one forward pass costs, without gradients, in float32, one operation after the other."""

    px: int  # side of the images
    gflops: float  # 1e9 operations per image; a multiplication and the addition behind it are two
    parameter_bytes: int  # parameters and buffers
    activation_bytes: int  # most bytes of images and intermediate results alive at once, an image of the batch
    fixed_bytes: int  # most bytes of intermediate results that do not grow with the batch, such as biases of positions
    written_bytes: int  # by all operations, an image
    n_operations: int  # calls of one forward pass, whatever the batch


def format_gflops(gflops: float) -> str:
    """Three digits, and no exponent.

    >>> [format_gflops(one) for one in (0.00356, 9.197, 381.918, 2862.4)]
    ['0.00356', '9.2', '382', '2,860']
    """
    return f"{float(f'{gflops:.3g}'):,g}"


def compute_network_key(card: EncoderCard) -> str:
    """What a network's costs depend on, as 16 hexadecimal digits: backbone, options, features and size of images."""
    import json  # which those that ask for shipped encoders do without
    from hashlib import blake2b

    about = [
        card.architecture.backbone,
        card.architecture.options,
        card.representation.layer,
        card.representation.dim,
        card.preprocess.crop_px,
    ]
    return blake2b(json.dumps(about, sort_keys=True, default=str).encode(), digest_size=8).hexdigest()


def find_cost(card: EncoderCard) -> Cost | None:
    """The cost of an encoder at the size of images of its card; None if it is not in the table.

    Other features of an encoder (``dino_vitS16@cls``) have the cost of its card's: their last layers alone differ.
    ContentError if the table is damaged.
    """
    found = _of(card)
    return found if isinstance(found, Cost) else None


def explain_unknown_cost(card: EncoderCard) -> str:
    """Why the table has no numbers of an encoder's network; "" if it has, or does not have the network."""
    found = _of(card)
    return found if isinstance(found, str) else ""


def _of(card: EncoderCard) -> Cost | str | None:
    found = _table()[0].get(compute_network_key(card))
    if found is None:
        whole = get_base_card(card)
        if whole is not card and whole.preprocess.crop_px == card.preprocess.crop_px:
            found = _table()[0].get(compute_network_key(whole))
    return found


def estimate_memory(cost: Cost, batch_size: int, precision: Precision = "float32", *, device: str = "cuda") -> int:
    """Memory that features of batches of that size take, in bytes.

    Contained are parameters and buffers, the images and the most activations alive at once (times ``GPU_MARGIN`` or
    ``CPU_MARGIN``), and on a GPU ``CONTEXT_BYTES`` for CUDA's context, its libraries and their workspaces. Not
    contained are, on a CPU, Python and its libraries (about 0.5 GB) and images decoded ahead; nor anything of training.
    In half precision activations count with ``AUTOCAST_SHARE``, as under autocast, where parameters keep their bytes.

    >>> estimate_memory(Cost(224, 8.2, 100, 10, 0, 90, 9), 64, device="cpu")
    1252
    """
    if batch_size < 1:
        raise QueryError(f"Found a batch of {batch_size} images, expected at least 1.")
    share = 1.0 if precision == "float32" else AUTOCAST_SHARE
    alive = cost.fixed_bytes + batch_size * cost.activation_bytes
    context, margin = (CONTEXT_BYTES, GPU_MARGIN) if device.startswith("cuda") else (0, CPU_MARGIN)
    return context + cost.parameter_bytes + round(margin * share * alive)


def find_largest_batch_size(
    cost: Cost, max_memory: int, precision: Precision = "float32", *, device: str = "cuda", most: int = 1024
) -> int:
    """The most images per batch, up to ``most``, that fit into so many bytes by :func:`estimate_memory`, or 0.

    >>> find_largest_batch_size(Cost(224, 8.2, 100, 10, 0, 90, 9), 1252, device="cpu")
    64
    """
    fitting, too_many = 0, most + 1
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if estimate_memory(cost, middle, precision, device=device) <= max_memory:
            fitting = middle
        else:
            too_many = middle
    return fitting


def locate_costs_table() -> Path:
    """The file of the shipped table."""
    return get_content_folder("metadata") / TABLE


def read_costs(path: Path) -> dict[str, dict[str, str]]:
    """Rows of such a table by network; empty if there is no file."""
    if not path.exists():
        return {}
    head, *lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()] or [[]]
    if tuple(head) != COLUMNS or any(len(line) != len(COLUMNS) for line in lines):
        raise ContentError(f"{path} has other columns than {', '.join(COLUMNS)}; restore it.")
    rows = [dict(zip(COLUMNS, line, strict=True)) for line in lines]
    return {row["network"]: row for row in rows}


def load_shipped_costs() -> Mapping[str, Cost]:
    """Costs by id of the zoo's own encoders, quicker than card by card."""
    return _table()[1]


@cache
def _table() -> tuple[Mapping[str, Cost | str], Mapping[str, Cost]]:
    """Numbers, or why there are none, by network; and numbers by encoder."""
    path = locate_costs_table()
    rows = read_costs(path)
    by_network = {key: row["unknown"] or _numbers(row, path) for key, row in rows.items()}
    known = {key: found for key, found in by_network.items() if isinstance(found, Cost)}
    return by_network, {name: known[key] for key in known for name in rows[key]["encoders"].split()}


def _numbers(row: Mapping[str, str], path: Path) -> Cost:
    try:
        return Cost(gflops=float(row["gflops"]), **{name: int(row[name]) for name in _WHOLE})
    except ValueError as error:
        raise ContentError(f"{path} has unreadable numbers of {row['network']} ({error}); restore it.") from error
