"""The verbs list, show, results and compare: what they print."""

from __future__ import annotations

import pytest

from zoo.cards import catalogue
from zoo.cli.facts import FACTS
from zoo.columns import COLUMNS
from zoo.metadata import Missing
from zoo.results import SETTINGS, summaries

from .cli_runner import document, names, run, table

WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"


class TestList:
    def test_every_encoder_has_a_line(self) -> None:
        lines = table("list")
        assert lines[0] == ["encoder", "architecture", "z_dim", "n_parameters", "train_test", "licence"]
        assert [line[0] for line in lines[1:]] == list(catalogue())

    def test_json_has_every_column_and_says_why_a_value_is_missing(self) -> None:
        known = summaries()
        for record in document("list")["encoders"]:
            assert set(record) == {*FACTS, "missing"}
            assert all((record[name] is None) == (name in record["missing"]) for name in FACTS)
            assert set(record["missing"].values()) <= {reason.value for reason in Missing}
            card = catalogue()[record["encoder"]]
            for column in COLUMNS:
                value = column.of(card)
                expected = None if isinstance(value, Missing) else list(value) if isinstance(value, tuple) else value
                assert record[column.name] == expected
            if card.id in known:
                errors = {setting.column: known[card.id].errors.get(setting.name) for setting in SETTINGS}
                assert {name: record[name] for name in errors} == errors

    @pytest.mark.parametrize("pattern", ["DINO_vits", "dino_vitS*", "dino_vit[s]*"])
    def test_a_pattern_is_a_glob_or_a_text_without_regard_to_case(self, pattern: str) -> None:
        found = names("list", pattern)
        assert "dino_vitS16" in found
        assert all(encoder.startswith("dino_vitS") for encoder in found)

    def test_a_condition_selects(self) -> None:
        found = document("list", "--where", 'family == "vit" and z_dim <= 768')["encoders"]
        assert found
        assert all(record["family"] == "vit" and record["z_dim"] <= 768 for record in found)

    def test_a_condition_may_speak_of_risks_that_are_not_shown(self) -> None:
        best = names("list", "--where", "error_100pct < 16", "--columns", "encoder")
        assert best
        assert best == names("list", "--where", "train_test < 16")

    def test_missing_values_come_last_in_either_direction(self) -> None:
        up = [
            record["error_3shot"]
            for record in document("list", "--sort", "error_3shot", "--columns", "error_3shot")["encoders"]
        ]
        down = [
            record["train-nperclass-3_test"]
            for record in document("list", "--sort", "error_3shot", "--descending")["encoders"]
        ]
        known = [value for value in up if value is not None]
        assert known == sorted(known)
        assert up == known + [None] * (len(up) - len(known))
        assert down == known[::-1] + [None] * (len(up) - len(known))

    def test_the_two_kinds_of_missing_look_different_and_are_explained(self) -> None:
        result = run("list", "dino_rn50", "--columns", "encoder,patch_size,size_bytes")
        assert result.stdout.splitlines()[1].split() == ["dino_rn50", "-", "?"]
        assert "-  does not apply    ?  not published" in result.stderr

    def test_a_limit_says_how_many_there_are(self) -> None:
        result = run("list", "--limit", "3")
        assert len(result.stdout.splitlines()) == 4
        assert f"3 of {len(catalogue())} encoders" in result.stderr
        assert document("list", "--limit", "3")["n_matching"] == len(catalogue())

    def test_the_columns_explain_themselves(self) -> None:
        lines = run("list", "--help-columns").stdout.splitlines()
        assert [line.split()[0] for line in lines[1:]] == list(FACTS)
        assert [column["name"] for column in document("list", "--help-columns")["columns"]] == list(FACTS)

    def test_nothing_found_is_one_sentence_and_exit_code_1(self) -> None:
        result = run("list", "dino", "--where", "z_dim > 99999", code=1)
        assert result.stdout == ""
        assert result.stderr == "Error: No encoder has a name like 'dino' and satisfies z_dim > 99999.\n"
        assert document("list", "nosuchthing", code=1) == {"n_matching": 0, "encoders": []}


