"""A missing library is named with the extra that installs it; public names are imported on first use."""

from __future__ import annotations

import ast
import json
import sys
from importlib import import_module
from pathlib import Path

import pytest

import zoo
from tests.conftest import Run
from tests.each import for_each
from zoo.errors import MissingExtra
from zoo.optional import require_extra

PACKAGE = Path(zoo.__file__).parent

ABSENT = """
import importlib, json, sys
class Absent:
    def __init__(self, *names):
        self.names = names
    def find_spec(self, name, path=None, target=None):
        if name in self.names or name.partition(".")[0] in self.names:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
"""
LIBRARIES = (
    "PIL", "datasets", "fsspec", "huggingface_hub", "jinja2", "lightly", "matplotlib", "numpy", "onnx",
    "onnxruntime", "onnxscript", "optuna", "pandas", "pillow_heif", "pydicom", "safetensors", "scipy", "sklearn",
    "statsmodels", "threadpoolctl", "timm", "torch", "torchvision", "tqdm", "xgboost",
)  # fmt: skip


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py")) if "_content" not in path.parts}
LAZY = [name for name, path in MODULES.items() if ", __dir__, " in path.read_text() and name != "zoo.optional"]


def test_without_any_optional_library_every_module_is_imported_or_names_the_extra(run_apart: Run) -> None:
    modules = [name for name in MODULES if not name.endswith("__main__")]
    script = ABSENT + (
        f"sys.meta_path.insert(0, Absent(*{LIBRARIES!r}))\n"
        "found = {}\n"
        f"for module in {modules!r}:\n"
        "    try:\n"
        "        importlib.import_module(module)\n"
        "    except Exception as error:\n"
        "        found[module] = [type(error).__name__, str(error)]\n"
        "print(json.dumps(found))\n"
    )
    done = run_apart(script, path=[PACKAGE.parent])
    found = json.loads(done.stdout)
    assert {kind for kind, _ in found.values()} == {"MissingExtra"}, found
    assert "'torch'" in found["zoo.loading"][1]
    assert "[study]" in found["zoo.analysis.linear"][1]
    assert "zoo.cards.catalogue" not in found


def test_the_missing_library_is_the_one_that_an_installed_one_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "installed_library.py").write_text("import absent_library.metrics")
    with (
        pytest.raises(MissingExtra, match=r"^This needs .*'absent_library'.*\[study\]") as caught,
        require_extra("study", needed_for="This"),
    ):
        import installed_library  # type: ignore[import-not-found]  # noqa: F401
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_a_library_that_is_installed_and_broken_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_library.py").write_text("from json import no_such_name")
    with pytest.raises(ImportError) as caught, require_extra("study", needed_for="This"):
        import broken_library  # type: ignore[import-not-found]  # noqa: F401
    assert type(caught.value) is ImportError


@for_each([("PIL.Image", "pillow"), ("packaging.licenses", "packaging>=24.2")], arguments=2)
def test_the_sentence_says_what_pip_installs(module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=f"pip install '{package}'"), require_extra("models", needed_for="This"):
        import_module(module)


@for_each(LAZY)
def test_type_checkers_see_the_names_that_are_imported_on_first_use(name: str) -> None:
    module = import_module(name)
    tree = ast.parse(Path(str(module.__file__)).read_text())
    seen, whole = {}, set()  # names, and modules all of whose names are seen
    for branch in tree.body:
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING" and branch.orelse:
            for line in branch.body:
                assert isinstance(line, ast.ImportFrom), ast.unparse(line)
                for alias in line.names:
                    if alias.name == "*":
                        whole.add(import_module(f".{line.module}", module.__package__).__name__)
                        continue
                    assert alias.name == alias.asname, f"{ast.unparse(line)} is not exported"
                    seen[alias.name] = "." * line.level + (line.module or "")
    defined = {name for name in module.__all__ if name in vars(module)}
    lazy = set(module.__all__) - defined
    named = {public for public, home in seen.items() if home.strip(".")}
    assert named <= lazy and all(getattr(module, public).__module__ in whole for public in lazy - named)
    assert {*module.__all__, *seen} <= set(dir(module))
    for public, home in seen.items():
        is_name = bool(home.strip("."))
        source = import_module(home if is_name else f".{public}", module.__package__)
        assert getattr(module, public) is (getattr(source, public) if is_name else source)


def test_a_lazy_module_refuses_other_names_and_imports_nothing_by_itself(run_apart: Run) -> None:
    script = (
        "import json, sys, zoo.evaluation.curves, zoo.features, zoo.analysis\n"
        "loaded = {'torch', 'numpy', 'pandas'} & set(sys.modules)\n"
        "try:\n"
        "    zoo.evaluation.curves.calibrated_risks\n"
        "except AttributeError as error:\n"
        "    print(json.dumps([sorted(loaded), str(error)]))\n"
    )
    done = run_apart(script, path=[PACKAGE.parent])
    assert json.loads(done.stdout) == [[], "module 'zoo.evaluation.curves' has no attribute 'calibrated_risks'"]
