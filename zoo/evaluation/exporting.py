"""Encoder and probe as one file that runs without the zoo: a program of torch, or an ONNX model.

Both take any number of normalised images, as the preprocessing makes them, and give probabilities. Of how many pixels
they are is fixed: it is the size that the preprocessing ends with.
"""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ..errors import QueryError, StoreError
from ..optional import requires_extra

with requires_extra("evaluate", needed_for="Exporting a probe"):
    import torch
    from PIL import Image

if TYPE_CHECKING:
    from .saved_probes import SavedProbe

MOST_ONNX_BYTES = 2_000_000_000
"""Of weights in the file of an ONNX model itself: protobuf writes no more than 2^31 bytes, with the graph."""

_N_EXAMPLES = 2  # images that the network is traced with: with one, its number would be taken for fixed


def write_torch(probe: SavedProbe, path: Path) -> Path:
    """A program of ``torch.export``; its extra file about.json has :func:`facts_of`."""
    module, images, shapes = _traced(probe)
    with _quiet(), _refusing(probe):
        program = torch.export.export(module, (images,), dynamic_shapes=shapes)
    with _writing(path) as file:
        torch.export.save(program, str(file), extra_files={"about.json": json.dumps(facts_of(probe))})
    return path


def write_onnx(probe: SavedProbe, path: Path) -> Path:
    """An ONNX model whose metadata has :func:`facts_of`; beside one of 2 GB or more the weights, in ``NAME.data``."""
    onnx = require_onnx()
    module, images, shapes = _traced(probe)
    with _quiet(), _refusing(probe):
        program: Any = torch.onnx.export(
            module,
            (images,),
            dynamo=True,
            dynamic_shapes=shapes,
            input_names=["images"],
            output_names=["prediction" if probe.kind == "numbers" else "probabilities"],
            verbose=False,
        )
    for name, value in facts_of(probe).items():
        program.model.metadata_props[name] = value if isinstance(value, str) else json.dumps(value)
    n_bytes = sum(value.const_value.nbytes for value in program.model.graph.initializers.values())
    with _writing(path) as file:
        program.save(str(file), external_data=n_bytes >= MOST_ONNX_BYTES)
    with _refusing(probe, onnx.checker.ValidationError):
        onnx.checker.check_model(str(path))
    return path


def require_onnx() -> Any:
    """The library onnx; MissingExtra without what torch's exporter needs."""
    with requires_extra("onnx", needed_for="Exporting to ONNX"):
        import onnx
        import onnxscript  # noqa: F401  (torch's exporter needs it)
    return onnx


def facts_of(probe: SavedProbe) -> dict[str, Any]:
    """What whoever runs an exported network needs to know."""
    _, preprocess = probe.network
    return {
        "encoder": probe.encoder,
        "kind": probe.kind,
        "classes": list(probe.classes),
        "px": int(_example(preprocess).shape[-1]),
        "preprocessing": repr(preprocess),
    }


def _example(preprocess: Any) -> torch.Tensor:
    """A grey image as the encoder gets it, (3, px, px)."""
    tensor: torch.Tensor = preprocess(Image.new("RGB", (256, 256), (128, 128, 128)))
    return tensor


def _traced(probe: SavedProbe) -> tuple[torch.nn.Module, torch.Tensor, Any]:
    _, preprocess = probe.network
    module = probe.module().to("cpu").eval()
    images = torch.stack([_example(preprocess)] * _N_EXAMPLES)
    return module, images, ({0: torch.export.Dim.DYNAMIC},)


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
def _refusing(probe: SavedProbe, *more: type[Exception]) -> Iterator[None]:
    """Says in a sentence that a network cannot be exported."""
    kinds: tuple[type[Exception], ...] = (RuntimeError, torch.onnx.OnnxExporterError, *more)
    try:
        yield
    except kinds as error:
        reason = str(error).strip().partition("\n")[0][:200]
        raise QueryError(
            f"The network of {probe.encoder!r} cannot be exported ({type(error).__name__}: {reason}); use the saved "
            "probe in Python or with 'zoo predict' instead."
        ) from error


@contextmanager
def _writing(path: Path) -> Iterator[Path]:
    """Where to write a file and what belongs beside it, which are moved to their place once they are whole."""
    try:
        with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-", suffix=".tmp") as folder:
            yield Path(folder) / path.name
            for file in sorted(Path(folder).iterdir(), reverse=True):  # what belongs beside it first
                os.replace(file, path.parent / file.name)
    except OSError as error:
        raise StoreError(
            f"The exported network cannot be written to {path} ({error.strerror or error}); make room or name another "
            "file."
        ) from error
