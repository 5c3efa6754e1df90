"""Saved probes: a trained linear probe as a folder, its predictions on new images, and its export with its encoder.

``probe.json`` has the facts, ``probe.safetensors`` float64 ``coefficients`` (n_classes, dim), ``intercepts``
(n_classes,) and ``centre`` (dim,). The logits of features x are ``(x - centre) @ coefficients.T + intercepts``;
probabilities are their softmax, of tags their sigmoid. An attentive probe of maps has ``queries`` (m, channels) and
``values`` (m, channels, value_dim) too, and "pooling" among the facts; x is then what these read of a map
(:func:`zoo.evaluation.attention_pooling.compute_pooled_patches`). Files are checked by their SHA-256, the encoder by
the hashes of its weights and preprocessing.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..datasets.folders import make_unlabelled_images
from ..datasets.images import TAG_SEPARATOR, ImageSet
from ..datasets.rgb import DROP, WHITE
from ..encoders.exporting import collect_export_facts, require_onnx, write_onnx, write_torch
from ..encoders.processor import explain_memory_errors
from ..errors import DataError, QueryError, StoreError, ZooError
from ..features import Features
from ..features.backends import choose_backend
from ..features.computing import ComputedShard, ForwardSpec, GroupNetwork, choose_device, compute, get_number_type
from ..features.decoding import DecodingSpec
from ..features.maps import MapEncoder, MapGrid, parse_map_grid, parse_map_layer
from ..features.origin import Origin, format_storage, get_stored_type
from ..features.shards import Skipped
from ..features.store import hash_preprocess, hash_weights
from ..files import open_regular, replace_folder
from ..optional import require_extra
from ..progress import Progress, SilentProgress
from ..version import __version__
from .arrays import BLOCK_ROWS, check_finite_rows, check_rows, check_width
from .attention_pooling import compute_pooled_maps, compute_pooled_patches
from .drawing import Figure, save, use_style

with require_extra("evaluate", needed_for="A saved probe"):
    import numpy as np
    import safetensors
    import safetensors.numpy
    import torch
    from PIL import Image
    from scipy.special import expit, softmax

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FORMAT = "zoo-saved-probe-1"
DESCRIPTION, NUMBERS = "probe.json", "probe.safetensors"
MAP_KINDS = ("masks", "depth")
"""Kinds of probes of each place of a map."""
EXPORTS = {"torch": "model.pt2", "onnx": "model.onnx"}
"""Files of an exported network, by kind."""

_CHECKSUM = "checksum"
_FIGURES = ("confusion.png", "confusion.svg")
_KNOWN = {DESCRIPTION, NUMBERS, *EXPORTS.values(), f"{EXPORTS['onnx']}.data", *_FIGURES}
_TENSORS = ("centre", "coefficients", "intercepts")
_OF_POOLING = ("queries", "values")
_SHARD = 1024  # images whose features are in memory at a time
Load = Callable[[str], tuple[torch.nn.Module, Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Predictions:
    """Predictions on images."""

    names: tuple[str, ...]  # of the images that could be read: paths, or numbers
    classes: tuple[str, ...]  # or tags
    probabilities: Floats  # (n, n_classes): of classes they add up to 1; of kind "numbers" the numbers, (n, 1)
    skipped: tuple[Skipped, ...] = ()  # images that could not be read
    kind: str = "classes"  # or "tags" or "numbers", as of the probe

    @property
    def predicted(self) -> tuple[str, ...]:
        """The most probable class of each image, or its number; of tags those above a half, "" for none."""
        if self.kind == "numbers":
            return tuple(f"{number:.6g}" for number in self.probabilities[:, 0].tolist())
        if self.kind == "tags":
            named = [
                [tag for tag, has in zip(self.classes, row, strict=True) if has] for row in self.probabilities > 0.5
            ]
            return tuple(TAG_SEPARATOR.join(tags) for tags in named)
        return tuple(self.classes[c] for c in self.probabilities.argmax(axis=1).tolist())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MapPooling:
    """What an attentive probe reads of maps, before its linear classifier."""

    queries: Floats  # (m, channels); without a query the average alone
    values: Floats  # (m, channels, value_dim)
    class_token: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class SavedProbe:
    """A linear probe that is trained, with the encoder that it belongs to.

    Attributes
    ----------
    encoder : str
        Id, with its representation if it is not that of the card.
    origin : dict
        Hashes and facts of the features that it was trained on: weights_hash, preprocess_hash, representation,
        precision, code_version.
    kind : str
        "classes", one of which an image has, "tags", of which it has any number, or "numbers".
    classes : tuple of str
        Their names; of numbers the one of what they measure.
    coefficients, intercepts, centre : float64 arrays, shapes (n_classes, dim), (n_classes,) and (dim,)
    about : dict
        For JSON: protocol, seed, labels, what was chosen, images, metrics with intervals, versions.
    scale : (float, float) or None
        The values that are black and white, of images with more than 8 bits per channel, as for those of the training.
    background : str
        The colour that transparent parts of images are shown over, or "drop", as for those of the training.
    load : callable
        From the id to encoder and preprocessing; :func:`zoo.load` by default.
    pooling : MapPooling or None
        Of an attentive probe, whose features are flattened maps; dim of the arrays is then what it reads.
    """

    encoder: str
    origin: dict[str, str]
    kind: str
    classes: tuple[str, ...]
    coefficients: Floats
    intercepts: Floats
    centre: Floats
    about: dict[str, Any] = field(default_factory=dict)
    scale: tuple[float, float] | None = None
    background: str = WHITE
    load: Load | None = None
    pooling: MapPooling | None = None

    @property
    def dim(self) -> int:
        """Dimensions of the features."""
        return len(self.centre) if self.pooling is None else self.grid.width

    @property
    def grid(self) -> MapGrid:
        """Of the maps; QueryError if the probe is of none."""
        return parse_map_grid(self.origin["representation"])

    def predict_proba(self, features: Any) -> Floats:
        """Probabilities of features, float64 (n, n_classes); the number of each, (n, 1), by a probe of numbers.

        Parameters
        ----------
        features : float array, shape (n, dim), or Features
            Of the encoder of the probe; of :class:`~zoo.features.Features` that is checked.

        Raises
        ------
        DataError
            If they have other dimensions, a number is not finite, or they are of another encoder.
        """
        if isinstance(features, Features):
            self._require_same(features.origin)
            features = features.x
        rows = check_width(check_rows(features, "x"), self.dim, "x", "the probe")
        if self.pooling is not None:
            own = self.pooling
            rows = compute_pooled_maps(rows, own.queries, own.values, class_token=own.class_token)
        found: Floats = np.empty((rows.shape[0], len(self.classes)))
        for start in range(0, len(found), BLOCK_ROWS):
            x = check_finite_rows(rows[start : start + BLOCK_ROWS], "x", first=start).astype(np.float64)
            logits = (x - self.centre) @ self.coefficients.T + self.intercepts
            shares: Any = {"classes": partial(softmax, axis=1), "tags": expit}.get(self.kind, np.asarray)
            found[start : start + len(x)] = shares(logits)
        return found

    def predict_images(
        self,
        images: ImageSet | Sequence[Any],
        *,
        batch_size: int = 64,
        device: str | None = None,
        n_workers: int = 0,
        backend: str = "auto",
        skip_corrupt: bool = False,
        progress: Progress | None = None,
        keep: Callable[[Predictions], None] | None = None,
    ) -> Predictions:
        """Predictions on images, which go through the encoder of the probe and its preprocessing.

        Parameters
        ----------
        images : ImageSet, or sequence of PIL images, uint8 arrays (height, width[, 3]) or paths
        batch_size, device, n_workers, backend, skip_corrupt, progress
            As for :func:`zoo.features.featurise`.
        keep : callable, optional
            Called with the predictions on about a thousand images at a time, which then are not held in memory: what is
            returned has no image.

        Raises
        ------
        CorruptImage
            If an image cannot be read, and none is to be skipped.
        DataError
            If there is no image, or the encoder that is loaded is not the one that the probe was trained on.
        WeightsUnavailable
            If the weights of the encoder cannot be had.
        """
        shown = images
        if not isinstance(shown, ImageSet):
            shown = make_unlabelled_images(shown, scale=self.scale, background=self.background)
        if not len(shown):
            raise DataError(f"The image set {shown.name!r} holds no image; there is nothing to predict.")
        if batch_size < 1 or n_workers < 0:
            raise QueryError(f"Got batch_size {batch_size} and n_workers {n_workers}; expected at least 1 and 0.")
        encoder, preprocess = self.network
        precision = get_number_type(encoder, _asked_precision(self.origin["precision"]))
        network = GroupNetwork(encoder=encoder, name=self.encoder, precision=precision)
        decoding, computing_device = DecodingSpec(shown, preprocess), choose_device(encoder, device)
        how: dict[str, Any] = {"device": computing_device, "wanted": backend, "n_images": len(shown)}
        forward = ForwardSpec(
            networks=(choose_backend(network, decoding, weights_hash=self.origin["weights_hash"], **how),),
            decoding=decoding,
            device=computing_device,
            batch_size=batch_size,
            n_workers=n_workers,
            shard_size=max(_SHARD // batch_size, 1) * batch_size,
            skip_corrupt=skip_corrupt,
            progress=progress or SilentProgress(),
        )
        parts: list[Predictions] = []

        def kept(part: ComputedShard) -> None:
            found = Predictions(
                names=tuple(shown.names[position] for position in part.positions),
                classes=self.classes,
                probabilities=self.predict_proba(part.x) if len(part.x) else np.empty((0, len(self.classes))),
                skipped=part.skipped,
                kind=self.kind,
            )
            (keep or parts.append)(found)

        forward.progress.start(f"{self.encoder}, {shown.name}", len(shown), 0)
        try:
            with explain_memory_errors(forward.batch_size, forward.device):
                compute(forward, range(forward.n_shards), kept)
        finally:
            forward.progress.end()
        return Predictions(
            names=tuple(name for part in parts for name in part.names),
            classes=self.classes,
            probabilities=np.concatenate([np.empty((0, len(self.classes))), *(part.probabilities for part in parts)]),
            skipped=tuple(one for part in parts for one in part.skipped),
            kind=self.kind,
        )

    @cached_property
    def network(self) -> tuple[torch.nn.Module, Any]:
        """The encoder and its preprocessing, once they are those that the probe was trained on."""
        from ..loading import load, load_for_whole_images

        if self.kind in MAP_KINDS and self.load is None:
            encoder, preprocess, _ = load_for_whole_images(self.encoder, px=self.about["px"])
        else:
            encoder, preprocess = (self.load or load)(self.encoder)
        found = {"weights_hash": hash_weights(encoder), "preprocess_hash": hash_preprocess(preprocess)}
        for name, what in (("weights_hash", "weights"), ("preprocess_hash", "preprocessing")):
            if found[name] != self.origin[name]:
                raise DataError(
                    f"The {what} of {self.encoder!r} here are not those that the probe was trained on (hash "
                    f"{found[name][:12]} and {self.origin[name][:12]}), so that its predictions would be wrong; "
                    "restore them, or train and save the probe again."
                )
        encoder = encoder.eval()
        return encoder if self.pooling is None else self._read_maps(encoder, preprocess), preprocess

    def _read_maps(self, encoder: torch.nn.Module, preprocess: Any) -> MapEncoder:
        """The encoder up to the maps of the probe."""
        layer = parse_map_layer(self.origin["representation"])
        size = preprocess(Image.new("RGB", (256, 256))).shape[-2:]
        found = MapEncoder(encoder, (layer,), size=size, class_token=self.grid.has_class_token)
        if found.grids[0] != self.grid:
            raise DataError(
                f"The maps of {self.encoder!r} here are {found.names[0]!r} and the probe was trained on "
                f"{self.origin['representation']!r}; expected the same size of images."
            )
        return found

    def module(self) -> torch.nn.Module:
        """Encoder and probe as one network: from normalised images float32 (n, 3, px, px) to probabilities float32.

        Of masks of each pixel, (n, n_classes, px, px); of depth the depth, (n, 1, px, px).
        """
        if self.kind in MAP_KINDS:
            from .segmentation import EncoderWithMapProbe

            return EncoderWithMapProbe(self.network[0], self)
        return EncoderWithProbe(self.network[0], self)

    def export_torch(self, path: str | Path) -> Path:
        """Writes encoder and probe as a program of ``torch.export``, for any number of images.

        ``torch.export.load(path).module()`` takes what the preprocessing makes of images, float32 (n, 3, px, px), and
        gives what :meth:`module` gives. Nothing of the zoo is needed to run it; the names of the classes are in its
        extra file ``about.json``.

        Raises
        ------
        DataError, WeightsUnavailable
            As for :meth:`predict_images`.
        StoreError
            If the file cannot be written.
        """
        return write_torch(self.module().to("cpu").eval(), self._facts(), Path(path))

    def export_onnx(self, path: str | Path) -> Path:
        """Writes encoder and probe as an ONNX model, with the input ``images`` and the output ``probabilities``
        (``prediction`` of a probe of numbers or of depth).

        Shapes and errors are those of :meth:`export_torch`; the names of the classes are in its metadata, as JSON under
        ``classes``, and what :meth:`zoo.encoders.encoder.Encoder.to_onnx` says of the encoder. QueryError also if the
        model gives other probabilities; MissingExtra without the libraries of the extra ``onnx``.
        """
        return write_onnx(
            self.module().to("cpu").eval(),
            self._facts(),
            Path(path),
            output="prediction" if self.kind in ("numbers", "depth") else "probabilities",
        )

    def _facts(self) -> dict[str, Any]:
        """What whoever runs an exported network needs to know."""
        encoder, preprocess = self.network
        px = int(preprocess(Image.new("RGB", (256, 256))).shape[-1])
        own = {"encoder": self.encoder, "kind": self.kind, "classes": list(self.classes), "px": px}
        return collect_export_facts(encoder) | own | {"preprocessing": repr(preprocess)}

    def _require_same(self, origin: Origin) -> None:
        there = {name: getattr(origin, name) for name in self.origin} | {"code_version": _number(origin.code_version)}
        mine = self.origin | {"code_version": _number(self.origin["code_version"])}
        different = sorted(name for name, value in mine.items() if there[name] != value)
        if origin.encoder != self.encoder or different:
            raise DataError(
                f"The features are of {origin.encoder!r} and the probe was trained on {self.encoder!r}"
                f"{'; they differ in ' + ', '.join(different) if different else ''}; expected features of the same "
                "encoder, weights and preprocessing."
            )


class EncoderWithProbe(torch.nn.Module):
    """An encoder and a linear probe of its features, from normalised images to probabilities."""

    centre: torch.Tensor
    coefficients: torch.Tensor
    intercepts: torch.Tensor
    queries: torch.Tensor
    values: torch.Tensor

    def __init__(self, encoder: torch.nn.Module, probe: SavedProbe) -> None:
        super().__init__()
        self.encoder = encoder
        self.kind = probe.kind
        self.pooling = probe.pooling
        self.shape: tuple[int, ...] = ()
        for name in _TENSORS:
            self.register_buffer(name, torch.from_numpy(getattr(probe, name)).float())
        if probe.pooling is not None:
            self.shape = (probe.grid.n_places, probe.grid.channels)
            for name in _OF_POOLING:
                self.register_buffer(name, torch.from_numpy(getattr(probe.pooling, name)).float())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Probabilities, float32 (n, n_classes), or numbers (n, 1)."""
        features = self.encoder(images).float()
        if self.pooling is not None:
            maps = features.unflatten(1, self.shape)
            features = compute_pooled_patches(maps, self.queries, self.values, class_token=self.pooling.class_token)
        logits = torch.nn.functional.linear(features - self.centre, self.coefficients, self.intercepts)
        if self.kind == "numbers":
            return logits
        return torch.sigmoid(logits) if self.kind == "tags" else torch.softmax(logits, dim=1)


