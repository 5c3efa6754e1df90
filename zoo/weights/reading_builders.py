"""What stands for the few callables of a pickle whose results matter: plain containers, and the detours of dill."""

from __future__ import annotations

from typing import Any

from .reading_inert import Budget, Builder, Global, Inert, Lookup, Refusal, clipped, is_plain_key, named, odd_arguments

_ITEM_BYTES = 32  # about what an item of a container takes


def mapping(arguments: tuple[Any, ...], budget: Budget) -> dict[Any, Any]:
    """A dict, of nothing or of a dict; what a subclass has beside its items is left out."""
    match arguments:
        case ():
            return {}
        case (dict() as items,):
            budget.spend(_ITEM_BYTES * len(items))
            return dict(items)
    raise odd_arguments("a dictionary")


def default_mapping(arguments: tuple[Any, ...], budget: Budget) -> dict[Any, Any]:
    """A dict; whatever would have made its missing values never makes one."""
    match arguments:
        case () | (Global() | None,):
            return {}
    raise odd_arguments("collections.defaultdict")


def pairs(arguments: tuple[Any, ...], budget: Budget) -> dict[Any, Any]:
    """An OrderedDict, of nothing, of a dict or, as Python 2 had it, of pairs with texts for keys."""
    match arguments:
        case (list(items),):
            budget.spend(2 * _ITEM_BYTES * len(items))
            result = {}
            for item in items:
                match item:
                    case [str(key), value] if is_plain_key(key):
                        result[key] = value
                    case _:
                        raise odd_arguments("collections.OrderedDict")
            return result
    return mapping(arguments, budget)


def unordered(arguments: tuple[Any, ...], budget: Budget) -> set[Any]:
    """A set of texts and numbers."""
    match arguments:
        case ():
            return set()
        case (list(items),) if all(map(is_plain_key, items)):
            budget.spend(_ITEM_BYTES * len(items))
            return set(items)
    raise odd_arguments("builtins.set")


def raw_bytes(arguments: tuple[Any, ...], budget: Budget) -> bytes:
    """Bytes, of nothing, of bytes, or of a text that has one character a byte."""
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
    raise odd_arguments("_codecs.encode")


def shape(arguments: tuple[Any, ...], budget: Budget) -> tuple[Any, ...]:
    """``torch.Size``, as a tuple."""
    match arguments:
        case (tuple(sides),):
            return sides
    raise odd_arguments("torch.Size")


def fields(*names: str) -> Builder:
    """A named tuple with these fields, as a dict."""

    def build(arguments: tuple[Any, ...], budget: Budget) -> dict[str, Any]:
        if len(arguments) != len(names):
            raise Refusal(f"it has a named tuple of {len(arguments)} values, expected {len(names)}")
        return dict(zip(names, arguments, strict=True))

    return build


def named_tuple(arguments: tuple[Any, ...], budget: Budget) -> Global:
    """dill's ``_create_namedtuple``: name, fields, module and, in later versions, defaults."""
    match arguments:
        case (str(name), tuple(names), str(module), *_) if len(name) + len(module) <= 200 and len(names) <= 64:
            if all(type(field) is str and is_plain_key(field) for field in names):
                return Global(f"{module}.{name}", fields(*names))
    raise odd_arguments("dill._dill._create_namedtuple")


class Module(Inert):
    """A module that dill would import, to get a function of it that the table has."""

    __slots__ = ()


def module_of(modules: frozenset[str]) -> Builder:
    """dill's ``_import_module``: nothing is imported, and ``_get_attr`` alone can do anything with what it gives."""

    def build(arguments: tuple[Any, ...], budget: Budget) -> Module:
        match arguments:
            case (str(name),):
                if name not in modules:
                    raise Refusal(
                        f"it asks for the module {clipped(name)}, which no checkpoint that the zoo knows needs"
                    )
                return Module(name)
        raise odd_arguments("dill._dill._import_module")

    return build


def attribute_of(lookup: Lookup) -> Builder:
    """``getattr`` of Python and ``_get_attr`` of dill: a name of the table in two steps, and never an attribute."""

    def build(arguments: tuple[Any, ...], budget: Budget) -> Global:
        match arguments:
            case (Module(name=name) | Global(name=name), str(attribute)):
                return named(f"{name}.{attribute}", lookup)
        raise odd_arguments("getattr")

    return build


def first(arguments: tuple[Any, ...], budget: Budget) -> Any:
    """TorchScript's notes on the type of a list or a dict: the list or the dict itself."""
    match arguments:
        case (list() | dict() as value,) | (list() | dict() as value, str()):
            return value
    raise odd_arguments("torch.jit._pickle")
