"""Pickles that run nothing and still must be refused: they hang, exhaust, crash or deceive a careless reader."""

from __future__ import annotations

import struct

from tests.weights.malice import (
    APPEND,
    DICT,
    FALSE,
    LIST,
    NONE,
    POP,
    TRUE,
    call,
    group,
    listed,
    name,
    number,
    raw,
    text,
    whole,
)

_FLOAT32 = (
    call("numpy dtype", text("f4"), FALSE, TRUE) + group(number(3), text("<"), *3 * [NONE], *3 * [number(-1)]) + b"b"
)
_ARRAY = call("numpy.core.multiarray _reconstruct", name("numpy ndarray"), group(number(0)), raw(b"b"))
_ORDERED = call("collections OrderedDict")
_HUGE = 2**62
_PERSISTENT = b"Q"


def storage(key: str = "0", n: int = 4, kind: str = "torch FloatStorage", *more: bytes) -> bytes:
    """The storage of a zip archive, pushed: 4 float32 under the key "0" are there."""
    return group(text("storage"), name(kind), text(key), text("cpu"), number(n), *more) + _PERSISTENT


def tensor(offset: int, size: tuple[int, ...], stride: tuple[int, ...], *, of: bytes | None = None) -> bytes:
    """A tensor on a storage, pushed."""
    shape = (group(*map(number, size)), group(*map(number, stride)))
    return call("torch._utils _rebuild_tensor_v2", of or storage(), number(offset), *shape, FALSE, _ORDERED)


def _array(shape: tuple[int, ...], data: bytes, *, dtype: bytes = _FLOAT32) -> bytes:
    return _ARRAY + group(number(1), group(*map(number, shape)), dtype, FALSE, raw(data)) + b"b"


def _nested(push: bytes, wrap: bytes, n: int) -> bytes:
    return push + wrap * n


