"""Image files of kinds that Pillow reads and does not write, or not in this order of parts."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

ORIENTATION = 0x112
STORED = {  # how the upright image is turned before it is stored with an EXIF orientation
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def shades(height: int = 12, width: int = 20, *, seed: int = 0) -> np.ndarray:
    """Grey levels, uint8 (height, width), with black and white among them."""
    found = np.random.default_rng(seed).integers(0, 256, (height, width), np.uint8)
    found[0, :2] = 0, 255
    return found


def stored(upright: Image.Image, orientation: int) -> Image.Image:
    """The image as a camera stores it that writes this orientation next to it."""
    return upright if orientation == 1 else upright.transpose(STORED[orientation])


def exif(orientation: int) -> Image.Exif:
    """Metadata with an orientation."""
    found = Image.Exif()
    found[ORIENTATION] = orientation
    return found


def png(path: Path, pixels: np.ndarray, *, late: bytes = b"", palette: bytes = b"", transparency: bytes = b"") -> Path:
    """A PNG of uint8 or uint16 pixels: grey (h, w), with alpha (h, w, 2), RGB (h, w, 3) or RGBA (h, w, 4).

    ``late`` is EXIF behind the pixels; ``palette`` and ``transparency`` are the content of PLTE and tRNS. Pixels are
    stored and not compressed, so that the file has the same bytes with every version of zlib.
    """
    height, width = pixels.shape[:2]
    depth, kind = 8 * pixels.dtype.itemsize, 3 if palette else [0, 4, 2, 6][(*pixels.shape, 1)[2] - 1]
    rows = b"".join(b"\0" + row.astype(f">u{pixels.dtype.itemsize}").tobytes() for row in pixels)
    parts = [(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0))]
    parts += [(b"PLTE", palette)] * bool(palette) + [(b"tRNS", transparency)] * bool(transparency)
    parts += [(b"IDAT", zlib.compress(rows, 0)), (b"tEXt", b"date:create\0now")]
    parts += [(b"eXIf", late)] * bool(late) + [(b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(held)) + name + held + struct.pack(">I", zlib.crc32(name + held)) for name, held in parts
    ]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    return path


def tiff(path: Path, pixels: np.ndarray, *, bits: int, white_is_zero: bool = False, orientation: int = 1) -> Path:
    """An uncompressed grey TIFF of 12 or 16 bits, or of float32."""
    height, width = pixels.shape
    if bits == 12:  # two values in three bytes
        pairs = pixels.reshape(-1, 2).astype(np.uint32)
        words = (pairs[:, 0] << 12) | pairs[:, 1]
        content = np.stack([words >> 16, words >> 8, words], axis=1).astype(np.uint8).tobytes()
    else:
        content = pixels.astype(pixels.dtype.newbyteorder("<")).tobytes()
    entries = [
        (256, 4, width), (257, 4, height), (258, 3, bits), (259, 3, 1), (262, 3, 0 if white_is_zero else 1),
        (273, 4, 8), (274, 3, orientation), (277, 3, 1), (278, 4, height), (279, 4, len(content)),
        (339, 3, 3 if pixels.dtype.kind == "f" else 1),
    ]  # fmt: skip
    content += b"\0" * (len(content) % 2)
    listed = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in entries)
    directory = struct.pack("<H", len(entries)) + listed + struct.pack("<I", 0)
    path.write_bytes(b"II*\0" + struct.pack("<I", 8 + len(content)) + content + directory)
    return path
