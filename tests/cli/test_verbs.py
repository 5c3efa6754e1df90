"""The verbs list, show, results and compare: what they print."""

from __future__ import annotations

import pytest

from tests.cli_runner import document, names, run, table
from zoo.cards.catalogue import catalogue
from zoo.cards.schema import COLUMNS, Missing
from zoo.results.derived import summaries
from zoo.results.facts import FACTS
from zoo.results.values import SETTINGS, RiskDecomposition

WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"


def decompositions() -> dict[str, RiskDecomposition]:
    return {encoder: summary.decomposition for encoder, summary in summaries().items() if summary.decomposition}


def error_of(encoder: str) -> float:
    return summaries()[encoder].errors["100%"]


class TestList:
    def test_every_encoder_has_a_line(self) -> None:
        lines = table("list")
        assert lines[0] == ["encoder", "architecture", "z_dim", "n_parameters", "train_test", "reported", "licence"]
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
        assert all("dino_vits" in encoder.casefold() for encoder in found)

    def test_words_are_found_in_families_methods_names_elsewhere_and_data(self) -> None:
        found = [catalogue()[name] for name in names("list", "MoCo v3")]
        assert found[0].family == "mocov3"
        assert all("mocov3" in (card.family, card.objective.name) or "mocov3" in card.id for card in found)
        assert names("list", "resnet50_clip.openai") == ["clip_rn50"]
        assert set(names("list", "openclip", "laion-2b")) >= {"openclip_vitB32", "openclip_vitL14"}
        assert document("list", "dino", "clip", code=1)["encoders"] == []

    def test_words_that_nothing_meets_are_answered_with_what_does(self) -> None:
        assert "did you mean simsiam" in run("list", "simsaim", code=1).stderr
        assert "'dino' finds " in run("list", "dino", "clip", code=1).stderr

    def test_families_are_listed_with_their_networks(self) -> None:
        found = {record["family"]: record for record in document("list", "--families")["families"]}
        assert list(found) == sorted({card.family for card in catalogue().values()})
        assert ["dino_vitB8", "dino_vitB8_last"] in found["dino"]["networks"]
        assert found["byol"]["commercial_use"] == {"no": found["byol"]["n_encoders"]}
        lines = table("list", "--families", "vicreg")
        assert {"vicreg", "vicregl"} <= {line[0] for line in lines} < {"family", *found}
        run("list", "--families", "--sort", "z_dim", code=2)

    def test_a_listing_builds_no_card(self, monkeypatch: pytest.MonkeyPatch) -> None:
        known = catalogue()
        monkeypatch.setattr(known, "_of_file", lambda encoder: pytest.fail(f"built {encoder}"))
        document("list", "--where", "z_dim > 0")
        run("list", "--families")

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
        assert result.stderr.startswith("Error: No encoder ") and result.stderr.count("\n") == 1
        assert "'dino'" in result.stderr and "z_dim > 99999" in result.stderr
        assert document("list", "nosuchthing", code=1) == {"n_matching": 0, "encoders": []}
        assert (
            run("list", "nosuchthing", "--json", code=1).stderr == "Error: No encoder has a name like 'nosuchthing'.\n"
        )

    def test_an_empty_pattern_is_every_encoder(self) -> None:
        assert names("list", "") == list(catalogue())

    @pytest.mark.parametrize("condition", ['license == "apache-2.0"', 'license in ("APACHE-2.0",)'])
    def test_a_condition_compares_texts_without_regard_to_case(self, condition: str) -> None:
        found = document("list", "--where", condition, "--columns", "licence")["encoders"]
        assert {record["licence"] for record in found} == {"Apache-2.0"}

    def test_approximations_that_are_assumed_are_marked(self) -> None:
        assumed = {encoder for encoder, parts in decompositions().items() if parts.approximation_assumed}
        assert assumed
        assert set(names("list", "--where", "approx_is_assumed")) == assumed
        assert set(names("list", "--where", "not missing(approx_is_assumed)")) == set(decompositions())
        result = run("list", "--columns", "encoder,approx,approx_is_assumed")
        cells = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()[1:]}
        assert {encoder for encoder, (approx, _) in cells.items() if approx == "0.0~"} == assumed
        assert {encoder for encoder, (_, is_assumed) in cells.items() if is_assumed == "yes"} == assumed
        assert "~  assumed, not measured" in result.stderr

    def test_measurements_that_are_wrong_are_marked(self) -> None:
        assert names("list", "--where", "is_wrong") == [WRONG]
        assert document("list", WRONG, "--columns", "is_wrong")["encoders"][0]["is_wrong"] is True
        result = run("list", WRONG)
        assert [line.split()[4] for line in result.stdout.splitlines()[1:]] == [f"{error_of(WRONG):.1f}!"]
        assert "!  measured wrongly: zoo show NAME says why" in result.stderr

    def test_wrong_measurements_can_be_left_out(self) -> None:
        (record,) = document("list", WRONG, "--exclude-wrong")["encoders"]
        assert all(record[setting.column] is None for setting in SETTINGS)
        assert (record["is_wrong"], record["n_errata"]) == (True, document("list", WRONG)["encoders"][0]["n_errata"])
        assert WRONG not in names("list", "--where", "train_test < 100", "--exclude-wrong")
        result = run("list", WRONG, "--exclude-wrong")
        assert result.stdout.splitlines()[1].split()[4] == "?"
        assert f"measured wrongly and left out: {WRONG}" in result.stderr
        assert document("list", "dino_vitS16", "--exclude-wrong") == document("list", "dino_vitS16")


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

    def test_what_was_not_measured_is_not_called_unpublished(self) -> None:
        some = next(encoder for encoder, summary in summaries().items() if len(summary.errors) < len(SETTINGS))
        risks = run("show", some).stdout.partition("Error of a linear probe")[2].partition("Weights")[0]
        assert "not measured" in risks
        assert "not published" not in risks

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
        assert [line.split()[:2] for line in result.stdout.splitlines() if WRONG in line] == [[WRONG, "!"]]
        for mark in ("~  assumed", "+  approximation and usability together", f"!  {WRONG} (wrong weights): "):
            assert mark in result.stderr

    def test_errata_are_counted_unless_encoders_were_named(self) -> None:
        n_encoders = sum(1 for summary in summaries().values() if summary.errata)
        notes = run("results").stderr.splitlines()
        assert f"!  {n_encoders} encoders have errata; zoo show NAME says which" in notes
        assert max(map(len, notes)) < 100

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
        assert result.stderr.startswith(f"Error: Nothing was measured of {WRONG} on ImageNet-1K ")
        assert "--dataset" in result.stderr and result.stderr.count("\n") == 1

    def test_an_encoder_that_was_not_measured_is_named(self) -> None:
        unmeasured = min(catalogue().keys() - summaries().keys())
        assert f"not measured: {unmeasured}" in run("results", "dino_rn50", unmeasured).stderr
        alone = document("results", unmeasured, code=1)
        assert alone == {"encoders": [], "not_measured": [unmeasured]}
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

    def test_a_difference_from_an_assumed_approximation_is_none(self) -> None:
        compared = document("compare", "clip_rn50x4", "dino_rn50")
        assert compared["difference"]["approx"] is None
        assert [record["approx_is_assumed"] for record in compared["encoders"]] == [True, False]
        result = run("compare", "clip_rn50x4", "dino_rn50")
        (row,) = [line.split() for line in result.stdout.splitlines() if line.startswith("approximation ")]
        assert row == ["approximation", "0.0~", "0.8"]
        assert "~  assumed, not measured" in result.stderr

    def test_measurements_that_are_wrong_are_marked_or_left_out(self) -> None:
        result = run("compare", "dino_rn50", WRONG)
        (row,) = [line.split() for line in result.stdout.splitlines() if line.startswith("error_100pct")]
        assert [cell.endswith("!") for cell in row[1:]] == [False, True, True]
        assert "!  measured wrongly" in result.stderr
        left_out = document("compare", "dino_rn50", WRONG, "--exclude-wrong")
        assert left_out["difference"]["train_test"] is None
        assert [record["is_wrong"] for record in left_out["encoders"]] == [False, True]

    def test_a_missing_risk_has_no_difference(self) -> None:
        assert document("compare", "dino_vitS16", "dino_vitS16_last")["difference"]["usability"] is None

    def test_several_encoders_stand_side_by_side(self) -> None:
        header = table("compare", "dino_vitS16", "mae_vitB16", "swav_rn50")[0]
        assert header == ["dino_vitS16", "mae_vitB16", "swav_rn50"]
        assert "difference" not in document("compare", "dino_vitS16", "mae_vitB16", "swav_rn50")

    @pytest.mark.parametrize("given", [["dino_vitS16"], ["dino_vitS16", "DINO_vits16"]])
    def test_fewer_than_two_encoders_are_refused(self, given: list[str]) -> None:
        assert "expected at least two different encoders" in run("compare", *given, code=2).stderr
