"""Folders of converted weights: the cache, the user's registered encoders and mirrors are all laid out alike.

``tensors/SHA256.safetensors`` are named by their content, ``records/KEY.json`` (where weights came from and how they
were converted; the first line is a checksum) by a hash of what went in: places, layout and its version, architecture.
The cache has ``mirrors/HASH/`` (copies of mirrors), ``checks/``, ``partial/`` and ``downloads/`` as well. Every file
appears whole or not at all. Headers of safetensors files are written and read here too, for weights and for features.
"""

from __future__ import annotations

import json
import math
import mmap
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..errors import StoreError, WeightsRefused, format_list
from ..files import replace_file
from .locations import format_location

_FORMAT = "zoo-record-1"
_OF_USER_FILES = ("selection", "reading")  # written if they are not empty: records of published files lack them
_N_LEFT_OUT_SHOWN = 6

REGISTERED = "zoo:"  # scheme of the places of registered encoders, before the SHA-256 of their converted weights


class ForeignRecord(StoreError):
    """A record in the format of another version of the zoo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOrigin:
    """One file as it was fetched."""

    place: str  # as the card names it
    address: str  # where it was downloaded from
    sha256: str
    size_bytes: int
    format: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """What was read from a user's file, and what was done to it; as text it is one sentence."""

    layout: str  # whose names the tensors have: "timm"
    checkpoint_key: str = ""  # where in the file they are: "state_dict_ema"; empty if the file is nothing else
    reason: str = ""  # why these, where others would fit as well
    others: tuple[str, ...] = ()  # where those others are: what checkpoint_key can be set to
    unwrapped: tuple[str, ...] = ()  # prefixes of wrappers that were removed: "module."
    left_out: tuple[str, ...] = ()  # what lies in addition to the encoder's tensors: heads, queues, other networks
    widened_from: tuple[str, ...] = ()  # types that became float32: "float16"
    is_found: bool = False  # that nobody named the layout, and it was searched for among all
    notes: tuple[str, ...] = ()  # what else was done or left open, in clauses

    def __str__(self) -> str:
        what = repr(self.checkpoint_key) if self.checkpoint_key else "the file"
        clauses = [f"{what} was read under the names of the layout {self.layout!r}"]
        if self.is_found:
            clauses[0] += ", the one that fits"
        if self.others:
            keys = " or ".join(f"checkpoint_key={other!r}" for other in self.others)
            clauses.append(f"taken is {self.reason}, {keys} takes the other{'s' if len(self.others) > 1 else ''}")
        if self.unwrapped:
            clauses.append(f"taken off: {', '.join(map(repr, self.unwrapped))}")
        if self.left_out:
            clauses.append(f"left out: {format_list(self.left_out, _N_LEFT_OUT_SHOWN)}")
        if self.widened_from:
            how = "rounded" if "float64" in self.widened_from else "widened"
            clauses.append(f"{how} to float32 from {' and '.join(self.widened_from)}")
        clauses += self.notes
        sentence = "; ".join(clauses)
        return f"{sentence[0].upper()}{sentence[1:]}."


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsRecord:
    """Provenance of one file of converted weights."""

    encoder: str  # id of the encoder that was loaded first; others may share the weights
    origins: tuple[FileOrigin, ...]  # the card's file, then its companions
    layout: str
    layout_version: int
    architecture: str  # hash of the names, shapes and types of the encoder's state dict
    sha256: str  # of the converted file
    size_bytes: int
    sums: tuple[str, ...]  # of each of its blocks
    created: str  # day, as 2026-01-31
    versions: dict[str, str]  # of the libraries that converted it
    selection: str = ""  # which encoder in the user's own file was asked for, and whether in one layout alone
    reading: FileReading | None = None  # of the user's own file

    @property
    def key(self) -> str:
        """Name of the record."""
        places = [origin.place for origin in self.origins]
        return compute_record_key(
            places,
            layout=self.layout,
            layout_version=self.layout_version,
            architecture=self.architecture,
            selection=self.selection,
        )


def format_recorded_name(place: str) -> str:
    """A place as lock files and records name it: without secrets, and then with a hash of all of it.

    >>> format_recorded_name("hf:owner/repo/a.pth"), format_recorded_name("https://host/a.pth?token=secret")
    ('hf:owner/repo/a.pth', 'https://host/a.pth#e44c4d22')
    """
    harmless = format_location(place)
    if harmless == place:
        return place
    return f"{harmless}#{blake2b(place.encode(errors='surrogatepass'), digest_size=4).hexdigest()}"


def compute_record_key(
    places: Sequence[str], *, layout: str, layout_version: int, architecture: str, selection: str = ""
) -> str:
    """Name of the record of weights from these places (the card's, then its companions') in this architecture."""
    text = "\0".join([*places, layout, str(layout_version), architecture, *([selection] if selection else [])])
    return blake2b(text.encode(), digest_size=16).hexdigest()


def format_weights_filename(sha256: str) -> str:
    """Name of the file of converted weights."""
    return f"{sha256}.safetensors"


def get_tensors_path(folder: Path, sha256: str) -> Path:
    """Path of converted weights in a folder of this kind."""
    return folder / "tensors" / format_weights_filename(sha256)


def get_record_path(folder: Path, key: str) -> Path:
    """Path of a record."""
    return folder / "records" / f"{key}.json"


def find(folder: Path, key: str) -> WeightsRecord | None:
    """The record with this key; None if it or its weights are missing. A damaged record is refused."""
    path = get_record_path(folder, key)
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}); make it readable.") from error
    record = parse_record(content, where=str(path), key=key)
    return record if get_tensors_path(folder, record.sha256).is_file() else None


