"""``zoo list``, ``show`` and ``compare``: what they find and print."""

from __future__ import annotations

from pathlib import Path

import pytest

import zoo
from tests.card_text import VALID
from tests.cli_runner import document, names, on_terminal, run, table
from tests.reported_rows import reported_text
from zoo.cards.catalogue import load_catalogue
from zoo.cards.schema import COLUMNS, Missing
from zoo.hub import entry_points
from zoo.results import summaries
from zoo.results.facts import FACTS
from zoo.results.reported_values import FILE
from zoo.results.values import SETTINGS

WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"
MEASURED = [f"randomised_{number:03}" for number in range(64)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path))
    (tmp_path / "metadata").mkdir()
    (tmp_path / "results").mkdir()
    return tmp_path


class TestList:
    def test_a_pipe_gets_a_line_an_encoder(self) -> None:
        lines = table("list")
        assert lines[0] == ["encoder", "architecture", "z_dim", "n_parameters", "train_test", "reported", "licence"]
        assert [line[0] for line in lines[1:]] == list(load_catalogue()) == names("list", "")

    def test_json_has_every_column_and_says_why_a_value_is_missing(self) -> None:
        known = summaries()
        for record in document("list")["encoders"]:
            assert set(record) == {*FACTS, "missing"}
            assert all((record[name] is None) == (name in record["missing"]) for name in FACTS)
            card = load_catalogue()[record["encoder"]]
            for column in COLUMNS:
                value = column.of(card)
                expected = None if isinstance(value, Missing) else list(value) if isinstance(value, tuple) else value
                assert record[column.name] == expected
            if card.id in known:
                errors = {setting.column: known[card.id].errors.get(setting.name) for setting in SETTINGS}
                assert {name: record[name] for name in errors} == errors

    def test_words_and_globs_are_found_in_ids_families_names_elsewhere_and_data(self) -> None:
        for pattern in ("DINO_vits", "dino_vitS*", "dino_vit[s]*"):
            found = names("list", pattern)
            assert "dino_vitS16" in found and all("dino_vits" in encoder.casefold() for encoder in found)
        assert load_catalogue()[names("list", "MoCo v3")[0]].family == "mocov3"
        assert names("list", "resnet50_clip.openai") == ["clip_rn50"]
        assert set(names("list", "openclip", "laion-2b")) >= {"openclip_vitB32", "openclip_vitL14"}

    def test_nothing_found_is_one_sentence_with_what_is_near(self) -> None:
        for arguments, said in {
            "simsaim": "did you mean simsiam",
            "dino clip": "'dino' finds ",
            "EuroSAT": "'zoo list --descending --sort others_eurosat' sorts encoders",
            "cifar": "data sets are called so, for 'zoo results --dataset': cifar-10, cifar-100",
            "dino --where z_dim>99999": "z_dim>99999",
            "--dataset fashion-mnist": "64 of an experiment; --family randomised shows them.",
        }.items():
            result = run("list", *arguments.split(), code=1)
            assert said in result.stderr and result.stderr.count("\n") == 1 and result.stdout == ""
            assert document("list", *arguments.split(), code=1)["encoders"] == []

    def test_families_are_listed_with_their_networks(self) -> None:
        found = {record["family"]: record for record in document("list", "--families")["families"]}
        assert list(found) == sorted({card.family for card in load_catalogue().values()})
        assert ["dino_vitB8", "dino_vitB8_last"] in found["dino"]["networks"]
        assert found["byol"]["commercial_use"] == {"no": found["byol"]["n_encoders"]}
        assert {"vicreg", "vicregl"} <= {line[0] for line in table("list", "--families", "vicreg")}

    def test_a_condition_selects(self) -> None:
        for condition, column, value in (
            ('family == "vit" and z_dim <= 768', "family", "vit"),
            ('license in ("APACHE-2.0",)', "licence", "Apache-2.0"),
            ("is_wrong", "encoder", WRONG),
            ("approx_is_assumed", "approx", 0.0),
        ):
            found = document("list", "--where", condition, "--columns", column)["encoders"]
            assert {record[column] for record in found} == {value}
        assert names("list", "--where", "error_100pct < 16") == names("list", "--where", "train_test < 16")

    def test_marks_and_missing_values_are_explained(self) -> None:
        result = run("list", "dino_rn50", "--columns", "encoder,patch_size,size_bytes")
        assert result.stdout.splitlines()[1].split() == ["dino_rn50", "-", "?"]
        assert "-  does not apply    ?  not published" in result.stderr
        result = run("list", WRONG)
        assert result.stdout.splitlines()[1].split()[4] == f"{summaries()[WRONG].errors['100%']:.1f}!"
        assert "!  measured wrongly" in result.stderr
        assert "~  assumed, not measured" in run("list", "--columns", "encoder,approx").stderr


