"""Whether an encoder still computes its first features: weights, preprocessing and libraries together.

When the weights of an encoder are loaded for the first time, its features of four bundled images are stored next to
them, as ``checks/ID.safetensors`` in the folder of weights; :func:`compare_features` computes them again. The verdict
depends on the largest relative difference over the images, ``|now - then| / |then|``: "same" if every number is the
same, "within rounding" up to :data:`TOLERANCE`, else "drifted".

Measured on nine architectures with random weights: other threads, kernels and instruction sets move features by up to
1.1e-5. Errors that must be detected move them by at least 2e-2 (bilinear for bicubic), 1e-2 (a resize to one pixel
more), 5e-4 (another standard deviation; the tensor resized instead of the image) and 4e-4 (half precision).
"""

from __future__ import annotations

import datetime
import json
import math
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .cards.schema import EncoderCard
from .errors import DataError, StoreError
from .files import replace_file
from .optional import require_extra
from .version import find_library_version
from .weights.locations import get_weights_folder

with require_extra("models", needed_for="Checking features"):
    import torch
    from PIL import Image
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save

if TYPE_CHECKING:
    from .encoders import Encoder
    from .loading import StoredWeights

TOLERANCE = 1e-4  # largest relative difference that rounding explains
IMAGES = ("landscape", "portrait", "badge", "sign")  # rendered by scripts/check_images.py, which explains them

_FORMAT = "zoo-check-1"  # counts changes of the images, and of what is recorded
_LIBRARIES = ("torch", "torchvision", "timm", "pillow")
_ABSENT = "not installed"
_STEPS_APART = 0.005  # share of quantised dimensions that are ignored, for they may round to the next step

