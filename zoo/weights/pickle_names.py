"""Every name that the pickle of a checkpoint may ask for, who writes it, and the function that is run in its place.

None of these names is ever imported: the table only says that files with such a name are checkpoints in actual use.
Tensors are views of torch's storages or copies of NumPy's arrays. Hyperparameters may be of any class of the libraries
that training scripts use, and of the script itself (``__main__``): they are inert.
"""

from __future__ import annotations

import math
import re
import sys
from functools import lru_cache
from typing import Any

from ..optional import require_extra
from .pickles import (
    Builder,
    DeferredObject,
    GlobalName,
    InertObject,
    MemoryBudget,
    PickleRefusal,
    is_plain_key,
    resolve_global,
    shorten_name,
)

with require_extra("models", needed_for="Reading weights"):
    import torch
    from torch import Tensor

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
_PLAIN_TYPES = {*STORAGES.values(), *NUMPY_TYPES.values()}
_MOST_DIMENSIONS = 32
_MOST_ELEMENTS = 2**62
_TENSOR_BYTES = 1000  # of memory that a tensor takes in addition to its numbers, about
_ITEM_BYTES = 100  # of memory that an item of a dictionary or a set takes, about


# --- tensors ---------------------------------------------------------------------------------------------------------


class Storage:
    """A row of elements, of which tensors are views; never part of any content."""

    __slots__ = ("elements",)

    def __init__(self, elements: Tensor) -> None:
        self.elements = elements

    def view(self, offset: Any, size: Any, stride: Any, budget: MemoryBudget) -> Tensor:
        """A tensor on this storage, all of it within: offset, size and stride count elements.

        ``budget`` is charged with the bytes of its elements, which are more than the storage's where strides are 0.
        """
        elements, n = self.elements, _n_elements(size)
        if not (_is_shape(stride) and len(stride) == len(size) and type(offset) is int and offset >= 0):
            raise PickleRefusal("it has a tensor without a proper offset and strides")
        if n and offset + sum((side - 1) * step for side, step in zip(size, stride, strict=True)) >= len(elements):
            raise PickleRefusal("it has a tensor that reaches beyond its storage")
        budget.show(n * elements.itemsize)
        budget.spend(_TENSOR_BYTES)
        return elements.as_strided(size, stride, offset) if n else torch.empty(size, dtype=elements.dtype)


def check_tensor(tensor: Tensor, name: str = "") -> Tensor:
    """A tensor, if its numbers are plain."""
    if tensor.dtype not in _PLAIN_TYPES:
        raise _strange(str(tensor.dtype), name)
    if tensor.dtype == torch.bool and (tensor.view(torch.uint8) > 1).any():
        raise PickleRefusal("it holds truth values that are neither true nor false")
    return tensor


