"""Every name that the pickle of a checkpoint may ask for, who writes it, and the function that is run in its place.

None makes an ``Inert`` of it. None of these names is ever imported: adding one to this table gives a file no power, it
only says that files with this name are checkpoints in actual use. Hyperparameters may be of any class of the libraries
that training scripts use, and of the script itself (``__main__``); all of these are inert.

Tensors are views of torch's storages or copies of NumPy's arrays. Before the table are the functions that build them
and those that build plain containers; after it, what dill and Python below protocol 4 do to reach a name.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

from ..optional import requires_extra
from .pickles import Budget, Builder, Inert, Refusal, StandIn, clipped, is_plain_key, named, odd_arguments, stand_in

with requires_extra("models", needed_for="Reading weights"):
    import torch
    from torch import Tensor

TYPES: dict[str, torch.dtype] = {
    str(dtype): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8),
    )
}
"""Types of tensors in checkpoints, by their names in a pickle."""

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

NUMPY_TYPES = {
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
_TENSOR_BYTES = 1000  # of memory that a tensor takes beside its numbers, about
_ITEM_BYTES = 32  # of memory that an item of a container takes, about


# --- tensors ---------------------------------------------------------------------------------------------------------


class Storage:
    """A row of elements, of which tensors are views; never part of any content."""

    __slots__ = ("elements",)

    def __init__(self, elements: Tensor) -> None:
        self.elements = elements

    def view(self, offset: Any, size: Any, stride: Any, *, budget: Budget, dtype: torch.dtype | None = None) -> Tensor:
        """A tensor on this storage, all of it within: offset, size and stride count elements.

        ``budget`` is charged with the bytes of its elements, which are more than the storage's where strides are 0.
        ``dtype`` is given where the storage has only bytes.
        """
        elements = self.elements
        if dtype is not None and dtype != elements.dtype:
            if elements.dtype != torch.uint8:
                raise Refusal("it has a tensor of another type than its storage")
            elements = elements[: len(elements) // dtype.itemsize * dtype.itemsize].view(dtype)
        n = _n_elements(size)
        if not (_is_shape(stride) and len(stride) == len(size) and type(offset) is int and offset >= 0):
            raise Refusal("it has a tensor without a proper offset and strides")
        budget.show(n * elements.itemsize)
        budget.spend(_TENSOR_BYTES)
        if n == 0:
            return torch.empty(size, dtype=elements.dtype)
        if offset + sum((side - 1) * step for side, step in zip(size, stride, strict=True)) >= len(elements):
            raise Refusal("it has a tensor that reaches beyond its storage")
        return checked(elements.as_strided(size, stride, offset))


def checked(tensor: Tensor) -> Tensor:
    """A tensor, if its numbers are plain."""
    if tensor.dtype not in TYPES.values():
        raise Refusal(f"it holds a tensor of {tensor.dtype}, expected plain numbers")
    if tensor.dtype == torch.bool and (tensor.view(torch.uint8) > 1).any():
        raise Refusal("it holds truth values that are neither true nor false")
    return tensor


def _tensor(arguments: tuple[Any, ...], budget: Budget) -> Tensor:
    """``_rebuild_tensor`` and ``_rebuild_tensor_v2``: storage, offset, size, stride; no gradients or hooks."""
    match arguments:
        case (Storage() as storage, offset, size, stride, *more) if len(more) <= 3:
            return storage.view(offset, size, stride, budget=budget)
    odd_arguments("torch._utils._rebuild_tensor_v2")


def _typed_tensor(arguments: tuple[Any, ...], budget: Budget) -> Tensor:
    """``_rebuild_tensor_v3``, of types that have no class of storages."""
    match arguments:
        case (Storage() as storage, offset, size, stride, _, _, Inert(name=name), *_) if name in TYPES:
            return storage.view(offset, size, stride, budget=budget, dtype=TYPES[name])
    odd_arguments("torch._utils._rebuild_tensor_v3")


def _parameter(arguments: tuple[Any, ...], budget: Budget) -> Tensor:
    """``_rebuild_parameter``, with or without attributes: the tensor alone."""
    match arguments:
        case (Tensor() as data, *more) if len(more) in (2, 3):
            return data
    odd_arguments("torch._utils._rebuild_parameter")


_TENSORS: dict[str, Builder | None] = {
    "torch._utils._rebuild_tensor": _tensor,  # torch before 0.4
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _typed_tensor,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
}


def _tensor_with_attributes(arguments: tuple[Any, ...], budget: Budget) -> Any:
    """``_rebuild_from_type_v2``: the tensor alone, if it is of no subclass."""
    match arguments:
        case (Inert(name=name), Inert(name="torch.Tensor" | "torch.nn.parameter.Parameter"), tuple() as of, _):
            build = _TENSORS.get(name)
            if build is not None:
                return build(of, budget)
    odd_arguments("torch._tensor._rebuild_from_type_v2")


def _array(data: Any, shape: Any, dtype: Any, *, is_fortran: bool, budget: Budget) -> Tensor:
    """A tensor of the numbers in ``data``, those of an array of NumPy in C's order or in Fortran's."""
    kind = _numpy_type(dtype)
    n = _n_elements(shape)
    if not isinstance(data, bytes | str) or len(data) != n * kind.itemsize:
        raise Refusal("it has an array of NumPy that is not as long as its shape says")
    budget.spend(len(data) + _TENSOR_BYTES)
    if n == 0:
        return torch.empty(shape, dtype=kind)
    try:
        raw = bytearray(data, "latin-1") if isinstance(data, str) else bytearray(data)  # a text, as Python 2 had it
    except UnicodeEncodeError as error:
        raise Refusal("it has bytes as a text that no bytes give") from error
    numbers = checked(torch.frombuffer(raw, dtype=kind))
    if is_fortran:
        return numbers.reshape(shape[::-1]).permute(tuple(reversed(range(len(shape)))))
    return numbers.reshape(shape)


def _scalar(arguments: tuple[Any, ...], budget: Budget) -> Any:
    """A number of NumPy, as a number of Python."""
    match arguments:
        case (dtype, str() | bytes() as data):
            return _array(data, (), dtype, is_fortran=False, budget=budget).item()
    odd_arguments("numpy.core.multiarray.scalar")


def _reconstructed(arguments: tuple[Any, ...], budget: Budget) -> Tensor:
    """NumPy's ``_reconstruct``, of plain arrays only, and the state that follows it."""
    match arguments:
        case (Inert(name="numpy.ndarray"), tuple(), str() | bytes(), tuple(state)):
            match state:
                case (int(), shape, dtype, bool(is_fortran), data) | (shape, dtype, bool(is_fortran), data):
                    return _array(data, shape, dtype, is_fortran=is_fortran, budget=budget)
    raise Refusal("it has an array of NumPy without a proper state")