def make_saved_probe(
    fitted: Any,
    train: Features,
    *,
    about: Mapping[str, Any] | None = None,
) -> SavedProbe:
    """A linear probe fitted to ``train``, as it can be saved, with facts ``about`` it for JSON.

    ``fitted`` has ``coef_``, ``intercept_`` and ``classes_``; QueryError if it has none, such as a vote of nearest
    neighbours.
    """
    if not all(hasattr(fitted, name) for name in ("coef_", "intercept_", "classes_")):
        raise QueryError(
            f"A {type(fitted).__name__} cannot be saved, for it has no coefficients; expected a fitted linear probe: "
            "LogisticProbe, StreamedProbe, or scikit-learn's LogisticRegression."
        )
    weights, intercepts = np.asarray(fitted.coef_, np.float64), np.asarray(fitted.intercept_, np.float64)
    if len(weights) == 1 and len(fitted.classes_) == 2:  # scikit-learn has the difference only
        weights, intercepts = np.concatenate([-weights, weights]) / 2, np.concatenate([-intercepts, intercepts]) / 2
    numbers = [int(number) for number in fitted.classes_]
    names = tuple(train.classes[number] if train.classes else str(number) for number in numbers)
    return make_probe(train, "classes", names, weights, intercepts, about=about, pooling=_get_pooling(fitted))


