"""Another library for an encoder's forward pass on a CPU: OpenVINO, where it is installed, proves equal and pays.

A backend changes features by rounding alone, up to :data:`TOLERANCE`, or it is not taken: features are compared with
PyTorch's on images of the set before any is computed. So features of both are the same features: what one has
computed the other does not compute again, and ``Origin.backend`` says for information which one it was. Images that
belong together are computed by one backend, for the choice goes by all of them and by the network, never by a clock.

OpenVINO takes the network from a trace of PyTorch's, norms folded and activations fused. What it made is kept in the
cache, by a hash of the network and of the versions.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ..encoders.encoder import ERRORS
from ..errors import ComputingNote, QueryError
from ..execution.executor import collect_versions
from ..files import get_cache_folder, make_new_folder
from ..optional import require_extra
from ..regression_check import use_full_precision
from ..weights.tensors import hash_weights
from .computing import Encode, GroupNetwork
from .decoding import DecodingSpec
from .origin import TORCH
from .store import hash_network_code

with require_extra("models", needed_for="Computing features"):
    import numpy as np
    import torch

AUTO, OPENVINO = "auto", "openvino"
BACKENDS = (AUTO, TORCH, OPENVINO)

TOLERANCE = 1e-5
"""Largest difference of the features of an image to PyTorch's, as a share of their length."""

LEAST_IMAGES, LEAST_PARAMETERS = 500, 1_000_000
"""Of what is computed by OpenVINO unless asked for: less does not repay the one to three seconds of a conversion."""

_N_COMPARED, _N_TRACED = 4, 2  # images; those of the trace are noise
_STALE_S = 3_600.0  # after which a conversion whose process was ended is abandoned
_MOST_BYTES = 2_000_000_000  # of converted networks in the cache
_MODEL, _WEIGHTS, _VERDICT = "model.xml", "model.bin", "verdict.json"


@dataclass(frozen=True, slots=True)
class _ConvertedNetwork:
    """What OpenVINO gives for a network, or why it is not used."""

    program: Encode | None
    name: str  # "openvino 2026.4.1"
    obstacle: str = ""
    is_known: bool = False  # an obstacle that was told at the first use


_CONVERTED: WeakKeyDictionary[torch.nn.Module, tuple[str, _ConvertedNetwork]] = WeakKeyDictionary()


def choose_backend(
    network: GroupNetwork,
    decoding: DecodingSpec,
    *,
    device: torch.device,
    wanted: str,
    n_images: int,
    weights_hash: str = "",
) -> GroupNetwork:
    """The network as it is computed: by PyTorch, or with OpenVINO's program for it.

    Parameters
    ----------
    network, device
        Of the forward pass, with the precision as get_number_type names it.
    decoding : DecodingSpec
        The first images are those that features are compared on.
    wanted : {"auto", "torch", "openvino"}
        ``auto`` takes OpenVINO on a CPU, in float32, for :data:`LEAST_IMAGES` and :data:`LEAST_PARAMETERS` or more, and
        networks with batch norms: others are as fast by PyTorch (ViTs), or faster (ConvNeXts), but for Swins.
    n_images : int
        All that belong together, such as those of both parts of a data set, computed already or not.
    weights_hash : str
        That of the encoder, if it is known.

    Raises
    ------
    QueryError
        If there is no such backend; if OpenVINO is wanted, and cannot compute this or gives other features.
    MissingExtra
        If OpenVINO is wanted and not installed.
    """
    if wanted not in BACKENDS:
        raise QueryError(f"The backend {wanted!r} is not known; expected one of {', '.join(BACKENDS)}.")
    if wanted == TORCH:
        return network
    encoder, precision = network.encoder, network.precision
    is_possible = device.type == "cpu" and precision == "float32"
    if wanted == AUTO:
        n_parameters = sum(parameter.numel() for parameter in encoder.parameters())
        folds = any(isinstance(module, torch.nn.BatchNorm2d) for module in encoder.modules())
        pays = folds and n_images >= LEAST_IMAGES and n_parameters >= LEAST_PARAMETERS
        if not (pays and is_possible and find_spec(OPENVINO)):
            return network
    elif not is_possible:
        raise QueryError(
            f"OpenVINO computes in float32 on the CPU, got {precision} on {str(device)!r}; ask for that, or leave out "
            "the backend."
        )
    else:
        _import_openvino()
    batch = decoding[range(min(_N_COMPARED, len(decoding.images)))]
    if batch.pixels is None:  # the run will say what is wrong with its images
        return network
    pixels = batch.pixels.float()
    key = _hash_network(encoder, pixels, weights_hash or hash_weights(encoder))
    here = f"{key}, {torch.get_num_threads()} threads"
    known, found = _CONVERTED.get(encoder, ("", None))
    if found is None or known != here:
        found = _prepare(encoder, pixels, get_cache_folder() / "backends" / key)
        _CONVERTED[encoder] = here, found
        _tell(network.name, found)
    if found.program is None:
        if wanted == OPENVINO:
            raise QueryError(
                f"OpenVINO cannot compute {network.name!r} ({found.obstacle}); leave out the backend, or name torch."
            )
        return network
    return replace(network, program=found.program, backend=found.name)