def _from_buffer(arguments: tuple[Any, ...], budget: Budget) -> Tensor:
    """NumPy's ``_frombuffer``, which pickles of protocol 5 use."""
    match arguments:
        case (bytes() as data, dtype, shape, str(order)) if order in ("C", "F"):
            return _array(data, shape, dtype, is_fortran=order == "F", budget=budget)
    odd_arguments("numpy.core.numeric._frombuffer")


def _array_at_once(arguments: tuple[Any, ...], budget: Budget) -> Tensor:
    """An array with its state, as dill and JAX write it: function, arguments, state, and more."""
    match arguments:
        case (Inert(name=name), tuple(of), tuple() as state, _) if name in _RECONSTRUCT:
            return _reconstructed((*of, state), budget)
    odd_arguments("the reconstruction of an array")


def _numpy_type(dtype: Any) -> torch.dtype:
    match dtype:
        case Inert(name="numpy.dtype", arguments=(str(code), *_), state=state) if len(code) <= 10:
            order = state[1] if type(state) is tuple and len(state) > 1 else "="
            code = code.lstrip("<|=")
            if code in NUMPY_TYPES and type(order) is str and order in ("<", "|", "="):
                return NUMPY_TYPES[code]
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


# --- plain containers ------------------------------------------------------------------------------------------------


