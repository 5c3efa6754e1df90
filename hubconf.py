"""torch.hub entry points: an encoder for each card in metadata/, and the tables. Nothing else here is public."""

import runpy as _runpy
import sys as _sys
from importlib.machinery import PathFinder as _PathFinder
from pathlib import Path as _Path
from typing import NoReturn as _NoReturn

dependencies = ["torch", "torchvision", "timm"]
_HERE = _Path(__file__).resolve().parent
_VERSION = _runpy.run_path(str(_HERE / "zoo" / "version.py"))["__version__"]


def _refuse(found: object, remedy: str) -> _NoReturn:
    raise ImportError(f"SSL Zoo {_VERSION} ({_HERE}) cannot be loaded: {found}; {remedy}.")


def _is_ours(file: _Path) -> bool:
    """True for the ``__init__.py`` of SSL Zoo, of any version and wherever it lies: its first line says so."""
    try:
        return file.read_bytes().startswith(b'"""SSL Zoo: ')
    except OSError:
        return False


def _check_name() -> None:
    """Refuse to share the one name that SSL Zoo takes, ``zoo``, with another package."""
    if _sys.version_info < (3, 11):  # noqa: UP036, torch.hub does not look at requires-python
        _refuse(f"this is Python {_sys.version.split()[0]}", "use Python 3.11 or newer")
    imported = _sys.modules.get("zoo")
    if imported:
        file = getattr(imported, "__file__", None) or next(iter(getattr(imported, "__path__", ["no file"])))
        state = "is already imported"
    else:  # torch.hub has put us first; a package behind us would be hidden from then on
        spec = _PathFinder.find_spec("zoo", [entry for entry in _sys.path if _Path(entry).resolve() != _HERE])
        file, state = spec and spec.origin, "is on sys.path"  # a plain folder has no origin and hides nothing
    if file and not _is_ours(_Path(file)):
        _refuse(f"another package named 'zoo' ({file}) {state}", "rename it or use a Python process without it")


_check_name()

import zoo as _zoo  # noqa: E402

if _zoo.__version__ != _VERSION:
    _refuse(f"SSL Zoo {_zoo.__version__} ({_zoo.__file__}) is already imported", "restart Python or use that version")

from zoo.hub import entry_points as _entry_points  # noqa: E402

globals().update(_entry_points())
