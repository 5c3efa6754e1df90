"""The bundle of DataTables: what it becomes, what is in it, and what an itables of another shape is answered."""

from __future__ import annotations

import pytest

from zoo.errors import ContentError
from zoo.site.assets import ASSET, as_classic, datatables, third_party
from zoo.site.contents import Contents
from zoo.site.rendering import Renderer


def test_the_bundle_becomes_a_classic_script_with_one_global() -> None:
    renderer = Renderer(Contents("", {}, with_mine=False, only=()))
    path = datatables(renderer)
    text = renderer.assets[ASSET].content.decode()
    assert path == renderer.assets[ASSET].path and path.startswith("assets/datatables-")
    assert text.startswith("/*! The bundle of itables") and "Marc Wouts" in text[:200]
    assert text.count("window.DataTable=") == 1 and text.endswith("})();\n")
    assert "SpryMedia" in text and "OpenJS Foundation" in text  # the notices of what is inside stay with it
    assert datatables(renderer) == path and len(renderer.assets) == 1


def test_everything_that_is_in_the_bundle_is_listed_with_version_and_licence() -> None:
    found = {one.name: one for one in third_party()}
    assert {"itables", "datatables.net", "jquery", "jszip", "pako", "FileSaver.js", "Lucide"} <= set(found)
    assert all(one.licence in ("MIT", "ISC", "MIT or GPL-3.0") and one.files == (ASSET,) for one in found.values())
    assert [name for name, one in found.items() if not one.version] == ["pako", "Lucide"]  # whose notices name none
    assert found["jszip"].licence == "MIT or GPL-3.0" and found["datatables.net"].version.count(".") == 2


@pytest.mark.parametrize(
    "module",
    [
        "var a=1;",
        "var a=1;export{a as other};",
        "var a=1;export{a as default};export{a as more};",
        'import b from "b";var a=b;export{a as default};',
        "var a=1;export default a;",
    ],
)
def test_a_bundle_of_another_shape_is_refused(module: str) -> None:
    with pytest.raises(ContentError, match=r"itables 9\.9 .*expected one such list with a default"):
        as_classic(module, "9.9")
