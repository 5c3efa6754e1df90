"""Finding studies: by name, by a beginning of it, by the path of a file; and what every shipped file must open with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.each import for_each
from tests.small_study import small_study
from zoo.errors import QueryError, UnknownName
from zoo.studies.running import Study, find_study, list_studies, load_study, read_study, run_studies

STUDIES = list_studies()


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_every_study_opens_with_its_question_claim_expected_numbers_and_command(study: Study) -> None:
    assert study.question.endswith("?")
    for word in ("Claim", "Expected", f"Command: zoo study {study.name}"):
        assert word in study.introduction, word


def test_a_study_is_found_by_an_unambiguous_beginning_in_any_case() -> None:
    assert find_study("Where").name == "where_the_risk_lies"
    assert find_study("where-the-risk").name == "where_the_risk_lies"


def test_an_ambiguous_beginning_names_the_candidates() -> None:
    with pytest.raises(QueryError, match=r"'which'.*which_choices_predict_risk and .*which_objectives_are_usable"):
        find_study("which")


@for_each(["", "where_risk_lies", "tables"])
def test_an_unknown_study_lists_near_ones(name: str) -> None:
    with pytest.raises(UnknownName, match="'zoo study' lists them all"):
        find_study(name)


def test_a_study_says_which_options_it_reads() -> None:
    read = {name: study.options for name, study in STUDIES.items() if study.options}
    assert read.pop("what_an_encoder_is_good_at") == ("encoders",)
    assert {name for name, options in read.items() if "tune" in options} == {
        "which_choices_predict_risk",
        "which_objectives_are_usable",
    }
    for study in STUDIES.values():
        texts = [path.read_text() for path in ([study.path] if study.path.is_file() else study.path.glob("*.py"))]
        assert any("options.encoders" in text for text in texts) == ("encoders" in study.options)
        assert any("tune_trees(" in text for text in texts) == ("tune" in study.options)


def test_any_file_can_be_a_study(tmp_path: Path) -> None:
    study = find_study(str(small_study(tmp_path)))
    assert (study.name, study.question) == ("small", "Is usability small?")
    assert callable(load_study(study))


def study_folder(folder: Path, mean: str = "20") -> Path:
    """The small study as a folder, whose bound lies in a module next to it."""
    folder.mkdir(exist_ok=True)
    small_study(
        folder,
        ("holds=mean < 20", "holds=mean < BOUND"),
        ("import Estimate\n", "import Estimate\n\nfrom .bounds import BOUND\n"),
    )
    made = folder / "small"
    made.mkdir(parents=True, exist_ok=True)
    (folder / "small.py").rename(made / "__init__.py")
    (made / "bounds.py").write_text(f"BOUND = {mean}\n")
    (made / "__main__.py").write_text(
        'from pathlib import Path\n\nfrom zoo.cli import main\n\nmain("study", str(Path(__file__).parent))\n'
    )
    return made


def test_a_folder_can_be_a_study_whose_modules_import_each_other(tmp_path: Path) -> None:
    folder = study_folder(tmp_path)
    by_folder, by_file = find_study(str(folder)), find_study(str(folder / "__init__.py"))
    assert by_folder == by_file and (by_folder.name, by_folder.question) == ("small", "Is usability small?")
    (run,) = run_studies([by_folder])
    assert run.findings.claims[1].verdict == "agrees"
    assert sorted(path.name for path in folder.iterdir()) == ["__init__.py", "__main__.py", "bounds.py"]


def test_folders_of_one_name_keep_their_own_modules_and_a_change_is_seen(tmp_path: Path) -> None:
    low, high = find_study(str(study_folder(tmp_path / "a", "1"))), find_study(str(study_folder(tmp_path / "b")))
    assert [run.findings.claims[1].verdict for run in run_studies([low, high])] == ["not reproducible", "agrees"]
    (low.path / "bounds.py").write_text("BOUND = 20\n")
    (again,) = run_studies([low])
    assert again.findings.claims[1].verdict == "agrees"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Is usability small?", "Usability is small.", "expected a docstring that begins with a question"),
        ('"""Is', 'import os\n"""Is', "expected a docstring that begins with a question"),
        ("def study(", "def study(:", "is not Python"),
        ("def study(", "def other(", "defines no function study"),
    ],
)
def test_a_file_that_is_no_study_is_refused_in_one_sentence(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = small_study(tmp_path, (old, new))
    with pytest.raises(QueryError, match=message):
        load_study(read_study(path))