def write_record(folder: Path, record: WeightsRecord) -> None:
    """Writes a record whose weights are there already; whole or not at all."""
    path = get_record_path(folder, record.key)
    try:
        with replace_file(path) as file:
            file.write(encode_record(record))
    except OSError as error:
        raise StoreError(f"{path} cannot be written ({error.strerror}); free some space there.") from error


def encode_record(record: WeightsRecord) -> bytes:
    """Content of the file of a record."""
    facts = {name: fact for name, fact in asdict(record).items() if name not in _OF_USER_FILES or fact}
    body = json.dumps({"format": _FORMAT, **facts}, indent=1).encode() + b"\n"
    return _checksum(body) + b"\n" + body


def parse_record(content: bytes, *, where: str, key: str = "") -> WeightsRecord:
    """A record from the content of its file; WeightsRefused if it is damaged, ForeignRecord if of another format.

    One that has not the given key is refused.
    """
    checksum, _, body = content.partition(b"\n")
    if checksum != _checksum(body):
        raise WeightsRefused(
            f"The record {where} is damaged (its checksum differs); remove the file, or run 'zoo cache gc', and the "
            "weights are downloaded again."
        )
    try:
        facts = json.loads(body)
        if facts.pop("format", None) != _FORMAT:
            raise ForeignRecord(
                f"The record {where} was written by another version of the zoo; update the zoo, or set ZOO_CACHE to "
                "another folder."
            )
        origins = tuple(FileOrigin(**origin) for origin in facts.pop("origins"))
        read = facts.pop("reading", None)
        about: dict[str, Any] = {
            name: tuple(fact) if type(fact) is list else fact for name, fact in (read or {}).items()
        }
        reading = None if read is None else FileReading(**about)
        record = WeightsRecord(**{**facts, "origins": origins, "sums": tuple(facts["sums"]), "reading": reading})
        hashes = [record.sha256, *(origin.sha256 for origin in origins)]
        if not origins or not all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in hashes):
            raise ValueError("a hash is none, or it has no source")  # the hash becomes the name of a file
        if type(record.size_bytes) is not int:
            raise TypeError(f"its size is {record.size_bytes!r}"[:100])
    except (ValueError, TypeError, KeyError, AttributeError) as error:  # a right checksum, and nonsense below it
        raise WeightsRefused(
            f"The record {where} does not say what a record of this version does ({error}); remove the file."
        ) from error
    if key and record.key != key:
        raise WeightsRefused(f"The record {where} is of other weights ({record.encoder!r}); remove the file.")
    return record


def iterate_weights_records(folder: Path) -> Iterator[tuple[Path, WeightsRecord | None]]:
    """Every record of a folder by its path, in the order of their names; None for a damaged one.

    Records in the format of another version of the zoo are left out.
    """
    for path in sorted((folder / "records").glob("*.json")):
        if path.is_dir():  # not ours
            continue
        try:
            yield path, parse_record(path.read_bytes(), where=str(path))
        except WeightsRefused:
            yield path, None
        except (FileNotFoundError, ForeignRecord):  # the former was removed by another process in the meantime
            continue
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({error.strerror}); make it readable.") from error


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).hexdigest().encode()


# --- headers of safetensors files ------------------------------------------------------------------------------------

# The library of that name copies all tensors into one block of memory, and orders them and their metadata in its own
# way; files here are named by their content, so that equal tensors must be equal bytes.
_ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "U8": 1, "BOOL": 1}
_LONGEST_HEADER = 100_000_000  # bytes, as the library has it


class ArrayLocation(NamedTuple):
    """Where an array is in a safetensors file."""

    dtype: str  # "F32"
    shape: tuple[int, ...]
    offset: int  # bytes from the beginning of the file

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * _ITEM_BYTES[self.dtype]


def build_safetensors_header(arrays: Mapping[str, tuple[str, Sequence[int]]], about: Mapping[str, str]) -> bytes:
    """The bytes before the arrays, which follow in the order of ``arrays``, given as type and shape.

    Length of the header, header, and blanks up to a multiple of 8, so that the arrays are aligned.
    """
    header: dict[str, object] = {"__metadata__": dict(about)}
    position = 0
    for name, (dtype, shape) in arrays.items():
        end = position + math.prod(shape) * _ITEM_BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, end]}
        position = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def parse_safetensors(file: BinaryIO | mmap.mmap, size: int) -> tuple[dict[str, str], dict[str, ArrayLocation]]:
    """Metadata and arrays of a safetensors file of ``size`` bytes laid out as by :func:`build_safetensors_header`.

    Raises ValueError, KeyError, TypeError or AttributeError if it is not.
    """
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(size - 8, _LONGEST_HEADER):
        raise ValueError("its header is cut")
    header = json.loads(file.read(length))
    about = header.pop("__metadata__")
    arrays: dict[str, ArrayLocation] = {}
    position = 8 + length
    for name, entry in header.items():
        array = ArrayLocation(entry["dtype"], tuple(int(side) for side in entry["shape"]), position)
        offsets = [position - 8 - length, position - 8 - length + array.n_bytes]
        if min(array.shape, default=0) < 0 or entry["data_offsets"] != offsets:
            raise ValueError(f"its {name!r} is not where it should be")
        arrays[name] = array
        position += array.n_bytes
    if position != size:
        raise ValueError(f"it has {size:,} bytes instead of {position:,}")
    return about, arrays
