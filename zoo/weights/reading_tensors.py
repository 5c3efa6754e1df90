"""Tensors from the bytes of a file: views of torch's storages, and arrays of NumPy as tensors."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .reading_inert import Budget, Global, Inert, Refusal, clipped, odd_arguments

TYPES: dict[str, torch.dtype] = {
    str(dtype): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8),
    )
}
"""Types that tensors of a checkpoint may have, by their names in a pickle."""

STORAGES: dict[str, torch.dtype] = {
    "torch.DoubleStorage": torch.float64,
    "torch.FloatStorage": torch.float32,
    "torch.HalfStorage": torch.float16,
    "torch.BFloat16Storage": torch.bfloat16,
    "torch.BoolStorage": torch.bool,
    "torch.LongStorage": torch.int64,
    "torch.IntStorage": torch.int32,
    "torch.ShortStorage": torch.int16,
    "torch.CharStorage": torch.int8,
    "torch.ByteStorage": torch.uint8,
    "torch.storage.UntypedStorage": torch.uint8,  # its tensors say their types themselves
}
"""Types of the elements of a storage, by the name of its class."""

_NUMPY_TYPES = {
    "f8": torch.float64,
    "f4": torch.float32,
    "f2": torch.float16,
    "i8": torch.int64,
    "i4": torch.int32,
    "i2": torch.int16,
    "i1": torch.int8,
    "u8": torch.uint64,
    "u4": torch.uint32,
    "u2": torch.uint16,
    "u1": torch.uint8,
    "b1": torch.bool,
}
_MOST_DIMENSIONS = 32
_MOST_ELEMENTS = 2**62


class Storage:
    """Elements in a row, of which tensors are views; not part of any content."""

    __slots__ = ("elements",)

    def __init__(self, elements: Tensor) -> None:
        self.elements = elements

    def view(self, offset: Any, size: Any, stride: Any, *, budget: Budget, dtype: torch.dtype | None = None) -> Tensor:
        """A tensor on this storage, all of it within.

        Parameters
        ----------
        offset : int
            Of its first element, in elements.
        size, stride : tuple of int
            Of each dimension, in elements.
        budget : Budget
            Charged with the bytes of its elements, which are more than the storage's where strides are 0.
        dtype : torch.dtype, optional
            Of its elements, where the storage has only bytes.
        """
        elements = self.elements
        if dtype is not None and dtype != elements.dtype:
            if elements.dtype != torch.uint8:
                raise Refusal("it has a tensor of another type than its storage")
            elements = elements[: len(elements) // dtype.itemsize * dtype.itemsize].view(dtype)
        n = _n_elements(size)
        if not (_is_shape(stride) and len(stride) == len(size) and type(offset) is int and offset >= 0):
            raise Refusal("it has a tensor without a proper offset and strides")
        budget.spend(n * elements.itemsize)
        if n == 0:
            return torch.empty(size, dtype=elements.dtype)
        if offset + sum((side - 1) * step for side, step in zip(size, stride, strict=True)) >= len(elements):
            raise Refusal("it has a tensor that reaches beyond its storage")
        return elements.as_strided(size, stride, offset)


class UnfilledArray:
    """What NumPy's ``_reconstruct`` makes: an array that gets its numbers from the state that follows."""

    __slots__ = ("is_filled", "memo_places")

    def __init__(self) -> None:
        self.is_filled = False
        self.memo_places: list[int] = []  # where the memo of a pickle has it

    def filled(self, state: Any, budget: Budget) -> Tensor:
        """The array, from version (of NumPy's format), shape, type, order and bytes; once."""
        if self.is_filled:
            raise Refusal("it fills an array of NumPy twice")
        self.is_filled = True
        match state:
            case (int(), shape, dtype, bool(is_fortran), data) | (shape, dtype, bool(is_fortran), data):
                return array(data, shape, dtype, is_fortran=is_fortran, budget=budget)
        raise Refusal("it has an array of NumPy without a proper state")


def array(data: Any, shape: Any, dtype: Any, *, is_fortran: bool, budget: Budget) -> Tensor:
    """A tensor with the numbers of an array of NumPy that are in ``data``, in C's order or in Fortran's."""
    if isinstance(data, str):
        data = data.encode()  # as Python 2 had it
    kind = _numpy_type(dtype)
    n = _n_elements(shape)
    if not isinstance(data, bytes) or len(data) != n * kind.itemsize:
        raise Refusal("it has an array of NumPy that is not as long as its shape says")
    budget.spend(len(data))
    if n == 0:
        return torch.empty(shape, dtype=kind)
    numbers = torch.frombuffer(bytearray(data), dtype=kind)
    if is_fortran:
        return numbers.reshape(shape[::-1]).permute(tuple(reversed(range(len(shape)))))
    return numbers.reshape(shape)


