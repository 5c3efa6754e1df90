"""Every name that the pickle of a checkpoint may ask for, who writes it, and what stands for it.

``None`` stands for it with an ``Inert``. None of these names is ever imported: adding one to this table gives a file no
power, it only says that files with this name are checkpoints as people really write them. Hyperparameters may be of any
class of the libraries that training scripts use, and of the script itself (``__main__``); all of these are inert.
"""

from __future__ import annotations

import re
from functools import lru_cache

from . import reading_builders as build
from . import reading_tensors as tensors
from .reading_inert import Builder, Global

_BYOL_STATE = ("online_params", "target_params", "online_state", "target_state", "opt_state")


def _under(modules: tuple[str, ...], names: dict[str, Builder | None]) -> dict[str, Builder | None]:
    return {f"{module}.{name}": builder for module in modules for name, builder in names.items()}


_BUILTINS: dict[str, Builder | None] = {
    "set": build.unordered,
    "bytes": build.raw_bytes,
    "bytearray": build.raw_bytes,
    # what collections.defaultdict calls for missing values, and what omegaconf notes as types
    **dict.fromkeys(("dict", "list", "tuple", "int", "long", "float", "bool", "str", "unicode", "object")),
}
_NUMPY_FUNCTIONS: dict[str, Builder | None] = {"_reconstruct": tensors.unfilled, "scalar": tensors.scalar}

NAMES: dict[str, Builder | None] = {
    # Python, by the names of its versions 2 and 3
    **_under(("builtins", "__builtin__"), _BUILTINS),
    "_codecs.encode": build.raw_bytes,  # bytes in protocols below 3
    "collections.OrderedDict": build.pairs,  # every state_dict()
    "collections.defaultdict": build.default_mapping,  # optimizers' state_dict(), omegaconf
    "collections.Counter": build.mapping,  # milestones of MultiStepLR
    # torch.save of any state_dict()
    **dict.fromkeys(tensors.STORAGES),
    **dict.fromkeys(tensors.TYPES),  # VISSL's configurations name types, and so do tensors without a class of storages
    "torch._utils._rebuild_tensor": tensors.tensor,  # torch before 0.4
    "torch._utils._rebuild_tensor_v2": tensors.tensor,
    "torch._utils._rebuild_tensor_v3": tensors.typed_tensor,
    "torch._utils._rebuild_parameter": tensors.parameter,
    "torch._utils._rebuild_parameter_with_state": tensors.parameter,
    "torch._tensor._rebuild_from_type_v2": tensors.tensor_with_attributes,  # DINOv2
    "torch.Tensor": None,
    "torch.nn.parameter.Parameter": None,
    "torch.Size": build.shape,
    "torch.device": None,
    # TorchScript (CLIP); its classes, below __torch__, are all inert
    **_under(
        ("torch.jit._pickle",),
        dict.fromkeys(
            ("build_intlist", "build_tensorlist", "build_doublelist", "build_boollist", "restore_type_tag"), build.first
        ),
    ),
    # NumPy: learning rates and accuracies beside the weights (Mugs, DINO), and all numbers of BYOL
    "numpy.ndarray": None,
    "numpy.dtype": None,
    **_under(("numpy.core.multiarray", "numpy._core.multiarray"), _NUMPY_FUNCTIONS),
    **_under(("numpy.core._multiarray_umath", "numpy._core._multiarray_umath"), _NUMPY_FUNCTIONS),  # through dill
    **_under(("numpy.core.numeric", "numpy._core.numeric"), {"_frombuffer": tensors.from_buffer}),  # protocol 5
    # arguments of training scripts: MAE, DINO, iBOT, Mugs, MoCo-v3 and what follows them
    **dict.fromkeys(("argparse.Namespace", "types.SimpleNamespace")),
    **_under(
        ("pathlib", "pathlib._local"),
        dict.fromkeys(("Path", "PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")),
    ),
    **dict.fromkeys(("datetime.datetime", "datetime.date", "datetime.timedelta")),
    "torchvision.transforms.functional.InterpolationMode": None,
    # configurations as dictionaries with attributes
    "vissl.utils.hydra_config.AttrDict": build.mapping,  # VISSL in 2020 and 2021, the originals of Barlow Twins
    "vissl.config.attr_dict.AttrDict": build.mapping,  # VISSL since
    "easydict.EasyDict": build.mapping,
    "yacs.config.CfgNode": build.mapping,
    "fvcore.common.config.CfgNode": build.mapping,
    "addict.addict.Dict": build.mapping,
    "mmcv.utils.config.ConfigDict": build.mapping,
    "mmengine.config.config.ConfigDict": build.mapping,
    "pytorch_lightning.utilities.parsing.AttributeDict": build.mapping,
    "lightning_fabric.utilities.data.AttributeDict": build.mapping,
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
    "byol.byol_experiment._ByolExperimentState": build.fields(*_BYOL_STATE),
    "byol.eval_experiment._EvalExperimentState": None,
    "byol.utils.optimizers.ScaleByLarsState": build.fields("mu"),
    "byol.utils.optimizers.AddWeightDecayState": None,
    **_under(
        ("optax._src.transform", "optax._src.base"),
        dict.fromkeys(("ScaleState", "EmptyState", "IdentityState", "ScaleByScheduleState", "TraceState")),
    ),
    **_under(("haiku._src.data_structures",), dict.fromkeys(("FlatMapping", "FlatMap", "frozendict"), build.mapping)),
    # JAX: the random key, which BYOL saves as it is
    "jax._src.array._reconstruct_array": tensors.filled,
    "jax._src.device_array.reconstruct_device_array": tensors.filled,
    "jax.interpreters.xla._reconstruct_device_array": tensors.filled,
    "dill._dill._create_array": tensors.filled,
    "dill._dill._create_namedtuple": build.named_tuple,
}

_SCRIPTED = "__torch__."
_HYPERPARAMETER = re.compile(
    r"(?:(?:torch\.(?:nn\.modules|optim)|torchvision\.(?:transforms|models|ops)|timm|lightly|pytorch_lightning|lightning"
    r"|lightning_fabric|torchmetrics|solo|omegaconf)\.(?:[a-z_][a-z0-9_]*\.)*_?[A-Z]\w*"  # a class, by its capital
    r"|torch\.nn\.functional\.\w+|torch\._C\._nn\.\w+"  # activations
    r"|__main__\.[A-Za-z]\w*)",
    re.ASCII,
)


def lookup(name: str) -> Global | None:
    """What stands for a name in any pickle; None if it has no place in a checkpoint."""
    return _GLOBALS.get(name) or _hyperparameter(name)


@lru_cache(maxsize=1000)
def _hyperparameter(name: str) -> Global | None:
    return Global(name) if _HYPERPARAMETER.fullmatch(name) else None


def lookup_scripted(name: str) -> Global | None:
    """Likewise in the pickle of a TorchScript archive, which has classes of its own."""
    return Global(name) if name.startswith(_SCRIPTED) else lookup(name)


_TWO_STEPS: dict[str, Builder] = {  # two steps to a name of the table above
    **dict.fromkeys(
        ("builtins.getattr", "__builtin__.getattr"), build.attribute_of(lookup)
    ),  # methods, below protocol 4
    "dill._dill._import_module": build.module_of(frozenset(name.rpartition(".")[0] for name in NAMES)),
    "dill._dill._get_attr": build.attribute_of(lookup),
}
_GLOBALS = {name: Global(name, builder) for name, builder in {**NAMES, **_TWO_STEPS}.items()}