def _mapping(arguments: tuple[Any, ...], budget: Budget) -> dict[Any, Any]:
    """A dict, empty or from a dict; attributes of a subclass are dropped."""
    match arguments:
        case ():
            return {}
        case (dict() as items,):
            budget.spend(3 * _ITEM_BYTES * len(items))
            return dict(items)
    odd_arguments("a dictionary")


def _default_mapping(arguments: tuple[Any, ...], budget: Budget) -> dict[Any, Any]:
    """A dict; the factory of missing values is dropped."""
    match arguments:
        case () | (Inert() | None,):
            return {}
    odd_arguments("collections.defaultdict")


def _pairs(arguments: tuple[Any, ...], budget: Budget) -> dict[Any, Any]:
    """An OrderedDict, empty, from a dict or, as in Python 2, from pairs with texts as keys."""
    match arguments:
        case (list(items),):
            budget.spend(3 * _ITEM_BYTES * len(items))
            result = {}
            for item in items:
                match item:
                    case [str(key), value] if is_plain_key(key):
                        result[key] = value
                    case _:
                        odd_arguments("collections.OrderedDict")
            return result
    return _mapping(arguments, budget)


def _unordered(arguments: tuple[Any, ...], budget: Budget) -> set[Any]:
    """A set of texts and numbers."""
    match arguments:
        case ():
            return set()
        case (list(items),) if all(map(is_plain_key, items)):
            budget.spend(3 * _ITEM_BYTES * len(items))
            return set(items)
    odd_arguments("builtins.set")


def _raw_bytes(arguments: tuple[Any, ...], budget: Budget) -> bytes:
    """Bytes, empty, from bytes, or from a text that has one character a byte."""
    match arguments:
        case ():
            return b""
        case (bytes(data),):
            return data
        case (str(data), str(encoding)) if encoding in ("latin1", "latin-1"):
            budget.spend(len(data))
            try:
                return data.encode("latin-1")
            except UnicodeEncodeError as error:
                raise Refusal("it has bytes as a text that no bytes give") from error
    odd_arguments("_codecs.encode")


def _shape(arguments: tuple[Any, ...], budget: Budget) -> tuple[Any, ...]:
    """``torch.Size``, as a tuple."""
    match arguments:
        case (tuple(sides),):
            return sides
    odd_arguments("torch.Size")


def _first(arguments: tuple[Any, ...], budget: Budget) -> Any:
    """TorchScript's annotation of the type of a list or a dict: the list or the dict itself."""
    match arguments:
        case (list() | dict() as value,) | (list() | dict() as value, str()):
            return value
    odd_arguments("torch.jit._pickle")


def _fields(*names: str) -> Builder:
    """A named tuple with these fields, as a dict."""

    def build(arguments: tuple[Any, ...], budget: Budget) -> dict[str, Any]:
        if len(arguments) != len(names):
            raise Refusal(f"it has a named tuple of {len(arguments)} values, expected {len(names)}")
        return dict(zip(names, arguments, strict=True))

    return build


# --- who writes which name -------------------------------------------------------------------------------------------


def _under(modules: tuple[str, ...], names: dict[str, Builder | None]) -> dict[str, Builder | None]:
    return {f"{module}.{name}": builder for module in modules for name, builder in names.items()}


_NUMPY = ("numpy.core.multiarray", "numpy._core.multiarray")
_NUMPY_UMATH = ("numpy.core._multiarray_umath", "numpy._core._multiarray_umath")  # through dill
_RECONSTRUCT = frozenset(f"{module}._reconstruct" for module in _NUMPY + _NUMPY_UMATH)
_BUILTINS: dict[str, Builder | None] = {
    "set": _unordered,
    "bytes": _raw_bytes,
    "bytearray": _raw_bytes,
    # what collections.defaultdict calls for missing values, and what omegaconf notes as types
    **dict.fromkeys(("dict", "list", "tuple", "int", "long", "float", "bool", "str", "unicode", "object")),
}