def scalar(arguments: tuple[Any, ...], budget: Budget) -> Any:
    """A number of NumPy, as a number of Python."""
    match arguments:
        case (dtype, str() | bytes() as data):
            return array(data, (), dtype, is_fortran=False, budget=budget).item()
    raise odd_arguments("numpy.core.multiarray.scalar")


def unfilled(arguments: tuple[Any, ...], budget: Budget) -> UnfilledArray:
    """NumPy's ``_reconstruct``, of plain arrays only."""
    match arguments:
        case (Global(name="numpy.ndarray"), tuple(), str() | bytes()):
            return UnfilledArray()
    raise odd_arguments("numpy.core.multiarray._reconstruct")


def from_buffer(arguments: tuple[Any, ...], budget: Budget) -> Tensor:
    """NumPy's ``_frombuffer``, which pickles of protocol 5 use."""
    match arguments:
        case (bytes() as data, dtype, shape, str(order)) if order in ("C", "F"):
            return array(data, shape, dtype, is_fortran=order == "F", budget=budget)
    raise odd_arguments("numpy.core.numeric._frombuffer")


def filled(arguments: tuple[Any, ...], budget: Budget) -> Tensor:
    """An array that comes with its state at once, as dill and JAX have it: function, arguments, state, and more."""
    match arguments:
        case (Global(build=build), tuple() as of, tuple() as state, _) if build is unfilled:
            made: UnfilledArray = unfilled(of, budget)
            return made.filled(state, budget)
    raise odd_arguments("the reconstruction of an array")


def tensor(arguments: tuple[Any, ...], budget: Budget) -> Tensor:
    """``_rebuild_tensor`` and ``_rebuild_tensor_v2``: storage, offset, size, stride; gradients and hooks go."""
    match arguments:
        case (Storage(), offset, size, stride, *more) if len(more) <= 3:
            storage: Storage = arguments[0]
            return storage.view(offset, size, stride, budget=budget)
    raise odd_arguments("torch._utils._rebuild_tensor_v2")


def typed_tensor(arguments: tuple[Any, ...], budget: Budget) -> Tensor:
    """``_rebuild_tensor_v3``, of types that have no class of storages."""
    match arguments:
        case (Storage(), offset, size, stride, _, _, Global(name=name), *_) if name in TYPES:
            storage: Storage = arguments[0]
            return storage.view(offset, size, stride, budget=budget, dtype=TYPES[name])
    raise odd_arguments("torch._utils._rebuild_tensor_v3")


def parameter(arguments: tuple[Any, ...], budget: Budget) -> Tensor:
    """``_rebuild_parameter``, with or without attributes: the tensor alone."""
    match arguments:
        case (Tensor() as data, *more) if len(more) in (2, 3):
            return data
    raise odd_arguments("torch._utils._rebuild_parameter")


def tensor_with_attributes(arguments: tuple[Any, ...], budget: Budget) -> Tensor:
    """``_rebuild_from_type_v2``: the tensor alone, if it is one and not of a class of its own."""
    match arguments:
        case (Global(build=build), Global(name="torch.Tensor" | "torch.nn.parameter.Parameter"), tuple() as of, _):
            if build is tensor or build is typed_tensor or build is parameter:
                return build(of, budget)
    raise odd_arguments("torch._tensor._rebuild_from_type_v2")


def _numpy_type(dtype: Any) -> torch.dtype:
    match dtype:
        case Inert(name="numpy.dtype", arguments=(str(code), *_), state=state) if len(code) <= 10:
            order = state[1] if type(state) is tuple and len(state) > 1 else "="
            code = code.lstrip("<|=")
            if code in _NUMPY_TYPES and type(order) is str and order in ("<", "|", "="):
                return _NUMPY_TYPES[code]
            raise Refusal(f"it has an array of NumPy's type {clipped(code)}, expected plain numbers, little-endian")
    raise Refusal("it has an array of NumPy without a type")


def _n_elements(size: Any) -> int:
    if not _is_shape(size) or math.prod(side or 1 for side in size) > _MOST_ELEMENTS:
        raise Refusal("it has a tensor without a proper shape")
    return math.prod(size)


def _is_shape(size: Any) -> bool:
    return (
        type(size) is tuple
        and len(size) <= _MOST_DIMENSIONS
        and all(type(side) is int and 0 <= side <= _MOST_ELEMENTS for side in size)
    )