class TestShow:
    def test_json_has_every_fact_of_the_card_under_its_dotted_name(self) -> None:
        for encoder in ("dino_rn50", "clip_rn50x4", "init_vitS16", WRONG):
            shown, card = document("show", encoder.upper()), load_catalogue()[encoder]
            assert shown["encoder"] == encoder and len(shown["facts"]) > 50
            for name, value in shown["facts"].items():
                fact = card.fact(name)
                expected = list(fact) if isinstance(fact, tuple) else None if isinstance(fact, Missing) else fact
                assert value == expected and (shown["missing"].get(name) is None) == (not isinstance(fact, Missing))
            assert len(shown["errata"]) == len(card.errata)
        assert shown["results"]["errata"][0]["exclude"] is True

    def test_text_has_units_errata_risks_and_licences(self) -> None:
        for encoder, parts in {
            "clip_rn50x4": ["crop 288 px", "published: 640", "(assumed, not measured)", "21.5", "(not published)"],
            WRONG: ["wrong weights"],
            "dino_vitS16": ["77.0 %", "commercial use", "yes"],
        }.items():
            text = " ".join(run("show", encoder, "--all").stdout.split())
            assert [part for part in parts if part not in text] == []

    def test_a_card_fits_the_terminal(self) -> None:
        lines = on_terminal(60, "show", "pocket_barlow_rn_shapes", "--all", NO_COLOR="1").splitlines()
        wrapped = [
            line for line in lines if " " in line.strip() and "://" not in line
        ]  # others are copied in one piece
        assert max(map(len, wrapped)) <= 60

    def test_the_first_screen_has_what_one_decides_by_in_25_lines(self) -> None:
        for encoder, error in {"dino_vitS16": "24.6 %", "dinov2_vitS14": "20.2 %", "clip_vitB16": "20.1 %"}.items():
            lines = on_terminal(80, "show", encoder, NO_COLOR="1").splitlines()
            labels = [line.split()[0] for line in lines[1:] if line[2:3].strip()]
            assert [label for label in labels if label in ("error", "licence", "size", "features", "load", "next")] == (
                ["error", "licence", "size", "features", "load", "next"]
            )
            assert len(lines) <= 25 and error in lines[1]
        assert "interval 17.7 to 23.0" in run("show", "dinov2_vitS14").stdout

    def test_patches_are_those_of_the_images_that_are_encoded(self) -> None:
        assert "maps of 16 x 16 patches" in run("show", "dinov2_vitS14").stdout
        positions = "for 37 x 37 patches of 518 px; images of 224 px have 16 x 16"
        assert positions in run("show", "dinov2_vitS14", "--all").stdout


