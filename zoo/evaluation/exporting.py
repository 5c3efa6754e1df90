"""Encoder and probe as one file that runs without the zoo: a program of torch, or an ONNX model.

Both take any number of normalised images, as the preprocessing makes them, and give probabilities. Of how many pixels
they are is fixed: it is the size that the preprocessing ends with.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import QueryError, StoreError
from ..files import replaced
from ..optional import requires_extra

with requires_extra("evaluate", needed_for="Exporting a probe"):
    import torch
    from PIL import Image

if TYPE_CHECKING:
    from .saved_probes import SavedProbe

_N_EXAMPLES = 2  # images that the network is traced with: with one, its number would be taken for fixed


def write_torch(probe: SavedProbe, path: Path) -> Path:
    """A program of ``torch.export``; its extra file about.json has :func:`facts_of`."""
    module, images, shapes = _traced(probe)
    with _quiet(), _refusing(probe):
        program = torch.export.export(module, (images,), dynamic_shapes=shapes)
    with _writing(path) as file:
        torch.export.save(program, file, extra_files={"about.json": json.dumps(facts_of(probe))})
    return path


def write_onnx(probe: SavedProbe, path: Path) -> Path:
    """An ONNX model in one file, whose metadata has :func:`facts_of`."""
    onnx = require_onnx()
    module, images, shapes = _traced(probe)
    with _quiet(), _refusing(probe):
        program: Any = torch.onnx.export(
            module,
            (images,),
            dynamo=True,
            dynamic_shapes=shapes,
            input_names=["images"],
            output_names=["probabilities"],
            verbose=False,
        )
    model = program.model_proto
    for name, value in facts_of(probe).items():
        model.metadata_props.add(key=name, value=value if isinstance(value, str) else json.dumps(value))
    with _writing(path) as file:
        file.write(model.SerializeToString())
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
def _refusing(probe: SavedProbe) -> Iterator[None]:
    """Says in a sentence that a network cannot be exported."""
    try:
        yield
    except (RuntimeError, torch.onnx.OnnxExporterError) as error:
        reason = str(error).strip().partition("\n")[0][:200]
        raise QueryError(
            f"The network of {probe.encoder!r} cannot be exported ({type(error).__name__}: {reason}); use the saved "
            "probe in Python or with 'zoo predict' instead."
        ) from error


@contextmanager
def _writing(path: Path) -> Iterator[Any]:
    try:
        with replaced(path) as file:
            yield file
    except OSError as error:
        raise StoreError(
            f"The exported network cannot be written to {path} ({error.strerror or error}); make room or name another "
            "file."
        ) from error
