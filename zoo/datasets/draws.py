"""Random numbers that stay the same for ever: documented draws of PCG64, whatever numpy's generators do next.

The bits of PCG64 and of SeedSequence are fixed by numpy's promise on bit generators; what ``numpy.random.Generator``
makes of them is not, so that no method of it is used. A stream belongs to a key of whole numbers, as text with commas
between them; the BLAKE2b-128 of that text, as a number, seeds it.
"""

from __future__ import annotations

from hashlib import blake2b

from ..errors import DataError
from ..optional import requires_extra

with requires_extra("models", needed_for="Working with images"):
    import numpy as np


def raw_draws(key: tuple[int, ...], n: int) -> np.ndarray:
    """The first ``n`` outputs of the stream of a key, uint64 (n,).

    >>> raw_draws((0, 1), 2).dtype
    dtype('uint64')
    """
    text = ",".join(str(int(number)) for number in key)  # SeedSequence itself takes (1,) and (1, 0) for the same
    entropy = int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "big")
    return np.asarray(np.random.PCG64(np.random.SeedSequence(entropy)).random_raw(n), np.uint64)


def uniform_draws(key: tuple[int, ...], n: int) -> np.ndarray:
    """Float64 (n,) in [0, 1): the upper 53 bits of each raw draw."""
    return np.asarray((raw_draws(key, n) >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def normal_noise(key: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Noise of mean 0 and variance 1, float32: the sum of four bytes, near enough to a normal for pixels."""
    n = int(np.prod(shape))
    octets = raw_draws(key, -(-n // 2)).astype("<u8").view(np.uint8).reshape(-1, 4)[:n]  # (n, 4), eight bytes a draw
    centred = octets.sum(axis=1, dtype=np.float32) - np.float32(510)  # four times the mean of 0 to 255
    return np.asarray((centred / np.float32(np.sqrt(4 * (256**2 - 1) / 12))).reshape(shape))


def checked_seed(seed: int) -> int:
    """The seed, if it is a whole number from 0 on.

    Raises
    ------
    DataError
        If it is not.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise DataError(f"The seed is {seed!r}; expected a whole number from 0 on.")
    return int(seed)