def bombs() -> dict[str, bytes]:
    """Pickles to be refused in every container, by what is wrong with them."""
    doubled = b")" + b"".join(b"q" + bytes([place]) + b"h" + bytes([place]) + b"\x86" for place in range(60))
    lists = b"".join(b"q" + bytes([place]) + listed(*9 * [b"h" + bytes([place])]) for place in range(60))
    colliding = b"".join(group(*map(number, (place, place))) + NONE for place in range(1100))
    state = DICT + b"(" + b"".join(text(f"name {place}") + NONE for place in range(3000)) + b"u"
    again = name("argparse Namespace") + b")\x81h\7ba"
    numbers = DICT + b"(" + b"".join(number(place) + NONE for place in range(3000)) + b"u"
    places = b"".join(b"r" + struct.pack("<I", place) for place in range(3000))
    state_of_array = group(number(1), group(number(1)), _FLOAT32, FALSE, raw(bytes(4))) + b"b"
    megabyte = text("x" * 2**20) + b"q\7" + APPEND
    bodies = {
        "a doubling tuple as a key": DICT + doubled + NONE + b"s",
        "a doubling tuple in a set": b"\x8f(" + doubled + b"\x90",
        "a doubling tuple in a frozenset": b"(" + doubled + b"\x91",
        "a doubling tuple": doubled,
        "lists of lists of one list": b"(" + LIST + lists + b"t",
        "a tuple 50,000 deep as a key": DICT + _nested(b")", b"\x85", 50_000) + NONE + b"s",
        "a tuple 50,000 deep": _nested(b")", b"\x85", 50_000),
        "lists 50,000 deep": LIST * 50_000 + APPEND * 49_999,
        "frozensets in frozensets": b"(" * 200 + b")" + b"\x91" * 200,
        "a list that holds itself": LIST + b"q\1h\1" + APPEND,
        "a dict that holds itself": DICT + b"q\1" + text("a") + b"h\1s",
        "tuples whose hashes collide": DICT + b"(" + colliding + b"u",
        "a large state given many times": LIST + state + b"q\7" + APPEND + again * 3000,
        "a large state without names given many times": LIST + numbers + b"q\7" + APPEND + again * 3000,
        "a key of a megabyte": DICT + text("x" * 2**20) + NONE + b"s",
        "a name of NumPy's type of a megabyte": call(
            "numpy.core.multiarray scalar", call("numpy dtype", text("<" * 2**20 + "i1"), FALSE, TRUE), raw(b"1")
        ),
        "a large tuple of arguments": name("types SimpleNamespace") + b"(" + NONE * 100 + b"tR",
        "what is thrown away": NONE + NONE + POP,
        "what is thrown away to a mark": NONE + b"(" + NONE + b"1",
        "an array of many places filled many times": (
            LIST + b"(" + _ARRAY + places + (b"h\1" + state_of_array) * 100 + b"e"
        ),
        "a hundred thousand sets": b"(" + b"\x8f" * 100_000 + b"t",
        "a megabyte of text made bytes many times": (
            LIST + megabyte + (call("_codecs encode", b"h\7", text("latin1")) + APPEND) * 100
        ),
        "an integer of a megabyte": b"\x8b\0\0\x10\0" + b"\1" * 2**20,
        "an integer as text": b"I" + b"9" * 5000 + b"\n",
        "a long integer as text": b"L" + b"9" * 5000 + b"L\n",
        "bytes longer than the file": b"\x8e" + b"\xff" * 8 + b"abc",
        "a text longer than the file": b"X\xff\xff\xff\x7fabc",
        "a frame longer than the file": b"\x95" + b"\xff" * 8 + NONE,
        "a protocol of the future": b"\x80\xc8N",
        "a text that is not UTF-8": b"X\2\0\0\0\xff\xfe",
        "a name without an end": b"c" + b"a" * 5000,
        "a name that is a number": number(1) + number(2) + b"\x93",
        "an empty stack": b"0",
        "nothing but marks": b"(" * 1000,
        "two objects": NONE + NONE,
        "a mark left open": b"(" + NONE,
        "a memo that is empty": b"h\1",
        "no end": NONE * 10 + b"\x8c\xff",
        "the extension registry, 1 byte": b"\x82\1",
        "the extension registry, 2 bytes": b"\x83\1\0",
        "the extension registry, 4 bytes": b"\x84\1\0\0\0",
        "a persistent id as text": b"P1\n",
        "a persistent id that is a number": number(1) + _PERSISTENT,
        "a persistent id of a module": group(text("module"), name("torch FloatStorage"), text("a"), text("b")) + b"Q",
        "a buffer from outside": b"\x97",
        "a place of the memo far away": NONE + b"r\xff\xff\xff\x7f",
        "a frame that ends within an instruction": b"\x95" + struct.pack("<Q", 3) + text("ab"),
        "frames in frames": b"\x95" + struct.pack("<Q", 10) + b"\x95" + struct.pack("<Q", 1) + NONE,
        "a state of nothing under a tuple that doubles": DICT + doubled + NONE + b"b" + NONE + b"s",
        "half a character": b"X\3\0\0\0\xed\xb2\x80",
        "DUP": NONE + b"2",
        "items of a list": LIST + number(1) + number(2) + b"s",
        "items appended to a dict": DICT + number(1) + APPEND,
        "a list as a key": DICT + LIST + NONE + b"s",
        "a huge integer as a key": DICT + b"\x8a\x20" + b"\x7f" * 32 + NONE + b"s",
        "a call of a list": LIST + b")R",
        "a call of a text": text("os.system") + group(text("true")) + b"R",
        "a call with a list of arguments": name("argparse Namespace") + LIST + b"R",
        "a call with named arguments": name("argparse Namespace") + b")" + DICT + text("a") + NONE + b"s\x92",
        "the state of a list": LIST + DICT + b"b",
        "the state of a class": name("argparse Namespace") + DICT + text("__init__") + NONE + b"sb",
        "the attribute of a class": call("builtins getattr", name("argparse Namespace"), text("__init__")),
        "the attribute of a container": call("builtins getattr", DICT, text("update")),
        "a name with a line break": text("os\nsystem") + text("x") + b"\x93",
        "a name of TorchScript's in disguise": name("__torch__ os.system")[:-1] + b"\0\n" + b")R" + _PERSISTENT,
        "dill's modules": call("dill._dill _import_module", text("os")),
        "dill's attributes": call(
            "dill._dill _get_attr", call("dill._dill _import_module", text("_codecs")), text("x")
        ),
        "dill's functions": call("dill._dill _create_function", NONE, DICT),
        "dill's code": call("dill._dill _create_code", NONE),
        "dill's types": call("dill._dill _create_type", name("builtins type"), text("A"), b")", DICT),
        "dill's loads": call("dill._dill loads", raw(b"N.")),
        "a named tuple with a value too many": call(
            call("dill._dill _create_namedtuple", text("A"), group(text("a")), text("__main__")), NONE, NONE
        ),
        "a class of Python that no checkpoint needs": call("xmlrpc.client ServerProxy", text("http://a.invalid")),
        "torch.load": call("torch.serialization load", text("file")),
        "numpy.load": call("numpy load", text("file"), NONE, TRUE),
        "an array of objects": _array((1,), b"", dtype=call("numpy dtype", text("O8"), FALSE, TRUE)),
        "an array of records": _array((1,), b"1234", dtype=call("numpy dtype", text("V4"), FALSE, TRUE)),
        "an array without a type": _array((1,), b"1234", dtype=NONE),
        "an array longer than its bytes": _array((2,), b"1234"),
        "an array of huge sides": _array((_HUGE, _HUGE), b"1234"),
        "an array of negative sides": _array((-1, -1), b"1234"),
        "an array that is never filled": _ARRAY,
        "an array that is filled twice": _array((1,), b"1234") + group(NONE) + b"b",
        "an array of a class of its own": call(
            "numpy.core.multiarray _reconstruct", name("argparse Namespace"), group(number(0)), raw(b"b")
        ),
        "a number of NumPy's of the wrong size": call("numpy.core.multiarray scalar", _FLOAT32, raw(b"12345")),
        "a shape of no tuple": call("torch Size", number(1)),
    }
    return {label: whole(body) for label, body in bodies.items()}