NAMES: dict[str, Builder | None] = {
    # Python, by the names of its versions 2 and 3
    **_under(("builtins", "__builtin__"), _BUILTINS),
    "_codecs.encode": _raw_bytes,  # bytes in protocols below 3
    "collections.OrderedDict": _pairs,  # every state_dict()
    "collections.defaultdict": _default_mapping,  # optimizers' state_dict(), omegaconf
    "collections.Counter": _mapping,  # milestones of MultiStepLR
    # torch.save of any state_dict()
    **dict.fromkeys(STORAGES),
    **dict.fromkeys(TYPES),  # VISSL's configurations name types, and so do tensors without a class of storages
    **_TENSORS,
    "torch._tensor._rebuild_from_type_v2": _tensor_with_attributes,  # DINOv2
    "torch.Tensor": None,
    "torch.nn.parameter.Parameter": None,
    "torch.Size": _shape,
    "torch.device": None,
    # TorchScript (CLIP); its classes, below __torch__, are all inert
    **_under(
        ("torch.jit._pickle",),
        dict.fromkeys(
            ("build_intlist", "build_tensorlist", "build_doublelist", "build_boollist", "restore_type_tag"), _first
        ),
    ),
    # NumPy: learning rates and accuracies beside the weights (Mugs, DINO), and all numbers of BYOL
    "numpy.ndarray": None,
    "numpy.dtype": None,
    **_under(_NUMPY + _NUMPY_UMATH, {"_reconstruct": _reconstructed, "scalar": _scalar}),
    **_under(("numpy.core.numeric", "numpy._core.numeric"), {"_frombuffer": _from_buffer}),  # protocol 5
    # arguments of training scripts: MAE, DINO, iBOT, Mugs, MoCo-v3 and what follows them
    **dict.fromkeys(("argparse.Namespace", "types.SimpleNamespace")),
    **_under(
        ("pathlib", "pathlib._local"),
        dict.fromkeys(("Path", "PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")),
    ),
    **dict.fromkeys(("datetime.datetime", "datetime.date", "datetime.timedelta")),
    "torchvision.transforms.functional.InterpolationMode": None,
    # configurations as dictionaries with attributes
    "vissl.utils.hydra_config.AttrDict": _mapping,  # VISSL in 2020 and 2021, the originals of Barlow Twins
    "vissl.config.attr_dict.AttrDict": _mapping,  # VISSL since
    "easydict.EasyDict": _mapping,
    "yacs.config.CfgNode": _mapping,
    "fvcore.common.config.CfgNode": _mapping,
    "addict.addict.Dict": _mapping,
    "mmcv.utils.config.ConfigDict": _mapping,
    "mmengine.config.config.ConfigDict": _mapping,
    "pytorch_lightning.utilities.parsing.AttributeDict": _mapping,
    "lightning_fabric.utilities.data.AttributeDict": _mapping,
    # omegaconf: solo-learn and everything on hydra
    "omegaconf.dictconfig.DictConfig": None,
    "omegaconf.listconfig.ListConfig": None,
    **_under(("omegaconf.base",), dict.fromkeys(("ContainerMetadata", "Metadata"))),
    **_under(
        ("omegaconf.nodes",),
        dict.fromkeys(("AnyNode", "StringNode", "IntegerNode", "FloatNode", "BooleanNode", "EnumNode", "PathNode")),
    ),
    "typing.Any": None,
    "functools.partial": None,  # an optimizer or a transform among hyperparameters
    # functions and classes that stand beside the weights by name alone
    "__main__.exclude_bias_and_norm": None,  # LARS of Barlow Twins and VICReg
    **dict.fromkeys(("vissl.optimizers.lars._LARS", "vissl.optimizers.lars._LARS._exclude_bias_and_norm")),  # VISSL's
    "pytorch_lightning.callbacks.model_checkpoint.ModelCheckpoint": None,  # a key of Lightning's callbacks
    "mmengine.logging.history_buffer.HistoryBuffer": None,  # curves of mmengine's training, and its own statistics
    **_under(("mmengine.logging.history_buffer.HistoryBuffer",), dict.fromkeys(("max", "min", "mean", "current"))),
    # BYOL: dill of a named tuple of Haiku's mappings
    "byol.byol_experiment._ByolExperimentState": _fields(
        "online_params", "target_params", "online_state", "target_state", "opt_state"
    ),
    "byol.eval_experiment._EvalExperimentState": None,
    "byol.utils.optimizers.ScaleByLarsState": _fields("mu"),
    "byol.utils.optimizers.AddWeightDecayState": None,
    **_under(
        ("optax._src.transform", "optax._src.base"),
        dict.fromkeys(("ScaleState", "EmptyState", "IdentityState", "ScaleByScheduleState", "TraceState")),
    ),
    **_under(("haiku._src.data_structures",), dict.fromkeys(("FlatMapping", "FlatMap", "frozendict"), _mapping)),
    # JAX: the random key, which BYOL saves as it is
    "jax._src.array._reconstruct_array": _array_at_once,
    "jax._src.device_array.reconstruct_device_array": _array_at_once,
    "jax.interpreters.xla._reconstruct_device_array": _array_at_once,
    "dill._dill._create_array": _array_at_once,
}