def _tensor(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    """``_rebuild_tensor`` and ``_rebuild_tensor_v2``: storage, offset, size, stride; no gradients or hooks."""
    match arguments:
        case (Storage() as storage, offset, size, stride, *more) if len(more) <= 3:
            return storage.view(offset, size, stride, budget)


def _strange(dtype: str, name: str = "") -> PickleRefusal:
    where = f", {shorten_name(name)}" if name else ""
    remedy = "save the weights as float32, by whatever scales belong to them" if "float" in dtype else ""
    return PickleRefusal(
        f"it holds a tensor of {dtype}{where}, expected plain numbers of 16, 32 or 64 bits", remedy=remedy
    )


def _other_tensor(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    """``_rebuild_tensor_v3``, of types without a storage of their own: 8-bit floats and unsigned integers."""
    match arguments:
        case (_, _, _, _, _, _, GlobalName(name=dtype), *_):
            raise _strange(dtype)


def _parameter(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    """``_rebuild_parameter``, with or without attributes: the tensor alone."""
    match arguments:
        case (Tensor() as data, *more) if len(more) in (2, 3):
            return data


_TENSORS: dict[str, Builder] = {
    "torch._utils._rebuild_tensor": _tensor,  # torch before 0.4
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _other_tensor,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
}


def _tensor_with_attributes(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    """``_rebuild_from_type_v2``: the tensor alone, if it is of no subclass."""
    match arguments:
        case (
            GlobalName(name=name),
            GlobalName(name="torch.Tensor" | "torch.nn.parameter.Parameter"),
            tuple() as of,
            _,
        ):
            if name in _TENSORS:
                return _TENSORS[name](of, budget)


def _array(data: Any, shape: Any, dtype: Any, *, is_fortran: bool, budget: MemoryBudget) -> Tensor | InertObject:
    """A tensor of the numbers in ``data``, of an array of NumPy in C's order or in Fortran's; texts are not read."""
    kind = _numpy_type(dtype)
    if isinstance(kind, str):
        return InertObject(f"numpy.ndarray[{kind[:10]}]")
    n = _n_elements(shape)
    if not isinstance(data, bytes | str) or len(data) != n * kind.itemsize:
        raise PickleRefusal("it has an array of NumPy that is not as long as its shape says")
    budget.spend(len(data) + _TENSOR_BYTES)
    if n == 0:
        return torch.empty(shape, dtype=kind)
    raw = bytearray(data, "latin-1") if isinstance(data, str) else bytearray(data)  # a text, as Python 2 had it
    numbers = check_tensor(torch.frombuffer(raw, dtype=kind))
    if is_fortran:
        return numbers.reshape(shape[::-1]).permute(tuple(reversed(range(len(shape)))))
    return numbers.reshape(shape)


def _scalar(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    """A number of NumPy, as a number of Python."""
    match arguments:
        case (dtype, str() | bytes() as data):
            value = _array(data, (), dtype, is_fortran=False, budget=budget)
            return value.item() if isinstance(value, Tensor) else value


def _filled(state: Any, budget: MemoryBudget) -> Tensor | InertObject:
    """The array that a state of NumPy's ``ndarray`` describes."""
    match state:
        case (int(), shape, dtype, bool(is_fortran), data) | (shape, dtype, bool(is_fortran), data):
            return _array(data, shape, dtype, is_fortran=is_fortran, budget=budget)
    raise PickleRefusal("it has an array of NumPy without a proper state")


def _reconstructed(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    """NumPy's ``_reconstruct``, of plain arrays only: the numbers are in the state that follows."""
    match arguments:
        case (GlobalName(name="numpy.ndarray"), tuple(), str() | bytes()):
            return DeferredObject(_filled)


def _from_buffer(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    """NumPy's ``_frombuffer``, which pickles of protocol 5 use."""
    match arguments:
        case (bytes() as data, dtype, shape, str(order)) if order in ("C", "F"):
            return _array(data, shape, dtype, is_fortran=order == "F", budget=budget)


def _array_at_once(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    """An array with its state, as dill and JAX write it: function, arguments, state, and more."""
    match arguments:
        case (GlobalName(build=build), tuple(of), tuple() as state, _) if build is _reconstructed and build(of, budget):
            return _filled(state, budget)


def _numpy_type(dtype: Any) -> torch.dtype | str:
    """The type of plain numbers, or the code of texts, dates and complex numbers."""
    match dtype:
        case InertObject(name="numpy.dtype", arguments=(str(code), *_), state=state) if len(code) <= 10:
            order = state[1] if type(state) is tuple and len(state) > 1 else "="
            code = code.lstrip("<|=")
            if code in NUMPY_TYPES and type(order) is str and order in ("<", "|", "="):
                return NUMPY_TYPES[code]
            if code[:1] in ("U", "S", "M", "m", "c"):
                return code
            raise PickleRefusal(
                f"it has an array of NumPy's type {shorten_name(code)}, expected plain numbers, little-endian"
            )
    raise PickleRefusal("it has an array of NumPy without a type")


def _n_elements(size: Any) -> int:
    if not _is_shape(size) or math.prod(side or 1 for side in size) > _MOST_ELEMENTS:
        raise PickleRefusal("it has a tensor without a proper shape")
    return math.prod(size)


def _is_shape(size: Any) -> bool:
    return (
        type(size) is tuple
        and len(size) <= _MOST_DIMENSIONS
        and all(type(side) is int and 0 <= side <= _MOST_ELEMENTS for side in size)
    )


# --- plain containers ------------------------------------------------------------------------------------------------


def _mapping(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    """A dict, empty, from a dict or, as Python 2 has it, from pairs with texts as keys."""
    match arguments:
        case ():
            return {}
        case (dict() | list() as items,):
            budget.spend(_ITEM_BYTES * len(items))
            if isinstance(items, dict) or all(_is_pair(item) for item in items):
                return dict(items)


def _is_pair(pair: Any) -> bool:
    match pair:
        case [str(key), _]:
            return is_plain_key(key)
    return False


def _default_mapping(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    """A dict; the factory of missing values is dropped."""
    match arguments:
        case () | (InertObject() | None,):
            return {}


def _set(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    """A set of texts and numbers."""
    match arguments:
        case ():
            return set()
        case (list(items),) if all(map(is_plain_key, items)):
            budget.spend(_ITEM_BYTES * len(items))
            return set(items)


def _bytes(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    """Bytes, empty, from bytes, or from a text that has one character a byte."""
    match arguments:
        case ():
            return b""
        case (bytes(data),):
            return data
        case (str(data), str(encoding)) if encoding in ("latin1", "latin-1"):
            budget.spend(len(data))
            return data.encode("latin-1")


def _shape(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    """``torch.Size``, as a tuple."""
    match arguments:
        case (tuple(sides),):
            return sides


def _annotated(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    """TorchScript's annotation of the type of a list or a dict: the list or the dict itself."""
    match arguments:
        case (list() | dict() as value,) | (list() | dict() as value, str()):
            return value


def _fields(*names: str) -> Builder:
    """A named tuple with these fields, as a dict."""

    def build(arguments: tuple[Any, ...], budget: MemoryBudget) -> dict[str, Any]:
        if len(arguments) != len(names):
            raise PickleRefusal(f"it has a named tuple of {len(arguments)} values, expected {len(names)}")
        return dict(zip(names, arguments, strict=True))

    return build


# --- the detours of dill, and of Python below protocol 4: a name in two steps, never an attribute --------------------


def _attribute(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    """``getattr`` of Python and ``_get_attr`` of dill."""
    match arguments:
        case (GlobalName(name=of), str(attribute)):
            return resolve_global(f"{of}.{attribute}", lookup)


def _module(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    """dill's ``_import_module``: nothing is imported."""
    match arguments:
        case (str(name),):
            if name not in _MODULES:
                raise PickleRefusal(
                    f"it asks for the module {shorten_name(name)}, which no known kind of checkpoint needs"
                )
            return GlobalName(name, _no_call)


def _no_call(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    raise PickleRefusal("it calls a module")


def _named_tuple(arguments: tuple[Any, ...], budget: MemoryBudget) -> Any:
    """dill's ``_create_namedtuple``: name, fields, module and, in later versions, defaults."""
    match arguments:
        case (str(name), tuple(names), str(module), *_) if len(name) + len(module) <= 200 and len(names) <= 64:
            if all(type(field) is str and is_plain_key(field) for field in names):
                return GlobalName(f"{module}.{name}", _fields(*names))


# --- who writes which name -------------------------------------------------------------------------------------------

_BUILDERS: dict[str, Builder] = {
    # Python, by the names of its versions 2 and 3, which are those of __builtin__ and builtins
    "builtins.set": _set,
    "builtins.frozenset": _set,
    "builtins.bytes": _bytes,
    "builtins.bytearray": _bytes,
    "builtins.getattr": _attribute,  # methods
    "_codecs.encode": _bytes,  # bytes in protocols below 3
    "collections.OrderedDict": _mapping,  # every state_dict()
    "collections.defaultdict": _default_mapping,  # optimizers' state_dict(), omegaconf
    "collections.Counter": _mapping,  # milestones of MultiStepLR
    # torch.save of any state_dict()
    **_TENSORS,
    "torch._tensor._rebuild_from_type_v2": _tensor_with_attributes,  # DINOv2
    "torch.Size": _shape,
    # TorchScript (CLIP); its classes, below __torch__, are all inert
    "torch.jit._pickle.build_intlist": _annotated,
    "torch.jit._pickle.build_tensorlist": _annotated,
    "torch.jit._pickle.build_doublelist": _annotated,
    "torch.jit._pickle.build_boollist": _annotated,
    "torch.jit._pickle.restore_type_tag": _annotated,
    # NumPy before and since version 2, which are those of numpy.core and numpy._core: learning rates and accuracies
    # next to the weights (Mugs, DINO), and all numbers of BYOL
    "numpy.core.multiarray._reconstruct": _reconstructed,
    "numpy.core.multiarray.scalar": _scalar,
    "numpy.core._multiarray_umath._reconstruct": _reconstructed,  # through dill
    "numpy.core._multiarray_umath.scalar": _scalar,
    "numpy.core.numeric._frombuffer": _from_buffer,  # protocol 5
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
    # BYOL: dill of a named tuple of Haiku's mappings
    "byol.byol_experiment._ByolExperimentState": _fields(
        "online_params", "target_params", "online_state", "target_state", "opt_state"
    ),
    "byol.utils.optimizers.ScaleByLarsState": _fields("mu"),
    "haiku._src.data_structures.FlatMapping": _mapping,
    "haiku._src.data_structures.FlatMap": _mapping,
    "haiku._src.data_structures.frozendict": _mapping,
    # JAX: the random key, which BYOL saves as it is
    "jax._src.array._reconstruct_array": _array_at_once,
    "jax._src.device_array.reconstruct_device_array": _array_at_once,
    "jax.interpreters.xla._reconstruct_device_array": _array_at_once,
    "dill._dill._create_array": _array_at_once,
    "dill._dill._import_module": _module,
    "dill._dill._get_attr": _attribute,
    "dill._dill._create_namedtuple": _named_tuple,
}
_INERT = re.compile(
    r"""
    builtins\.(?:dict|list|tuple|int|long|float|bool|str|unicode|object)  # factories of defaultdict, types of omegaconf
    | torch\.(?:\w+Storage|Tensor|nn\.parameter\.Parameter|device|bool|(?:u?int|b?float|complex)\d+(?:_e\w+)?)
    | torch\.(?:_C\.Generator|_utils\._rebuild_wrapper_subclass|storage\.UntypedStorage|serialization\._get_layout)
    | numpy\.(?:ndarray|dtype|generic|(?:bool|str|bytes|object)_?|(?:u?int|float|complex)\d+)
    | datetime\.(?:time|timezone)
    # arguments and configurations of training scripts: MAE, DINO, iBOT, Mugs, MoCo-v3, solo-learn, all on hydra
    | argparse\.Namespace | types\.SimpleNamespace | typing\.Any | functools\.partial
    | pathlib\.(?:_local\.)?(?:Path|(?:Pure)?(?:Posix|Windows)Path) | datetime\.(?:datetime|date|timedelta)
    # classes of the libraries that they use, by their capital, activations, and what the script itself has
    | (?:torch\.(?:nn\.modules|optim)|torchvision\.(?:transforms|models|ops)|timm|lightly|pytorch_lightning|lightning
      |lightning_fabric|torchmetrics|solo|omegaconf)\.(?:[a-z_][a-z0-9_]*\.)*_?[A-Z]\w*
    | torch\.nn\.functional\.\w+ | torch\._C\._nn\.\w+ | __main__\.[A-Za-z]\w*
    | vissl\.optimizers\.lars\._LARS(?:\._exclude_bias_and_norm)?
    | mmengine\.logging\.history_buffer\.HistoryBuffer(?:\.(?:max|min|mean|current))?
    # BYOL
    | byol\.eval_experiment\._EvalExperimentState | byol\.utils\.optimizers\.AddWeightDecayState
    | optax\._src\.(?:transform|base)\.(?:Scale|Empty|Identity|ScaleBySchedule|Trace)State
    """,
    re.ASCII | re.VERBOSE,
)
_VALUES = re.compile(  # of hyperparameters
    r"numpy\.ndarray\[\w+\]|builtins\.(?:complex|x?range|slice|type|Ellipsis|NotImplemented)|decimal\.Decimal"
    r"|fractions\.Fraction|uuid\.UUID|zoneinfo\.ZoneInfo\._unpickle|re\._compile|random\.Random|logging\.getLogger|collections\.(?:ChainMap|deque)",
    re.ASCII,
)
_LISTED = {"torch", "numpy", "dill", "__builtin__", "__torch__", *sys.builtin_module_names}
_NAMES = {name: GlobalName(name, build) for name, build in _BUILDERS.items()}
_OTHER_SPELLINGS = (("__builtin__.", "builtins."), ("numpy._core.", "numpy.core."))
_MODULES = {
    spelling
    for module in {name.rpartition(".")[0] for name in _BUILDERS} | {"numpy", "argparse", "types"}
    for spelling in (module, module.replace("numpy.core", "numpy._core"))
}


@lru_cache(maxsize=1000)
def lookup(name: str) -> GlobalName | None:
    """What stands for a name in any pickle; None if it has no place in a checkpoint."""
    for other, ours in _OTHER_SPELLINGS:
        name = ours + name.removeprefix(other) if name.startswith(other) else name
    return _NAMES.get(name) or (GlobalName(name) if _INERT.fullmatch(name) or is_skipped(name) else None)


def is_skipped(name: str) -> bool:
    """True for hyperparameters that are not read: values of Python, and objects of a user's packages.

    Nothing is imported for them; of Python and of packages whose names are listed here, any other name is refused.
    """
    package = name.partition(".")[0]
    is_foreign = package.isidentifier() and package not in sys.stdlib_module_names and package not in _LISTED
    return _VALUES.fullmatch(name) is not None or (is_foreign and not (_INERT.fullmatch(name) or name in _NAMES))


def lookup_scripted(name: str) -> GlobalName | None:
    """Likewise in the pickle of a TorchScript archive, which has classes below ``__torch__``."""
    return GlobalName(name) if name.startswith("__torch__.") else lookup(name)
