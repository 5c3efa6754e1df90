"""Files that hold malicious pickles, files that are malicious themselves, and good files to be mutated."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.weights.malice import DICT, NONE, armed, legacy, listed, name, text, whole
from tests.weights.malice_bombs import bombs, tensor, tensor_bombs

NUMBERS = struct.pack("<4f", 1, 2, 3, 4)
STORED, DEFLATED = 0, 8
_FULL = 0xFFFFFFFF
_GOOD = whole(b"}X\1\0\0\0a" + tensor(0, (4,), (1,)) + b"s")


def archive(
    members: dict[str, bytes],
    *,
    methods: dict[str, int] | None = None,
    patch: Callable[[dict[str, int]], None] = lambda entry: None,
    is_64: bool = False,
    alignment: int = 64,
) -> bytes:
    """A zip archive; ``patch`` may change what the directory says of each member: flags, sizes, offset."""
    data, directory = bytearray(), bytearray()
    for label, content in members.items():
        method = (methods or {}).get(label, STORED)
        squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = squeeze.compress(content) + squeeze.flush() if method == DEFLATED else content
        entry = {"flags": 0, "packed": len(packed), "size": len(content), "offset": len(data), "method": method}
        patch(entry)
        name, crc = label.encode(), zlib.crc32(content)
        pad = -(len(data) + 30 + len(name)) % alignment  # as torch aligns its storages
        local = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, method, 0, 0, crc, len(packed), len(content), len(name), pad)
        data += local + name + bytes(pad) + packed
        extra, sizes = b"", (entry["packed"], entry["size"])
        if is_64:
            extra = struct.pack("<2H3Q", 1, 24, sizes[1], sizes[0], entry["offset"])
            sizes, entry["offset"] = (_FULL, _FULL), _FULL
        fixed = (
            b"PK\1\2",
            20,
            20,
            entry["flags"],
            entry["method"],
            0,
            0,
            crc,
            *sizes,
            len(name),
            len(extra),
            0,
            0,
            0,
            0,
        )
        directory += struct.pack("<4s6H3L5H2L", *fixed, entry["offset"]) + name + extra
    n = len(members)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, n, n, len(directory), len(data), 0)
    if is_64:
        record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 20, 20, 0, 0, n, n, len(directory), len(data))
        end = record + struct.pack("<4sLQL", b"PK\6\7", 0, len(data) + len(directory), 1) + end
    return bytes(data + directory + end)


def torch_zip(content: bytes, **more: bytes) -> bytes:
    """An archive of torch around the pickle of its content, with the storage "0" of 4 float32."""
    parts = {"a/data.pkl": content, "a/byteorder": b"little", "a/data/0": NUMBERS, "a/version": b"3\n"}
    return archive(parts | {f"a/{name}": value for name, value in more.items()})


def torchscript(content: bytes) -> bytes:
    """A TorchScript archive around the pickle of its content."""
    parts = {"a/data/0": NUMBERS, "a/data.pkl": content, "a/code/__torch__.py": b"import os\n" * 50}
    parts |= {"a/constants.pkl": b"\x80\2).", "a/version": b"3\n"}
    return archive(parts, methods={"a/code/__torch__.py": DEFLATED})


CONTAINERS: dict[str, Callable[[bytes], bytes]] = {
    "a bare pickle": lambda content: content,
    "torch before 1.6": legacy,
    "torch": torch_zip,
    "TorchScript": torchscript,
}


def malicious_files(canary: Path) -> Iterator[tuple[str, bytes]]:
    """Every malicious file by name; each must be refused, and ``canary`` must not come to be."""
    dangerous = armed(canary)
    for container, wrap in CONTAINERS.items():
        for label, content in (dangerous | bombs()).items():
            yield f"{label} in {container}", wrap(content)
    for label, content in tensor_bombs().items():
        yield f"{label} in torch", torch_zip(content)
    yield from _torchscript_files()
    attack = dangerous["os.system"]
    head = legacy(b"")
    yield "a call before torch's magic number", attack + legacy(_GOOD)
    yield "a call for torch's system", head[:21] + attack + _GOOD + b"\x80\2]."
    yield "a call for the list of storages", head[:-4] + whole(b"N") + attack
    yield "a call after the content", whole(b"N") + attack
    yield "a call after the archive's content", torch_zip(whole(b"N") + attack)
    yield from _zip_files()
    yield from _legacy_files()
    yield from _safetensors_files()
    yield from _npz_files(attack)
    yield from _other_files()


def _torchscript_files() -> Iterator[tuple[str, bytes]]:
    module = name("__torch__ A") + b")\x81"
    long = text("x" * 2**20)
    inner = module + DICT + b"(" + text("all") + b"(" + module + DICT + text("a") + tensor(0, (1,), (1,)) + b"sb"
    for place in range(8, 38):
        twice = DICT + b"(" + text("a") + b"h" + bytes([place]) + text("b") + b"h" + bytes([place]) + b"u"
        inner += b"q" + bytes([place]) + module + twice + b"b"
    inner += b"q\x30t" + text("a") + b"h\x30ub"
    names = module + DICT + long + b"q\7" + (module + DICT + b"h\7") * 89 + NONE + b"sb" * 90
    yield "modules that hold two of each other", torchscript(whole(inner))
    yield "a module that holds itself", torchscript(whole(module + b"q\1" + DICT + text("a") + b"h\1sb"))
    yield "modules in lists of one", torchscript(whole(listed(module)))
    yield "classes with names of a megabyte", torchscript(whole(text("__torch__") + long + b"\x93)\x81"))
    yield "modules with names of a megabyte", torchscript(whole(names))
    dotted = DICT + text("a.b") + tensor(0, (1,), (1,)) + b"s"
    yield "a tensor with a dotted name", torchscript(whole(module + dotted + b"b"))


def _zip_files() -> Iterator[tuple[str, bytes]]:
    good, parts = torch_zip(_GOOD), {"a/data.pkl": _GOOD, "a/data/0": NUMBERS}
    bomb = {"a/data.pkl": _GOOD, "a/data/0": bytes(2**22)}

    def patched(**changes: int) -> bytes:
        return archive(parts, patch=lambda entry: entry.update(changes))

    yield "a deflated pickle", archive(parts, methods={"a/data.pkl": DEFLATED})
    yield "a deflated storage of zeros", archive(bomb, methods={"a/data/0": DEFLATED})
    yield "a deflated member nobody asks for", archive({**parts, "a/x": bytes(2**22)}, methods={"a/x": DEFLATED})
    yield "an unknown compression", archive(parts, methods={"a/data/0": 99})
    yield "encrypted members", patched(flags=1)
    yield "members that all start at the first", patched(offset=0)
    yield "members that start in the directory", patched(offset=len(good) - 60)
    yield "members that start beyond the file", patched(offset=2**31)
    yield "members longer than the file", patched(packed=2**30, size=2**30)
    yield "members of two sizes", patched(size=3)
    yield "members that the directory calls deflated", patched(method=DEFLATED)
    yield "members of 4 GB without a size", patched(packed=_FULL, size=_FULL)
    twice = archive({**parts, "a/data/1": NUMBERS})
    yield "two members of one name", twice.replace(b"a/data/1", b"a/data/0")
    within = {"a/data/0": archive({"a/data.pkl": _GOOD}), "a/data.pkl": _GOOD}
    yield (
        "a member within another",
        archive(within, patch=lambda entry: entry.update(offset=64) if entry["offset"] else None),
    )
    yield "members under two roots", archive({**parts, "b/data.pkl": _GOOD})
    yield "no pickle", archive({"a/data/0": NUMBERS})
    yield "a pickle in no folder", archive({"data.pkl": _GOOD, "data/0": NUMBERS})
    yield "an empty archive", archive({})
    yield "big-endian numbers", archive({**parts, "a/byteorder": b"big"})
    yield "a storage that is too short", archive({**parts, "a/data/0": NUMBERS[:-1]})
    yield "an archive after something else", b"PK\3\4 something else" + good
    yield "an archive before something else", good + b"something else"
    yield "an archive before another", torch_zip(whole(b"N")) + good
    yield "an archive with a comment", good[:-2] + struct.pack("<H", len(good)) + good
    yield "an archive cut in half", good[: len(good) // 2]
    yield "an archive cut by a byte", good[:-1]
    yield "an archive of several disks", good[:-18] + b"\1\0" + good[-16:]
    yield "a directory of another length", good[:-10] + b"\xff\0\0\0" + good[-6:]
    yield "a directory of more members", good[:-14] + b"\xff\0\xff\0" + good[-10:]
    yield (
        "a long directory that contradicts the short one",
        archive(parts, is_64=True).replace(b"\2\0\2\0", b"\1\0\1\0"),
    )
    yield "a name that is not UTF-8", good.replace(b"a/version", b"a/\xff\xfe\xfd\xfc\xfb\xfa\xf9")
    at = good.index(b"a/version")
    yield "a member of two names", good[:at] + b"a/Version" + good[at + 9 :]


def _legacy_files() -> Iterator[tuple[str, bytes]]:
    content = _GOOD.replace(b"cpu\x8a\x08\4\0\0\0\0\0\0\0t", b"cpu\x8a\x08\4\0\0\0\0\0\0\0Nt")
    data = struct.pack("<q", 4) + NUMBERS
    yield "a list of storages without one", legacy(content)
    yield "a list of storages with one too many", legacy(content, keys=("0", "1"), storages=2 * data)
    yield "a list of other storages", legacy(content, keys=("1",), storages=data)
    yield "storages of two lengths", legacy(content, keys=("0",), storages=struct.pack("<q", 5) + NUMBERS)
    yield "storages of negative length", legacy(content, keys=("0",), storages=struct.pack("<q", -4) + NUMBERS)
    yield "storages cut off", legacy(content, keys=("0",), storages=data[:-1])
    yield "storages and something else", legacy(content, keys=("0",), storages=data + b"x")
    yield (
        "a big-endian system",
        legacy(content, keys=("0",), storages=data)
        .replace(b"endian\x94\x88", b"endian\x94\x89")
        .replace(b"endianq\2\x88", b"endianq\2\x89"),
    )
    yield (
        "another version of the format",
        legacy(content, keys=("0",), storages=data).replace(b"M\xe9\3.", b"M\xea\3.", 1),
    )


def _safetensors_files() -> Iterator[tuple[str, bytes]]:
    def file(header: object, body: bytes = NUMBERS[:12], length: int | None = None) -> bytes:
        encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(encoded) if length is None else length) + encoded + body

    def one(dtype: str = "F32", shape: tuple[int, ...] = (3,), start: int = 0, end: int = 12) -> dict[str, object]:
        return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}

    yield "a header longer than the file", file({"a": one()}, length=2**40)
    yield "a header as long as the file", file(b"{" * 100, b"")
    yield "a header that is not JSON", file(b"{'a': 1}")
    yield "a header that is deep", file(b'{"a":' * 5000)
    yield "a header that is not UTF-8", file(b'{"\xff": 1}')
    yield "offsets beyond the file", file({"a": one(end=16, shape=(4,))})
    yield "offsets that overlap", file({"a": one(), "b": one()})
    yield "offsets that run backwards", file({"a": one(start=12, end=0)})
    yield "offsets with a hole", file({"a": one(shape=(1,), end=4), "b": one(shape=(1,), start=8)})
    yield "a shape that is not as long as its offsets", file({"a": one(shape=(2,))})
    yield "a shape of huge sides", file({"a": one(shape=(2**62, 2**62))})
    yield "an empty shape of huge sides", file({"a": one(shape=(0, 2**63), end=0)}, b"")
    yield "a type nobody knows", file({"a": one("X99")})
    yield "complex numbers", file({"a": one("C64", (1,), 0, 8)}, bytes(8))
    yield "numbers of 8 bits", file({"a": one("F8_E4M3", (8,), 0, 8)}, bytes(8))
    yield "truth values of other bytes in safetensors", file({"a": one("BOOL", (3,), 0, 3)}, b"\1\2\3")
    yield "something after the last tensor", file({"a": one(shape=(1,), end=4)})


def _npz_files(attack: bytes) -> Iterator[tuple[str, bytes]]:
    def array(
        numbers: bytes = NUMBERS, *, dtype: str = "'<f4'", shape: str = "(4,)", version: int = 1, header: str = ""
    ) -> bytes:
        text = (header or f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}").encode()
        text = text.ljust(-(len(text) + 11) % 64 + len(text)) + b"\n"
        return b"\x93NUMPY" + struct.pack("<BBH", version, 0, len(text)) + text + numbers

    good = {"a.npy": array()}
    yield "an array of objects", archive({"a.npy": array(attack, dtype="'|O'", shape="(1,)")})
    yield "an array of records", archive({"a.npy": array(dtype="[('x', '<f4')]")})
    yield "an array of texts", archive({"a.npy": array(dtype="'<U4'", shape="(1,)")})
    yield "an array of big-endian numbers", archive({"a.npy": array(dtype="'>f4'")})
    yield "an array of complex numbers", archive({"a.npy": array(dtype="'<c8'", shape="(2,)")})
    yield "an array of huge sides", archive({"a.npy": array(shape="(2305843009213693952, 2305843009213693952)")})
    yield "an array of negative sides", archive({"a.npy": array(shape="(-2, -2)")})
    yield "an array that is too short", archive({"a.npy": array(NUMBERS[:-1])})
    yield "an array before something else", archive({"a.npy": array(NUMBERS + b"x")})
    yield "an array of a version to come", archive({"a.npy": array(version=9)})
    yield "an array whose header calls", archive({"a.npy": array(header="__import__('os').system('true')")})
    yield "an array whose header is deep", archive({"a.npy": array(header="(" * 5000 + ")" * 5000)})
    yield "an array whose header is long", archive({"a.npy": array(header=" " * 30_000)})
    yield "an array without a header", archive({"a.npy": NUMBERS})
    yield "truth values of other bytes in an array", archive({"a.npy": array(b"\2\3", dtype="'|b1'", shape="(2,)")})
    yield "a pickle next to arrays", archive({**good, "data.pkl": attack})
    yield "arrays of zeros", archive({"a.npy": array(bytes(2**28), shape="(67108864,)")}, methods={"a.npy": DEFLATED})
    yield "an array of an unknown compression", archive(good, methods={"a.npy": 99})
    yield (
        "an array of another length than the directory says",
        archive(good, methods={"a.npy": DEFLATED}, patch=lambda entry: entry.update(size=10)),
    )
    damaged = archive(good, methods={"a.npy": DEFLATED})
    yield "a damaged array", damaged[:90] + bytes([damaged[90] ^ 255]) + damaged[91:]


def _other_files() -> Iterator[tuple[str, bytes]]:
    yield "nothing", b""
    yield "a single byte", b"\x80"
    yield "a page of a web server", b"<!DOCTYPE html><html>Not found</html>"
    yield "a pointer of git-lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    yield "a gzip file", b"\x1f\x8b\x08" + bytes(50)
    yield "a tar archive", b"storages".ljust(257, b"\0") + b"ustar\x0000" + bytes(1024)
    yield "a pickle of protocol 0", b"cos\nsystem\n(S'true'\ntR."
    yield "noise", bytes(range(256))