_SCRIPTED = "__torch__."
_HYPERPARAMETER = re.compile(
    r"(?:(?:torch\.(?:nn\.modules|optim)|torchvision\.(?:transforms|models|ops)|timm|lightly|pytorch_lightning|lightning"
    r"|lightning_fabric|torchmetrics|solo|omegaconf)\.(?:[a-z_][a-z0-9_]*\.)*_?[A-Z]\w*"  # a class, by its capital
    r"|torch\.nn\.functional\.\w+|torch\._C\._nn\.\w+"  # activations
    r"|__main__\.[A-Za-z]\w*)",
    re.ASCII,
)


def lookup(name: str) -> type[StandIn] | None:
    """The stand-in for a name in any pickle; None if it has no place in a checkpoint."""
    return _STAND_INS.get(name) or _hyperparameter(name)


@lru_cache(maxsize=1000)
def _hyperparameter(name: str) -> type[StandIn] | None:
    return stand_in(name) if _HYPERPARAMETER.fullmatch(name) else None


def lookup_scripted(name: str) -> type[StandIn] | None:
    """Likewise in the pickle of a TorchScript archive, which has classes below ``__torch__``."""
    return stand_in(name) if name.startswith(_SCRIPTED) else lookup(name)


# --- the detours of dill, and of Python below protocol 4 -------------------------------------------------------------

_MODULES = frozenset(name.rpartition(".")[0] for name in NAMES)


def _module(arguments: tuple[Any, ...]) -> Any:
    """dill's ``_import_module``: nothing is imported, and an attribute of it is a name of the table or nothing."""
    match arguments:
        case (str(name),):
            if name not in _MODULES:
                raise Refusal(f"it asks for the module {clipped(name)}, which no known kind of checkpoint needs")
            return stand_in(name, step=_no_call)
    odd_arguments("dill._dill._import_module")


def _no_call(arguments: tuple[Any, ...]) -> Any:
    raise Refusal("it calls a module")


def _attribute(arguments: tuple[Any, ...]) -> Any:
    """``getattr`` of Python and ``_get_attr`` of dill: a name of the table in two steps, and never an attribute."""
    match arguments:
        case (type() as of, str(attribute)) if issubclass(of, StandIn):
            return named(f"{of.name}.{attribute}", lookup)
    odd_arguments("getattr")


def _named_tuple(arguments: tuple[Any, ...]) -> Any:
    """dill's ``_create_namedtuple``: name, fields, module and, in later versions, defaults."""
    match arguments:
        case (str(name), tuple(names), str(module), *_) if len(name) + len(module) <= 200 and len(names) <= 64:
            if all(type(field) is str and is_plain_key(field) for field in names):
                return stand_in(f"{module}.{name}", _fields(*names))
    odd_arguments("dill._dill._create_namedtuple")


_STAND_INS = {
    **{name: stand_in(name, build, takes_state=build is _reconstructed) for name, build in NAMES.items()},
    "builtins.getattr": stand_in("builtins.getattr", step=_attribute),  # methods
    "__builtin__.getattr": stand_in("__builtin__.getattr", step=_attribute),
    "dill._dill._import_module": stand_in("dill._dill._import_module", step=_module),
    "dill._dill._get_attr": stand_in("dill._dill._get_attr", step=_attribute),
    "dill._dill._create_namedtuple": stand_in("dill._dill._create_namedtuple", step=_named_tuple),
}