def _get_pooling(fitted: Any) -> MapPooling | None:
    if not hasattr(fitted, "queries_"):
        return None
    return MapPooling(queries=fitted.queries_, values=fitted.values_, class_token=fitted.class_token)


def make_probe(
    train: Features,
    kind: str,
    classes: tuple[str, ...],
    weights: Floats,
    intercepts: Floats,
    *,
    about: Mapping[str, Any] | None = None,
    pooling: MapPooling | None = None,
) -> SavedProbe:
    """A probe of weights (n_classes, dim) and intercepts (n_classes,) of the features that ``train`` has.

    QueryError if they are maps on principal components, of which no probe can be saved.
    """
    if pooling is None:
        centre = compute_mean(train)
    else:
        parse_map_layer(train.origin.representation)
        read = compute_pooled_maps(train.x, pooling.queries, pooling.values, class_token=pooling.class_token)
        centre = read.mean(axis=0)
    return SavedProbe(
        encoder=train.origin.encoder,
        origin=describe_origin(train.origin),
        kind=kind,
        classes=classes,
        coefficients=weights,
        intercepts=intercepts + weights @ centre,
        centre=centre,
        pooling=pooling,
        about={**(about or {}), "versions": get_library_versions()},
    )


def compute_mean(features: Features) -> Floats:
    """The mean of each dimension, float64 (dim,); centred numbers lose no digits to large means."""
    total = np.zeros(features.dim)
    for x, _ in features.batches(BLOCK_ROWS):
        total += np.asarray(x, np.float64).sum(axis=0)
    return total / len(features)


