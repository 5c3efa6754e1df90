"""Damaged files of printed numbers: each refused in one sentence that names the file, the line and the column."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from zoo.errors import ResultsError
from zoo.results import printed
from zoo.results.printed import clid_checkpoints, published_label_free

NUMBERS, CHECKPOINTS = "label_free.tsv", "label_free_checkpoints.tsv"


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder that may be damaged."""
    folder = tmp_path / "published"
    folder.mkdir()
    for name in (NUMBERS, CHECKPOINTS):
        shutil.copy(REPOSITORY / "results" / "published" / name, folder)
    monkeypatch.setattr(printed, "content_folder", {"results": tmp_path}.__getitem__)
    return folder


def with_cell(line: int, column: int, text: str) -> Callable[[bytes], bytes]:
    """Another text in a cell; lines count from 1, columns from 0."""

    def changed(content: bytes) -> bytes:
        lines = content.split(b"\n")
        fields = lines[line - 1].split(b"\t")
        fields[column] = text.encode()
        lines[line - 1] = b"\t".join(fields)
        return b"\n".join(lines)

    return changed


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (with_cell(3, 0, "arXiv:2210.02886"), r"line 3, column 'paper': found '.*', .* such as 'arXiv:2210.02885'"),
        (with_cell(3, 1, "Tabelle 1"), r"line 3, column 'table': found 'Tabelle 1', expected the name of a table"),
        (with_cell(3, 2, "iii"), r"line 3, column 'page': found 'iii', expected a whole number above 0"),
        (with_cell(3, 3, "VICReg"), r"line 3, column 'population': found 'VICReg', .* such as 'VICReg ResNet-50"),
        (with_cell(3, 4, "0"), r"line 3, column 'n': found '0', expected a whole number above 0"),
        (with_cell(3, 5, "oracl"), r"line 3, column 'metric': found 'oracl', .* such as 'oracle'"),
        (with_cell(3, 7, "minus"), r"line 3, column 'sign': found 'minus', expected a known word"),
        (with_cell(3, 8, "accuracy"), r"line 3, column 'statistic': found 'accuracy', .* 'recovered_accuracy'"),
        (with_cell(3, 9, "imagenet"), r"line 3, column 'target': found 'imagenet', .* 'imagenet-1k'"),
        (with_cell(3, 10, "lr"), r"line 3, column 'hyperparameter': found 'lr', expected a known word"),
        (with_cell(3, 11, "68"), r"line 3, column 'value': found '68', expected a number with its printed decimals"),
        (with_cell(3, 11, "nan"), r"line 3, column 'value': found 'nan', .* from 0 to 100"),
        (with_cell(3, 11, "100.1"), r"line 3, column 'value': found '100.1', .* from 0 to 100"),
        (with_cell(56, 11, "1.0001"), r"line 56, column 'value': found '1.0001', .* from -1 to 1"),
        (with_cell(3, 12, "fraction"), r"line 3, column 'unit': found 'fraction', expected 'percent' for 'recovered_"),
        (with_cell(3, 13, "a\tb"), r"line 3: found 15 fields, expected 14 between tabs"),
        (with_cell(1, 0, "source"), r"line 1: found the columns \['source', .*expected exactly paper table page"),
        (lambda content: content[:-1], r"line \d+: the file breaks off, expected a line end"),
        (lambda content: content + content.split(b"\n")[2] + b"\n", r"line \d+, column 'table': found .* again"),
        (lambda content: content.replace(b"Figure", b"\xff"), r"label_free.tsv cannot be read \(.*restore it"),
        (lambda content: b"", r"line 1: found the columns"),
    ],
)
def test_a_damaged_file_is_refused_in_one_sentence(
    damage: Callable[[bytes], bytes], message: str, published: Path
) -> None:
    path = published / NUMBERS
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ResultsError, match=message) as refused:
        published_label_free()
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(clid_checkpoints()) == 28


def test_a_missing_file_is_named(published: Path) -> None:
    (published / NUMBERS).unlink()
    with pytest.raises(ResultsError, match=r"label_free.tsv cannot be read \(.*restore it or install"):
        published_label_free()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (with_cell(4, 0, "infomin"), r"line 4, column 'name': found 'infomin' again, expected one row a checkpoint"),
        (with_cell(4, 1, " "), r"line 4, column 'method': found nothing, expected a text"),
        (with_cell(1, 3, "id"), r"line 1: found the columns .*expected exactly name method architecture encoder note"),
    ],
)
def test_a_damaged_list_of_checkpoints_is_refused(
    damage: Callable[[bytes], bytes], message: str, published: Path
) -> None:
    path = published / CHECKPOINTS
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ResultsError, match=message) as refused:
        clid_checkpoints()
    assert str(path) in str(refused.value)
    assert published_label_free(paper="CLID")