def _tell(name: str, found: _ConvertedNetwork) -> None:
    sentence = f"{name} stays with PyTorch: {found.obstacle}"
    if found.program is not None:
        sentence = f"features of {name} by {found.name}, PyTorch's within {TOLERANCE:g} (else: --backend torch)"
    if not found.is_known:
        warnings.warn(sentence, ComputingNote, stacklevel=1)


def _hash_network(encoder: torch.nn.Module, pixels: torch.Tensor, weights_hash: str) -> str:
    """Of all that decides what OpenVINO makes of a network: tensors, modules, code, the card, images, versions."""
    facts = [weights_hash, repr(encoder), hash_network_code(encoder), repr(getattr(encoder, "card", None))]
    versions = collect_versions() | {OPENVINO: _import_openvino().__version__}
    text = json.dumps([*facts, list(pixels.shape[1:]), versions])
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _prepare(encoder: torch.nn.Module, pixels: torch.Tensor, folder: Path) -> _ConvertedNetwork:
    """OpenVINO's program for an encoder, from the cache or converted, once its features are PyTorch's."""
    openvino = _import_openvino()
    name = f"{OPENVINO} {openvino.__version__.partition('-')[0]}"
    verdict = _read_verdict(folder)
    if verdict is not None and verdict["obstacle"]:
        return _ConvertedNetwork(None, name, verdict["obstacle"], is_known=True)
    encoder.to(pixels.device).eval()
    with use_full_precision(), torch.inference_mode():
        expected = encoder(pixels).numpy()  # (b, dim)
    failures: tuple[type[Exception], ...] = (*ERRORS, *_list_failures())
    obstacle, model, program = "", None, None
    try:
        model = _convert(encoder, pixels) if verdict is None else _get_core().read_model(folder / _MODEL)
        program = _compile(model)
        apart = max(_difference(program, pixels, expected), _difference(program, pixels[:1], expected[:1]))
        if not apart <= TOLERANCE:
            obstacle = f"OpenVINO's features differ by {apart:.1g}, expected at most {TOLERANCE:g}"
    except failures as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        obstacle = f"OpenVINO cannot convert it ({type(error).__name__}: {lines[-1][:120] if lines else ''})"
    if verdict is None:
        with suppress(OSError):  # a cache that cannot be written to
            _keep(folder, model, obstacle)
    return _ConvertedNetwork(None if obstacle else program, name, obstacle)


def _difference(program: Encode, pixels: torch.Tensor, expected: np.ndarray) -> float:
    """The largest difference of an image's features, relative; infinite where they have another shape."""
    found: Any = program(pixels)
    if found.shape != expected.shape:
        return float("inf")
    apart = np.linalg.norm(found.numpy() - expected, axis=1) / np.linalg.norm(expected, axis=1)
    return float(apart.max())