def describe_origin(origin: Origin) -> dict[str, str]:
    """What decides features, of their origin."""
    names = ("weights_hash", "preprocess_hash", "representation", "precision", "code_version")
    return {name: getattr(origin, name) for name in names}


def get_library_versions() -> dict[str, str]:
    """Of the libraries that made a probe."""
    return {"ssl-zoo": __version__} | {name: version(name) for name in ("numpy", "scikit-learn", "torch")}


def save_probe(
    probe: SavedProbe, folder: str | Path, *, figures: Sequence[Figure] = (), export: Sequence[str] = ()
) -> Path:
    """Writes a probe to a folder, whole or not at all; an earlier probe of the same encoder there is replaced.

    Parameters
    ----------
    folder : path
        Absent, empty, or an earlier probe of the same encoder and nothing else.
    figures : sequence of Figure, optional
        Drawn next to it, such as :func:`~zoo.evaluation.classification.make_confusion_figure`.
    export : sequence of {"torch", "onnx"}, optional
        Also the network: encoder and probe together, after the probe is there, which stays whatever becomes of it.

    Raises
    ------
    QueryError
        If the folder holds anything else.
    StoreError
        If it cannot be written; then it is as it was.
    """
    target = Path(os.path.realpath(folder))
    require_place(target, probe.encoder)
    require_exporters(export)
    tensors = {name: np.ascontiguousarray(getattr(probe, name)) for name in _TENSORS}
    if probe.pooling is not None:
        tensors |= {name: np.ascontiguousarray(getattr(probe.pooling, name)) for name in _OF_POOLING}
    numbers = safetensors.numpy.save(tensors, metadata={"format": FORMAT})
    facts = {
        "format": FORMAT,
        "encoder": probe.encoder,
        "origin": probe.origin,
        "kind": probe.kind,
        "classes": list(probe.classes),
        "dim": probe.dim,
        **({} if probe.pooling is None else {"pooling": {"class_token": probe.pooling.class_token}}),
        "scale": None if probe.scale is None else list(probe.scale),
        "background": probe.background,
        "numbers": {"file": NUMBERS, "sha256": hashlib.sha256(numbers).hexdigest(), "size_bytes": len(numbers)},
        "about": probe.about,
    }
    temporary = target.parent / f".{target.name}-{secrets.token_hex(4)}.tmp"
    try:
        temporary.mkdir(parents=True)
        for figure in figures:
            with use_style():
                save(figure.draw(), temporary / figure.name)
        for name, content in ((NUMBERS, numbers), (DESCRIPTION, _described(facts))):
            with open(temporary / name, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        replace_folder(temporary, target)
    except OSError as error:
        raise StoreError(
            f"The probe of {probe.encoder!r} cannot be written to {target} ({error.strerror or error}); nothing was "
            "changed there, make room or name another folder."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for kind in export:
        try:
            {"torch": probe.export_torch, "onnx": probe.export_onnx}[kind](target / EXPORTS[kind])
        except ZooError as error:
            raise type(error)(f"The probe is saved in {target}, but not its export: {error}") from error
    return target


def require_place(folder: str | Path, encoder: str) -> None:
    """Refuses a folder with anything but an earlier probe of this encoder, before anything is computed."""
    target = Path(os.path.realpath(folder))
    if not os.path.lexists(folder):
        return
    if not target.is_dir():
        raise QueryError(f"{folder} is no folder, expected one to save a probe in; choose another name.")
    names = {entry.name for entry in target.iterdir()}
    if others := sorted(names - _KNOWN):
        raise QueryError(
            f"{folder} holds {others[0]!r}, which is of no saved probe, and nothing is overwritten; choose another "
            "folder."
        )
    if names:
        there = _description(target).get("encoder")
        if there != encoder:
            raise QueryError(
                f"{folder} holds a probe of {there!r}, and nothing of another encoder is overwritten; choose another "
                f"folder for the one of {encoder!r}."
            )


def require_exporters(kinds: Sequence[str]) -> None:
    """Refuses to export what the libraries for are missing, before anything is computed."""
    if unknown := sorted(set(kinds) - EXPORTS.keys()):
        raise QueryError(f"There is no export to {unknown[0]!r}; expected one of {', '.join(EXPORTS)}.")
    if "onnx" in kinds:
        require_onnx()


def load_probe(folder: str | Path, *, load: Load | None = None) -> SavedProbe:
    """A probe that was saved, checked; its encoder is loaded when images are to be predicted.

    Parameters
    ----------
    folder : path
        As :func:`save_probe` or ``zoo evaluate --save`` has written it.
    load : callable, optional
        From the id of the encoder to encoder and preprocessing; :func:`zoo.load` by default.

    Raises
    ------
    DataError
        If it holds no probe, one of another version, or a file is missing or changed; says which.
    """
    source = Path(folder)
    facts = _description(source)
    try:
        expected = facts["numbers"]["sha256"]
        with open_regular(source / NUMBERS) as file:
            content = file.read()
        if hashlib.sha256(content).hexdigest() != expected:
            raise ValueError("its SHA-256 is not the one that is recorded")
        tensors = safetensors.numpy.load(content)
        of_pooling = facts.get("pooling")
        if set(tensors) != {*_TENSORS, *(_OF_POOLING if of_pooling else ())}:
            raise ValueError(f"it holds {', '.join(sorted(tensors))}")
    except OSError as error:
        raise _damaged(source, NUMBERS, error.strerror or error) from error
    except (ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
        raise _damaged(source, NUMBERS, error) from error
    try:
        pooling = None
        if of_pooling:
            queries, values = (tensors.pop(name) for name in _OF_POOLING)
            pooling = MapPooling(queries=queries, values=values, class_token=bool(of_pooling["class_token"]))
        return SavedProbe(
            pooling=pooling,
            encoder=facts["encoder"],
            origin=dict(facts["origin"]),
            kind=facts["kind"],
            classes=tuple(facts["classes"]),
            about=facts["about"],
            scale=None if facts["scale"] is None else tuple(facts["scale"]),
            background=facts.get("background", DROP),  # as it was before there was a choice
            load=load,
            **tensors,
        )
    except (KeyError, TypeError) as error:
        raise _damaged(source, DESCRIPTION, error) from error


def _described(facts: dict[str, Any]) -> bytes:
    checksum = hashlib.sha256(_json(facts)).hexdigest()
    return _json(facts | {_CHECKSUM: checksum})


def _json(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _description(folder: Path) -> dict[str, Any]:
    try:
        with open_regular(folder / DESCRIPTION) as file:
            content = file.read()
    except OSError as error:
        raise DataError(
            f"{folder} holds no saved probe ({DESCRIPTION}: {error.strerror or error}); 'zoo evaluate NAME IMAGES "
            "--save DIR' writes one."
        ) from error
    try:
        facts = json.loads(content)
        if not isinstance(facts, dict):
            raise ValueError("it is no table")
    except (ValueError, RecursionError) as error:
        raise _damaged(folder, DESCRIPTION, error) from error
    if facts.get("format") != FORMAT:
        raise DataError(
            f"{folder} holds no probe that this version reads (format {facts.get('format')!r}, expected {FORMAT!r}); "
            "save it again."
        )
    checksum = facts.pop(_CHECKSUM, None)
    if hashlib.sha256(_json(facts)).hexdigest() != checksum:
        raise _damaged(folder, DESCRIPTION, "its checksum differs")
    return facts


def _damaged(folder: Path, name: str, reason: object) -> DataError:
    return DataError(
        f"The saved probe in {folder} is damaged or was changed ({name}: {reason}); restore the file, or save the "
        "probe again."
    )


def _number(code_version: str) -> str:
    """The part of a version of the featurising code that decides."""
    return code_version.rpartition(",")[2].strip()


def _asked_precision(name: str) -> str:
    """The precision to ask for; weights that are stored in half precision compute in that by themselves."""
    computed = name.removesuffix(format_storage("", get_stored_type(name)))
    _, weights, rest = computed.partition(" weights")
    return f"float32{rest}" if weights else computed