def tensor_bombs() -> dict[str, bytes]:
    """Pickles to be refused in zip archives that hold the storage "0" of 4 float32."""
    sparse = (tensor(0, (1,), (1,)), tensor(0, (1,), (1,)), group(number(1)))
    bodies = {
        "a tensor before its storage": tensor(-1, (1,), (1,)),
        "a tensor beyond its storage": tensor(1, (4,), (1,)),
        "a tensor of large strides": tensor(0, (2,), (4,)),
        "a tensor of negative strides": tensor(3, (4,), (-1,)),
        "a tensor of negative sides": tensor(0, (-2, -2), (1, 1)),
        "a tensor of huge sides": tensor(0, (_HUGE, 8), (0, 0)),
        "a tensor of one number a billion times": tensor(0, (2**15, 2**15), (0, 0)),
        "many tensors of one number a million times": listed(*100 * [tensor(0, (2**20,), (0,))]),
        "a tensor of more strides than sides": tensor(0, (1,), (1, 1)),
        "a tensor of 1000 dimensions": tensor(0, 1000 * (1,), 1000 * (1,)),
        "a tensor of nothing": call("torch._utils _rebuild_tensor_v2", NONE, number(0), group(), group(), FALSE, NONE),
        "a storage that is missing": tensor(0, (1,), (1,), of=storage("7")),
        "a storage of another folder": tensor(0, (1,), (1,), of=storage("../data.pkl", 1)),
        "a storage longer than its member": tensor(0, (1,), (1,), of=storage("0", 5)),
        "a storage of huge length": tensor(0, (1,), (1,), of=storage("0", _HUGE)),
        "a storage of negative length": tensor(0, (1,), (1,), of=storage("0", -1)),
        "a storage of two types": tensor(0, (1,), (1,))
        + tensor(0, (1,), (1,), of=storage("0", 4, "torch IntStorage"))
        + b"\x86",
        "a storage of complex numbers": tensor(0, (1,), (1,), of=storage("0", 2, "torch ComplexFloatStorage")),
        "a storage of quantised numbers": tensor(0, (1,), (1,), of=storage("0", 4, "torch QInt8Storage")),
        "a storage of a class": tensor(0, (1,), (1,), of=storage("0", 4, "argparse Namespace")),
        "a storage as content": storage(),
        "a storage seen as another": tensor(0, (1,), (1,), of=storage("0", 4, "torch FloatStorage", number(1))),
        "truth values of other bytes": tensor(0, (16,), (1,), of=storage("0", 16, "torch BoolStorage")),
        "a sparse tensor": call("torch._utils _rebuild_sparse_tensor", *sparse),
        "a quantised tensor": call("torch._utils _rebuild_qtensor", storage()),
        "a tensor of the meta device": call(
            "torch._utils _rebuild_meta_tensor_no_storage", NONE, group(), group(), FALSE
        ),
        "a tensor of a class of its own": call("torch._utils _rebuild_wrapper_subclass", name("os system")),
        "a tensor rebuilt by a class": call(
            "torch._tensor _rebuild_from_type_v2", name("argparse Namespace"), name("torch Tensor"), group(), NONE
        ),
        "a storage with a state": storage() + group(NONE, DICT + text("elements") + NONE + b"s") + b"b",
        "items of a storage": storage() + number(0) + NONE + b"s",
        "a tensor with items": tensor(0, (1,), (1,)) + number(0) + number(0) + b"s",
        "a tensor that is extended": tensor(0, (1,), (1,)) + number(0) + APPEND,
        "a tensor with a state": tensor(0, (1,), (1,)) + group(storage(), number(0), group(), group()) + b"b",
        "a tensor as a key": DICT + tensor(0, (1,), (1,)) + NONE + b"s",
        "a parameter of a list": call("torch._utils _rebuild_parameter", LIST, TRUE, _ORDERED),
    }
    return {label: whole(body) for label, body in bodies.items()}