class TestCompare:
    def test_expected_errors_stand_where_none_was_measured(self) -> None:
        pair = document("compare", "dino_vitS16", "dinov2_vitS14")["encoders"]
        assert [len(one["expected"]) for one in pair] == [0, 5]
        one = pair[1]["expected"]["train_test"]
        assert one["interval"][0] < one["error"] < one["interval"][1] and pair[1]["train_test"] is None
        result = run("compare", "dino_vitS16", "dinov2_vitS14")
        text = f"{one['error']:.1f} ({one['interval'][0]:.1f}-{one['interval'][1]:.1f})"
        assert "extrapolated" not in result.stderr and ") <" in run("list", "aimv2_vit3B14_448").stdout
        assert text in result.stdout.splitlines()[1] and "(a-b)  expected, not measured" in result.stderr
        listed = run("list", "dinov2_vitS14")
        assert text in listed.stdout and "(a-b)  expected, not measured" in listed.stderr

    def test_a_second_listing_estimates_no_error_anew(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
        first = run("list", "dinov2")
        monkeypatch.setattr("zoo.cli.facts.estimate_unmeasured", None)
        again = run("list", "dinov2")
        assert (again.stdout, again.stderr) == (first.stdout, first.stderr) and "(a-b)" in again.stderr

    def test_only_differing_facts_are_shown(self) -> None:
        compared = document("compare", "dino_vitS16", "dino_vitS16_last")
        first, second = compared["encoders"]
        assert "z_dim" in compared["differing"] and "architecture" not in compared["differing"]
        assert all(first[name] != second[name] for name in compared["differing"])
        assert compared["difference"]["usability"] is None  # one is not known
        shown = run("compare", "dino_vitS16", "dino_vitS16_last").stdout
        assert "\ndimensions  " in shown and "\nkind of network" not in shown and "top1acc" not in shown

    def test_two_encoders_get_the_difference_of_their_risks(self) -> None:
        compared = document("compare", "dino_vitS16", "mae_vitB16")
        first, second = compared["encoders"]
        assert compared["difference"]["train_test"] == pytest.approx(second["train_test"] - first["train_test"])
        header, first, *_ = table("compare", "dino_vitS16", "mae_vitB16")
        assert header[:2] == ["error,", "percent"] and first[-3:] == ["24.6", "34.0", "+9.4"]
        several = ("compare", "dino_vitS16", "mae_vitB16", "swav_rn50")
        assert table(*several)[0][2:] == ["dino_vitS16", "mae_vitB16", "swav_rn50"]
        assert "difference" not in document(*several)

    def test_assumed_and_wrong_numbers_are_marked(self) -> None:
        assert document("compare", "clip_rn50x4", "dino_rn50")["difference"]["approx"] is None
        assert ["approximation", "0.0~", "0.8"] in table("compare", "clip_rn50x4", "dino_rn50")
        (row,) = [line for line in table("compare", "dino_rn50", WRONG) if line[:1] == ["100%"]]
        assert [cell.endswith("!") for cell in row[3:]] == [False, True, True]
        assert document("compare", "dino_rn50", WRONG, "--exclude-wrong")["difference"]["train_test"] is None


class TestExperiments:
    """Encoders of a card file with ``listed = false``: there by name, listed only if asked for."""

    def test_a_listing_has_them_by_name_or_family_alone(self, home: Path) -> None:
        (home / "metadata" / "drawn.toml").write_text("listed = false\n" + VALID)
        assert "tiny_vitS16" not in {*names("list"), *names("list", "dino"), *zoo.list_encoders()}
        assert names("list", "drawn") == ["tiny_vitS16", "tiny_vitS16_twin"]
        assert names("list", "tiny_*", "--where", "z_dim > 1000") == ["tiny_vitS16_twin"]
        assert document("show", "tiny_vitS16")["family"] == "drawn"
        assert "drawn" not in {one["family"] for one in document("list", "--families")["families"]}
        drawn = names("list", "randomised")
        assert {"randomised_000", "randomised_twin_vit_small_16"} <= set(drawn)
        assert (
            names("list", "--family", "Randomised") == names("list", "--where", "card_family == 'randomised'") == drawn
        )
        assert names("list", "--family", "randomised", "--dataset", "fashion-mnist") == MEASURED
        assert not set(names("list", "--dataset", "shapes")) & set(drawn)
        assert "did you mean randomised" in run("list", "--family", "randomise", code=2).stderr
        entries = entry_points()
        assert {name for name in entries if name.startswith("_")} >= {f"_{name}" for name in drawn}


def test_reported_numbers_have_marks_and_columns_of_their_own(home: Path) -> None:
    (home / "metadata" / "mine.toml").write_text(VALID)
    rows = [
        {"encoder": "tiny_vitS16", "value": "99.10"},
        {"encoder": "mugs_vitb16_ep400", "value": "79.0", "protocol": "reported-knn", "doubt": "Printed twice."},
    ]
    (home / "results" / FILE).write_text(reported_text(*({**row, "standing": "authors"} for row in rows)))
    columns = "encoder,train_test,reported,reported_linear,reported_knn"
    where = 'encoder in ("tiny_vitS16", "mugs_vitb16_ep400")'
    result = run("list", "*", "--where", where, "--columns", columns)
    cells = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()[1:]}
    assert cells["tiny_vitS16"] == ["?", "99.10*", "linear", "99.10*", "."]
    assert cells["mugs_vitb16_ep400"][1:] == ["79.0*!", "k-NN", "?", "79.0*!"]
    assert "reported by authors or others" in result.stderr and "*!  reported and doubtful" in result.stderr
    assert (
        "imagenet-1k 99.10 %; 224 px; somebody: somebody/list, README.md" in run("show", "tiny_vitS16", "--all").stdout
    )
    assert "doubtful: Printed twice." in run("show", "mugs_vitb16_ep400", "--all").stdout
    assert [number["printed"] for number in document("show", "tiny_vitS16")["reported"]] == ["99.10"]
    assert ["reported:", "linear", "probe", "99.10*", "77.0*"] in table("compare", "tiny_vitS16", "dino_vitS16")


