"""Images that are not there are refused before PyTorch, scikit-learn and pandas are imported, by every verb of images."""

from __future__ import annotations

import subprocess
import sys

_CHILD = """
import sys
from click.testing import CliRunner
from zoo.cli import zoo

name, gone = "pocket_simclr_rn_shapes", "./no/such/folder"
for verb in ("evaluate NAME", "choose", "layers NAME", "curve NAME", "look NAME", "features NAME", "data", "predict probe",
             "metric rankme NAME"):
    result = CliRunner().invoke(zoo, [*verb.replace("NAME", name).split(), gone])
    assert result.exit_code == 2 and "There is no folder or file './no/such/folder'" in result.output, (verb, result.output)
    assert not {"torch", "sklearn", "pandas"} & set(sys.modules), verb
"""


def test_a_missing_folder_is_refused_before_heavy_libraries_are_imported() -> None:
    child = subprocess.run([sys.executable, "-c", _CHILD], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