Preprocess: TypeAlias = Callable[[Image.Image], torch.Tensor]
Verdict: TypeAlias = Literal["same", "within rounding", "drifted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingCircumstances:
    """What features were computed with."""

    weights: str  # sha256 of the converted file, or the seed of random ones
    preprocess: str  # the transforms, as text
    machine: str  # "x86_64, cpu"
    versions: dict[str, str]  # by library
    day: str  # as 2026-01-31


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRecording:
    """Features of the bundled images."""

    features: dict[str, torch.Tensor]  # by name of the image: float32 (dim,), on the CPU
    circumstances: RecordingCircumstances


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDifference:
    """How the features of one image differ from those recorded; infinite where a number is not finite."""

    image: str
    absolute: float  # largest difference of one dimension
    relative: float  # length of the difference over the length of the recorded features
    cosine: float


@dataclass(frozen=True, slots=True)
class CircumstanceChange:
    """A circumstance that has changed since the recording."""

    what: str
    then: str
    now: str


@dataclass(frozen=True, slots=True)
class RegressionCheck:
    """The features of one encoder, compared with its recording."""

    encoder: str
    verdict: Verdict
    day: str  # of the recording
    images: tuple[ImageDifference, ...]  # empty if the features have another number of dimensions
    changes: tuple[CircumstanceChange, ...]


def remember_features(
    card: EncoderCard, stored: StoredWeights | None, encoder: Encoder, preprocess: Preprocess
) -> None:
    """Records the features of an encoder that was just loaded for the first time, unless there is a recording."""
    if not get_recording_path(card).exists():
        keep_recording(card, compute_recording(stored, encoder, preprocess))


def compare_features(
    card: EncoderCard, stored: StoredWeights | None, encoder: Encoder, preprocess: Preprocess, *, record: bool = False
) -> RegressionCheck | None:
    """Compares the features of an encoder with its recording; None if there is none, which is then made.

    ``stored`` is None for an untrained encoder, whose random weights of seed 0 are compared. ``record`` replaces the
    recorded features, also damaged ones.
    """
    try:
        then = _recorded(card)
    except StoreError:
        if not record:
            raise
        then = None
    now = compute_recording(stored, encoder, preprocess)
    if record or then is None:
        keep_recording(card, now)
    return None if then is None else _compared(card, then, now)


def compute_recording(stored: StoredWeights | None, encoder: Encoder, preprocess: Preprocess) -> FeatureRecording:
    """The features of the bundled images here and now, on the device of the encoder."""
    device = next(encoder.parameters()).device
    with torch.no_grad(), torch.autocast(device.type, enabled=False), use_full_precision():
        inputs = {name: preprocess(_bundled(name)).unsqueeze(0).to(device) for name in IMAGES}
        # one by one, as another size of batch may take other kernels
        features = {name: encoder(images)[0].float().cpu() for name, images in inputs.items()}
    circumstances = RecordingCircumstances(
        weights="random, seed 0" if stored is None else f"sha256 {stored.record.sha256}",
        preprocess=" ".join(repr(preprocess).split()),
        machine=f"{platform.machine()}, {device.type}",
        versions={library: find_library_version(library) or _ABSENT for library in _LIBRARIES},
        day=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
    )
    return FeatureRecording(features=features, circumstances=circumstances)


def _compared(card: EncoderCard, then: FeatureRecording, now: FeatureRecording) -> RegressionCheck:
    """Two recordings of one encoder, the later one compared with the earlier one."""
    left_out = _STEPS_APART if card.representation.is_quantised else 0.0
    changes = _changes(then.circumstances, now.circumstances)
    dims = [str(len(recording.features[IMAGES[0]])) for recording in (then, now)]
    if dims[0] != dims[1]:
        changes, images = [CircumstanceChange("dimensions", *dims), *changes], []
    else:
        images = [_image_drift(name, then.features[name], now.features[name], left_out=left_out) for name in IMAGES]
    return RegressionCheck(card.id, _verdict(images), then.circumstances.day, tuple(images), tuple(changes))


def get_recording_path(card: EncoderCard) -> Path:
    """Path of the recording of an encoder, which may not exist."""
    return get_weights_folder() / "checks" / f"{card.id}.safetensors"


def _recorded(card: EncoderCard) -> FeatureRecording | None:
    """The recording of an encoder; None if there is none, or one of other images than this version of the zoo has."""
    path = get_recording_path(card)
    remedy = f"run 'zoo check {card.id} --record' to record its features again"
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("format") != _FORMAT:
                return None
            features = {name: file.get_tensor(name) for name in IMAGES}
    except FileNotFoundError:
        return None
    except (SafetensorError, OSError) as error:
        raise StoreError(f"The recorded features {path} cannot be read ({error}); {remedy}.") from error
    text = header.get("circumstances", "")
    if header.get("checksum") != _checksum(features, text):
        raise StoreError(f"The recorded features {path} are damaged (their checksum differs); {remedy}.")
    return FeatureRecording(features=features, circumstances=RecordingCircumstances(**json.loads(text)))


def require_finite(card: EncoderCard, recording: FeatureRecording) -> None:
    """Refuses features that are not finite."""
    broken = [name for name, numbers in recording.features.items() if not numbers.isfinite().all()]
    if broken:
        raise DataError(
            f"The features of {card.id!r} are not finite for the bundled image {broken[0]!r}, so that its weights, or "
            "its preprocessing, cannot be right; nothing was recorded."
        )


def keep_recording(card: EncoderCard, recording: FeatureRecording) -> None:
    """Writes a recording of finite features; one that is there is replaced, or stays if that fails."""
    require_finite(card, recording)
    path = get_recording_path(card)
    text = json.dumps(asdict(recording.circumstances), sort_keys=True)
    header = {"format": _FORMAT, "circumstances": text, "checksum": _checksum(recording.features, text)}
    try:
        with replace_file(path) as file:
            file.write(save(recording.features, metadata=header))
    except OSError as error:
        raise StoreError(
            f"The features of {card.id!r} cannot be recorded in {path.parent} ({error.strerror or error}); free some "
            "space there, or make it writable."
        ) from error


def _checksum(features: dict[str, torch.Tensor], text: str) -> str:
    digest = blake2b(text.encode(), digest_size=16)
    for name in sorted(features):
        digest.update(f"\0{name}\0".encode() + features[name].numpy().tobytes())
    return digest.hexdigest()


def _image_drift(name: str, then: torch.Tensor, now: torch.Tensor, *, left_out: float) -> ImageDifference:
    """Differences of the features of one image; the relative one without the share ``left_out`` that differs most."""
    before, after = then.double(), now.double()
    differences = (after - before).abs().sort().values
    largest = float(differences[-1])
    n_compared = len(differences) - int(left_out * len(differences))
    cosine = 1.0 if torch.equal(before, after) else float(torch.cosine_similarity(before, after, dim=0))
    if not math.isfinite(largest):
        return ImageDifference(image=name, absolute=math.inf, relative=math.inf, cosine=0.0)
    relative = float(differences[:n_compared].norm() / before.norm().clamp(min=1e-30))
    return ImageDifference(image=name, absolute=largest, relative=relative, cosine=cosine)


def _verdict(images: list[ImageDifference]) -> Verdict:
    if not images or any(image.relative > TOLERANCE for image in images):
        return "drifted"
    return "same" if all(image.absolute == 0 for image in images) else "within rounding"


def _changes(then: RecordingCircumstances, now: RecordingCircumstances) -> list[CircumstanceChange]:
    named = [(part, getattr(then, part), getattr(now, part)) for part in ("weights", "preprocess", "machine")]
    named += [(library, then.versions.get(library, _ABSENT), now.versions[library]) for library in _LIBRARIES]
    return [CircumstanceChange(what, before, after) for what, before, after in named if before != after]


def _bundled(image: str) -> Image.Image:
    with Image.open(Path(__file__).parent / "check_images" / f"{image}.png") as file:
        # without the transparency of one of them, as it was when the first features were recorded
        return file.convert("RGB") if file.mode == "RGBA" else file.copy()


@contextmanager
def use_full_precision() -> Iterator[None]:
    """All 24 bits of float32: GPUs shorten them in convolutions by default, and users may ask for that."""
    backends: Any = torch.backends
    full: Any = False
    owners, switch = [backends.cuda.matmul, backends.cudnn], "allow_tf32"
    if hasattr(backends, "fp32_precision"):  # since torch 2.9, which refuses to read the older ones along with these
        owners = [backends.cuda.matmul, backends.cudnn.conv, backends.mkldnn.matmul, backends.mkldnn.conv]
        switch, full = "fp32_precision", "ieee"
    before = [(owner, getattr(owner, switch)) for owner in owners]
    try:
        for owner in owners:
            setattr(owner, switch, full)
        yield
    finally:
        for owner, value in before:
            setattr(owner, switch, value)