def _convert(encoder: torch.nn.Module, pixels: torch.Tensor) -> Any:
    """OpenVINO's model of a network, for any number of images of this size.

    By its frontend: ``openvino.convert_model`` reports each use to the makers of OpenVINO.
    """
    openvino = _import_openvino()
    size = tuple(pixels.shape[1:])
    noise = torch.randn(_N_TRACED, *size, generator=torch.Generator().manual_seed(0))
    frontend = openvino.frontend.FrontEndManager().load_by_framework("pytorch")
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of conditions on shapes, which are fixed here
        from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

        how: dict[str, Any] = {"shared_memory": False, "trace_kwargs": {"check_trace": False}}
        traced = TorchScriptPythonDecoder(encoder, example_input=noise, **how)
        model = frontend.convert(frontend.load(traced))
    model.reshape(openvino.PartialShape([-1, *size]))
    return model


def _list_failures() -> tuple[type[Exception], ...]:
    """What OpenVINO's frontend raises for networks that it cannot take."""
    frontend = _import_openvino().frontend
    kinds = ("General", "Initialization", "NotImplemented", "OpConversion", "OpValidation")
    return tuple(getattr(frontend, f"{kind}Failure") for kind in kinds)


@cache
def _get_core() -> Any:
    """One for the process: where each network has its own, freeing them ends the process by a segmentation fault."""
    return _import_openvino().Core()


def _compile(model: Any) -> Encode:
    """A function from images float32 (n, 3, px, px) to features float32 (n, dim), with as many threads as PyTorch."""
    properties = {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1, "ENABLE_CPU_PINNING": False}
    properties["INFERENCE_NUM_THREADS"] = torch.get_num_threads()
    compiled = _get_core().compile_model(model, "CPU", properties)

    def run(pixels: torch.Tensor) -> torch.Tensor:
        (features,) = compiled(pixels.numpy(), share_inputs=True).values()
        return torch.from_numpy(features)

    return run


def _keep(folder: Path, model: Any, obstacle: str) -> None:
    """Writes a converted network, or why there is none, and removes those that were written longest ago."""
    if _read_verdict(folder) is None:  # damaged, where there is one; another process may have been faster
        shutil.rmtree(folder, ignore_errors=True)
    with suppress(FileExistsError), make_new_folder(folder) as new:
        verdict = {"obstacle": obstacle, "digest": ""}
        if not obstacle:
            _import_openvino().save_model(model, new / _MODEL, compress_to_fp16=False)
            verdict["digest"] = _digest(new)
        (new / _VERDICT).write_text(json.dumps(verdict))
    for abandoned in folder.parent.glob(".*.tmp"):
        if time.time() - abandoned.stat().st_mtime > _STALE_S:
            shutil.rmtree(abandoned, ignore_errors=True)
    sizes = {one: sum(file.stat().st_size for file in one.glob("model.*")) for one in folder.parent.glob("[!.]*")}
    for one in sorted(sizes, key=lambda one: one.stat().st_mtime):
        if sum(sizes.values()) > _MOST_BYTES and one != folder:
            shutil.rmtree(one, ignore_errors=True)
            sizes[one] = 0


def _read_verdict(folder: Path) -> dict[str, str] | None:
    """What was written of a network; None if nothing was, or if it is damaged."""
    try:
        verdict: dict[str, str] = json.loads((folder / _VERDICT).read_bytes())
        return verdict if verdict["obstacle"] or verdict["digest"] == _digest(folder) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _digest(folder: Path) -> str:
    digest = blake2b(digest_size=16)
    for name in (_MODEL, _WEIGHTS):
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()


def _import_openvino() -> Any:
    """OpenVINO without the telemetry that its import and its converter send to their makers unless one opts out."""
    with require_extra("fast", needed_for="The backend openvino"), _untold():
        import openvino
        import openvino.frontend
    return openvino


@contextmanager
def _untold() -> Iterator[None]:
    """``openvino_telemetry`` cannot be imported in the block, for which OpenVINO has a stub."""
    name = "openvino_telemetry"
    if name in sys.modules or OPENVINO in sys.modules:  # a program that has imported it itself
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
