"""Images that are not there are refused at once by every verb of images, before heavy libraries are imported."""

from __future__ import annotations

import subprocess
import sys

_CHILD = """
import sys
from click.testing import CliRunner
from zoo.cli import zoo

name, gone = "pocket_simclr_rn_shapes", "./no/such/folder"
verbs = "evaluate NAME", "choose", "layers NAME", "curve NAME", "look NAME", "features NAME", "data", "predict probe"
for verb in (*verbs, "metric rankme NAME"):
    result = CliRunner().invoke(zoo, [*verb.replace("NAME", name).split(), gone])
    said = "There is no folder or file './no/such/folder'"
    assert result.exit_code == 2 and said in result.output, (verb, result.output)
    assert not {"torch", "sklearn", "pandas"} & set(sys.modules), verb
"""


def test_a_missing_folder_is_refused_before_heavy_libraries_are_imported() -> None:
    child = subprocess.run([sys.executable, "-c", _CHILD], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
