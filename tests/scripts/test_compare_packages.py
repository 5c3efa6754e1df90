"""The page of other packages: its numbers, words and text agree, ours are what the zoo computes, and formulas hold."""

from __future__ import annotations

import json
import tomllib

import pytest

from scripts.compare_packages import (
    NUMBERS,
    PAGE,
    WORDS,
    anchor,
    by_formula,
    constants,
    factors,
    ours,
    page,
    programs,
    same,
)
from scripts.quantities import inputs, quantities
from tests.each import for_each

numbers = json.loads(NUMBERS.read_text())
words = tomllib.loads(WORDS.read_text(encoding="utf-8"))
FORMULAS = [
    f"{package} {key}" for package, some in words["packages"].items() for key, said in some.items() if "formula" in said
]


def test_the_page_is_made_of_the_numbers_and_the_words() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(numbers, words), "run: python scripts/compare_packages.py --page"


def test_the_first_table_says_by_what_numbers_differ() -> None:
    assert factors([(1.0, 2.0), (6.0, 4.0)], of_percent=False) == "0.5 to 1.5 times"
    assert factors([(3.0, 2.0)], of_percent=False) == "1.5 times"
    assert factors([(-1.0, 2.0)], of_percent=False) == "-3"
    assert factors([(71.5, 73.0)], of_percent=True) == "-1.5"
    assert factors([("ValueError: rows", 2.0)], of_percent=False) == "no number"
    assert factors([(2.0, "DataError: views")], of_percent=False) == "a number where ours refuses"


def test_the_first_table_leads_to_a_section_of_its_own_per_quantity() -> None:
    text = PAGE.read_text(encoding="utf-8")
    links = [anchor(one.title) for one in quantities().values()]
    assert len(set(links)) == len(links)
    for link, one in zip(links, quantities().values(), strict=True):
        assert f"[{one.title}](#{link})" in text and f"\n## {one.title}\n" in text
    assert anchor("k-NN accuracy (20 neighbours, temperature .07), percent") == (
        "k-nn-accuracy-20-neighbours-temperature-07-percent"
    )


def test_what_was_measured_has_words_and_words_have_numbers() -> None:
    measured = {(package, key) for package, found in numbers["packages"].items() for key in found["values"]}
    assert measured == {(package, key) for package, some in words["packages"].items() for key in some}
    assert {key.partition(":")[0] for _, key in measured} <= quantities().keys() == words["quantities"].keys()
    assert numbers["packages"].keys() == programs().keys()


def test_programs_pin_versions_and_those_were_measured() -> None:
    for package, program in programs().items():
        wanted = dict(requirement.split("==") for requirement in constants(program)["REQUIREMENTS"])
        assert numbers["packages"][package]["versions"] == wanted, package


def test_what_the_page_calls_ours_is_what_the_zoo_computes() -> None:
    for name, values in ours().items():
        stored = numbers["ours"][name]
        assert stored.keys() == values.keys(), name
        for case, value in values.items():
            # float32 inputs, and sums whose order is the processor's
            assert stored[case] == value or same(stored[case], value, 1e-5), f"{name} of {case}: {value}"


@for_each(FORMULAS)
def test_a_formula_turns_what_the_zoo_computes_into_what_the_package_said(formula: str) -> None:
    package, _, key = formula.partition(" ")
    said, values, cases = words["packages"][package][key], numbers["packages"][package]["values"][key], inputs()
    for case in said.get("cases", values):
        value = by_formula(said["formula"], numbers["ours"][key.partition(":")[0]][case], cases[case])
        assert same(values[case], value, said.get("within", 1e-3)), (
            f"{package} {key} {case}: {values[case]}, not {value}"
        )


def test_a_package_without_a_program_is_named_with_those_that_have_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from scripts import compare_packages

    monkeypatch.setattr("sys.argv", ["compare_packages.py", "reptricks"])
    with pytest.raises(SystemExit):
        compare_packages.main()
    assert "reptrix" in capsys.readouterr().err
