"""A network as one file that runs without the zoo: a program of torch, or an ONNX model.

Both take any number of normalised images, as the preprocessing makes them. Of how many pixels they are is fixed: it is
the size that the preprocessing ends with.
"""

from __future__ import annotations

import json
import logging
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..cards.schema import EncoderCard
from ..errors import QueryError, StoreError
from ..optional import require_extra
from ..weights.tensors import hash_weights

with require_extra("models", needed_for="Exporting a network"):
    import numpy as np
    import torch

if TYPE_CHECKING:
    from .encoder import Encoder

MOST_ONNX_BYTES = 2_000_000_000
"""Of weights in the file of an ONNX model itself: protobuf writes no more than 2^31 bytes, with the graph."""

TOLERANCE = 1e-4
"""Largest difference between an ONNX model and its network, as a share of the largest number that the network gives."""

_N_TRACED = 2  # images that the network is traced with: with one, its number would be taken for fixed


def write_encoder(encoder: Encoder, path: Path) -> Path:
    """An encoder as an ONNX model, which gives ``features``, (n, dim); QueryError if no card says how to use it."""
    first = next(encoder.parameters())
    if encoder.card is None or first.is_meta:
        found = "no weights, on 'meta'" if first.is_meta else "no card"
        raise QueryError(f"Got an encoder with {found}; expected one of zoo.load: 'zoo register' makes one of a file.")
    if encoder.training or (first.device.type, first.dtype) != ("cpu", torch.float32):
        encoder = deepcopy(encoder).to("cpu", torch.float32).eval()
    return write_onnx(encoder, collect_export_facts(encoder), path, output="features")


def collect_export_facts(encoder: torch.nn.Module) -> dict[str, Any]:
    """What whoever runs an encoder without the zoo needs to know; nothing of a network that no card describes."""
    card: EncoderCard | None = getattr(encoder, "card", None)
    if card is None:
        return {}
    return {
        "encoder": card.id,
        "weights_hash": hash_weights(encoder),
        "pooling": card.representation.layer,
        "dim": card.representation.dim,
        "px": card.preprocess.crop_px,
        "preprocess": asdict(card.preprocess),
    }


def write_torch(module: torch.nn.Module, facts: Mapping[str, Any], path: Path) -> Path:
    """A program of ``torch.export`` of a network on the CPU, in eval mode; its extra file about.json has the facts."""
    with _quiet(), _refusing(facts):
        images, any_number = _images(facts, _N_TRACED), ({0: torch.export.Dim.DYNAMIC},)
        program = torch.export.export(module, (images,), dynamic_shapes=any_number)
    with _writing(path) as file:
        torch.export.save(program, str(file), extra_files={"about.json": json.dumps(facts)})
    return path


def write_onnx(module: torch.nn.Module, facts: Mapping[str, Any], path: Path, *, output: str) -> Path:
    """An ONNX model of a network on the CPU, in eval mode, whose metadata has the facts: JSON but for plain strings.

    Next to one of 2 GB or more are the weights, in ``NAME.data``. A model that does not give what the network gives is
    refused, and nothing is written.
    """
    onnx = require_onnx()
    with _quiet(), _refusing(facts, torch.onnx.OnnxExporterError):
        program: Any = torch.onnx.export(
            module,
            (_images(facts, _N_TRACED),),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
            input_names=["images"],
            output_names=[output],
            verbose=False,
        )
    for name, value in facts.items():
        program.model.metadata_props[name] = value if isinstance(value, str) else json.dumps(value)
    n_bytes = sum(value.const_value.nbytes for value in program.model.graph.initializers.values())
    with _writing(path) as file:
        program.save(str(file), external_data=n_bytes >= MOST_ONNX_BYTES)
        with _refusing(facts, onnx.checker.ValidationError):
            onnx.checker.check_model(str(file))
        _require_equal(module, facts, file)
    return path


def require_onnx() -> Any:
    """The library onnx; MissingExtra without what exporting and comparing need."""
    with require_extra("onnx", needed_for="Exporting to ONNX"):
        import onnx
        import onnxruntime  # noqa: F401  (which the written model is compared by)
        import onnxscript  # noqa: F401  (torch's exporter needs it)
    return onnx


def _require_equal(module: torch.nn.Module, facts: Mapping[str, Any], file: Path) -> None:
    """Refuses a model that does not give what the network gives."""
    import onnxruntime

    states = onnxruntime.capi.onnxruntime_pybind11_state
    with _refusing(facts, states.Fail, states.InvalidArgument, states.InvalidGraph, states.NotImplemented):
        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        for n in (1, 3):
            images = _images(facts, n)
            (found,) = session.run(None, {"images": images.numpy()})
            with torch.inference_mode():
                expected = module(images).numpy()
            largest, apart = float(np.abs(expected).max()), float(np.abs(found - expected).max())
            if not apart <= TOLERANCE * largest:
                raise QueryError(
                    f"The ONNX model of {facts['encoder']!r} is off by {apart:.2g}, of numbers up to {largest:.4g}, "
                    f"expected at most {TOLERANCE * largest:.2g}; use the network in Python, or other versions of "
                    "torch and onnxruntime."
                )


def _images(facts: Mapping[str, Any], n: int) -> torch.Tensor:
    """Noise as normalised images, (n, 3, px, px), the same every time."""
    return torch.randn(n, 3, facts["px"], facts["px"], generator=torch.Generator().manual_seed(n))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the notes of torch's exporters on how they work."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    before = [one.level for one in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in loggers:
            one.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for one, level in zip(loggers, before, strict=True):
                one.setLevel(level)


@contextmanager
def _refusing(facts: Mapping[str, Any], *more: type[Exception]) -> Iterator[None]:
    """Says in a sentence that a network cannot be exported."""
    kinds: tuple[type[Exception], ...] = (RuntimeError, *more)
    try:
        yield
    except kinds as error:
        reason = re.sub(r"\x1b\[[\d;]*m", "", str(error)).strip().partition("\n")[0][:200]  # torch colours its own
        raise QueryError(
            f"The network of {facts['encoder']!r} cannot be exported ({type(error).__name__}: {reason}); use it in "
            "Python, and a saved probe also with 'zoo predict', instead."
        ) from error


@contextmanager
def _writing(path: Path) -> Iterator[Path]:
    """Where to write a file and what belongs next to it, which are moved to their place once they are whole."""
    try:
        with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-", suffix=".tmp") as folder:
            yield Path(folder) / path.name
            for file in sorted(Path(folder).iterdir(), reverse=True):  # what belongs next to it first
                os.replace(file, path.parent / file.name)
    except OSError as error:
        raise StoreError(
            f"The exported network cannot be written to {path} ({error.strerror or error}); make room or name another "
            "file."
        ) from error