class TestShow:
    def test_json_has_every_fact_of_the_card_under_its_dotted_name(self) -> None:
        for encoder in ("dino_rn50", "clip_rn50x4", "init_vitS16", WRONG):
            shown = document("show", encoder)
            card = catalogue()[encoder]
            assert shown["encoder"] == encoder
            assert len(shown["facts"]) > 50
            for name, value in shown["facts"].items():
                fact = card.fact(name)
                if isinstance(fact, Missing):
                    assert (value, shown["missing"][name]) == (None, fact.value)
                else:
                    assert value == (list(fact) if isinstance(fact, tuple) else fact)
            assert len(shown["errata"]) == len(card.errata)

    def test_text_has_units_errata_risks_and_licences(self) -> None:
        text = " ".join(run("show", "clip_rn50x4").stdout.split())
        for part in (
            "crop 288 px",
            "published: 640",
            "(assumed, not measured)",
            "100% (1,281,167 labels) 21.5",
            "usability",
            "weights MIT",
            "(not published)",
            "(not applicable)",
        ):
            assert part in text

    def test_the_case_of_a_name_does_not_matter(self) -> None:
        assert document("show", "DINO_VITS16")["encoder"] == "dino_vitS16"

    def test_an_encoder_without_risks_says_so(self) -> None:
        unmeasured = min(catalogue().keys() - summaries().keys())
        assert "not measured" in run("show", unmeasured).stdout
        assert document("show", unmeasured)["results"] is None

    def test_measurements_to_distrust_are_among_the_errata(self) -> None:
        assert "wrong weights" in run("show", WRONG).stdout
        assert document("show", WRONG)["results"]["errata"][0]["exclude"] is True


class TestResults:
    def test_every_measured_encoder_is_listed_with_its_published_columns(self) -> None:
        records = {record["encoder"]: record for record in document("results")["encoders"]}
        assert list(records) == list(summaries())
        for encoder, summary in summaries().items():
            parts = summary.decomposition
            assert parts is not None
            assert records[encoder]["approx_plus_usability"] == parts.approximation_plus_usability
            assert records[encoder]["approx_is_assumed"] == parts.approximation_assumed
            assert records[encoder]["train_test"] == pytest.approx(parts.full_shot_error)

    def test_marks_tell_merged_assumed_and_distrusted_numbers(self) -> None:
        result = run("results", "clip_rn50x4", "dino_vitS16_last", WRONG)
        cells = {line.split()[0]: line.split()[6:8] for line in result.stdout.splitlines()}
        assert cells["clip_rn50x4"][0] == "0.0~"
        assert cells["dino_vitS16_last"] == ["?", "16.3+"]
        assert f"{WRONG}!" in cells
        for mark in ("~  assumed", "+  approximation and usability together", f"!  {WRONG}: wrong weights"):
            assert mark in result.stderr

    def test_negative_components_keep_their_sign(self) -> None:
        negative = [
            summary.encoder
            for summary in summaries().values()
            if summary.decomposition and summary.decomposition.encoder_generalization < -0.1
        ]
        assert all(line[-1].startswith("-") for line in table("results", *negative)[1:])

    def test_wrong_measurements_can_be_left_out(self) -> None:
        assert set(names("results")) - set(names("results", "--exclude-wrong")) == {WRONG}
        result = run("results", WRONG, "--exclude-wrong", code=1)
        assert result.stderr == f"Error: Nothing was measured of {WRONG} once the wrong measurements are left out.\n"

    def test_an_encoder_that_was_not_measured_is_named(self) -> None:
        unmeasured = min(catalogue().keys() - summaries().keys())
        assert f"not measured: {unmeasured}" in run("results", "dino_rn50", unmeasured).stderr
        assert document("results", "dino_rn50", unmeasured)["not_measured"] == [unmeasured]
        run("results", unmeasured, code=1)


class TestCompare:
    def test_only_differing_facts_are_shown(self) -> None:
        compared = document("compare", "dino_vitS16", "dino_vitS16_last")
        assert "z_dim" in compared["differing"]
        assert "architecture" not in compared["differing"]
        first, second = compared["encoders"]
        assert all(first[name] != second[name] for name in compared["differing"])
        rows = [line[0] for line in table("compare", "dino_vitS16", "dino_vitS16_last") if line]
        assert "z_dim" in rows
        assert "architecture" not in rows

    def test_two_encoders_get_the_difference_of_their_risks(self) -> None:
        compared = document("compare", "dino_vitS16", "mae_vitB16")
        first, second = compared["encoders"]
        assert compared["difference"]["train_test"] == pytest.approx(second["train_test"] - first["train_test"])
        assert ["error_100pct", "24.6", "34.0", "+9.4"] in table("compare", "dino_vitS16", "mae_vitB16")

    def test_a_missing_risk_has_no_difference(self) -> None:
        assert document("compare", "dino_vitS16", "dino_vitS16_last")["difference"]["usability"] is None

    def test_several_encoders_stand_side_by_side(self) -> None:
        header = table("compare", "dino_vitS16", "mae_vitB16", "swav_rn50")[0]
        assert header == ["dino_vitS16", "mae_vitB16", "swav_rn50"]
        assert "difference" not in document("compare", "dino_vitS16", "mae_vitB16", "swav_rn50")

    @pytest.mark.parametrize("given", [["dino_vitS16"], ["dino_vitS16", "DINO_vits16"]])
    def test_fewer_than_two_encoders_are_refused(self, given: list[str]) -> None:
        assert "expected at least two different encoders" in run("compare", *given, code=2).stderr