def test_what_others_measured_is_a_column_for_each_data_set() -> None:
    columns = ("--columns", "encoder,others_eurosat,others_svhn", "--sort", "others_eurosat", "--descending")
    shown = run("list", "--where", "others_eurosat > 92", *columns)
    rows = [line.split() for line in shown.stdout.splitlines()[1:]]
    values = [float(row[1].removesuffix("*")) for row in rows]
    assert values == sorted(values, reverse=True) and min(values) > 92
    assert {row[2] for row in rows} == {"few-shot"} and {row[4] for row in rows} == {"few-shot", "zero-shot"}
    assert "comparable within one protocol" in shown.stderr
    (found,) = document("list", "--where", 'encoder == "dino_vitS16"', "--columns", "others_eurosat")["encoders"]
    assert found["others_eurosat"] is None and found["missing"] == {"others_eurosat": "not recorded"}
    assert "did you mean others_eurosat" in run("list", "--columns", "eurosat", code=2).stderr
    assert "others_eurosat" in run("list", "--where", "eurosat > 3", code=2).stderr
    assert "others_DATASET" in run("list", "--help-columns").stdout


def test_the_error_to_expect_is_shown_of_what_was_not_measured() -> None:
    text = run("show", "dinov2_vitB14", "--all").stdout
    assert "expected, 100%" in text and "from a reported linear probe" in " ".join(text.split())
    found = document("show", "dinov2_vitB14")["expected"]
    assert found["interval"][0] < found["error"] < found["interval"][1] and found["rests_on"] == "reported probe"
    assert document("show", "dino_vitS16")["expected"] is None
    assert document("show", "pocket_simclr_rn_shapes")["expected"] is None


def test_what_others_measured_of_one_encoder_is_short_and_apart_from_what_authors_say() -> None:
    reported, others = run("show", "dinov2_vitB14", "--all").stdout.split("Measured by others")
    assert "84.5 %" in reported and "cifar-10-clustering" not in reported
    assert "16 labels per class; 21 data sets. Natural: imagenet-1k 75.9, caltech-101 89.4; " in others
    assert "roxford-hard-retrieval 26.9*!" in others and "*! mAP@5" in others
    assert "zoo results dinov2_vitB14 --reported" in others
    assert "pooled otherwise: projected to the space of texts" in run("show", "clip_vitB16", "--all").stdout
    assert "Measured by others" not in run("show", "dino_vitS16", "--all").stdout


def test_encoders_are_compared_by_what_one_origin_measured_of_both() -> None:
    pair = ("dinov2_vitB14", "clip_vitB16")
    shown = run("compare", *pair)
    rows = [line.split() for line in shown.stdout.partition("measured by others")[2].splitlines()[1:]]
    assert ["eurosat", "few-shot,", "MTEB", "81.7", "74.2", "-7.4"] in rows
    assert "clip_vitB16 (projected to the space of texts)" in shown.stderr
    records = document("compare", *pair)["measured_by_others"]
    assert all(set(one["numbers"]) == set(pair) for one in records)
    (eurosat,) = [one for one in records if one["dataset"] == "eurosat"]
    assert eurosat["numbers"]["dinov2_vitB14"] == {"value": 81.6556, "features": "", "doubt": ""}
    assert (eurosat["domain"], eurosat["origin"], eurosat["setting"]) == ("satellite", "mteb", "16 labels per class")
    assert document("compare", "dino_vitS16", "mae_vitB16")["measured_by_others"] == []


def test_lineage_and_where_origins_disagree_are_shown_and_in_json() -> None:
    text = " ".join(run("show", "cradio_v4_vitH16", "--all").stdout.split())
    assert "distilled from siglip2_vitgopt16_384, dinov3_vit7B16_lvd1689m, sam3_vitLplus14" in text
    assert "note Distilled from dinov3_vit7B16_lvd1689m under LicenseRef-DINOv3" in text
    text = " ".join(run("show", "clip_vitB16", "--all").stdout.split())
    assert "trained further as bioclip_vitB16, clip_vitB16_384_ft12k_ft1k, " in text
    shown = document("show", "clip_vitB16")
    assert {"Teacher of", "Trained further as"} == {*shown["lineage"]}
    assert "79.9 (measured by the study)" in shown["disagreements"]["linear, imagenet-1k"]
    lines = on_terminal(80, "show", "clip_vitB16", "--all", NO_COLOR="1").splitlines()
    start = lines.index("Where origins disagree (percent)")
    told = lines[start : lines.index("", start)]
    assert any(line.startswith("  linear, imagenet-1k ") for line in told) and max(map(len, told)) <= 80
