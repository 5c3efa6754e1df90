"""What others measured: data sets by name, numbers by data set, contradictions, and wrong rows of the shipped files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.each import for_each
from zoo.cards.catalogue import load_catalogue
from zoo.errors import ResultsError, UnknownName
from zoo.results.evidence import (
    FAR_APART,
    WORTH_TELLING,
    build_measured_numbers,
    describe_disagreements,
    describe_origin_setting,
    find_contradictions,
    find_dataset,
    find_domain,
    find_numbers_on,
    find_origin,
    group_numbers,
    list_datasets,
    read_evidence_origins,
    select_preferred_numbers,
)
from zoo.results.facts import list_subjects
from zoo.results.reading import iterate_reported_numbers
from zoo.results.reported import reported_numbers, select_preferred_accuracies
from zoo.results.reported_values import EVIDENCE, METRICS, ReportedNumber

FOLDER = REPOSITORY / "results" / EVIDENCE
SPELLINGS = [
    ("eurosat", "eurosat"),
    ("Euro SAT", "eurosat"),
    ("EuroSAT (GEO-Bench)", "m-eurosat"),
    ("vtab/cifar100", "cifar-100"),
    ("imagenet_1k", "imagenet-1k"),
]


@for_each(SPELLINGS, name=lambda case: case[0], arguments=2)
def test_a_data_set_is_found_by_id_title_or_name_of_an_origin(name: str, found: str) -> None:
    assert find_dataset(name).id == found


def test_unknown_names_are_refused_with_what_there_is() -> None:
    with pytest.raises(UnknownName, match="'eurosatt'; did you mean eurosat"):
        find_dataset("eurosatt")
    assert find_domain("Satellite") == "satellite"
    with pytest.raises(UnknownName, match="There are natural, drawings, thumbnails"):
        find_domain("cats")


def test_every_row_has_its_data_set_origin_and_setting_and_every_encoder_its_card() -> None:
    numbers = [one for one in reported_numbers() if find_origin(one)]
    assert {one.dataset for one in numbers} <= {*list_datasets(), "38 data sets"}
    assert {find_origin(one) for one in numbers} == {*read_evidence_origins()}
    assert "16 labels per class" in {describe_origin_setting(one) for one in numbers}
    rows = [line.split("\t") for line in (FOLDER / "encoders.tsv").read_text().splitlines()[1:]]
    assert {row[0] for row in rows} == {*read_evidence_origins()}
    assert {row[2] for row in rows if row[2]} <= {*load_catalogue().with_unlisted}
    assert {one.encoder for one in numbers} <= {row[2] for row in rows}


def test_numbers_of_a_data_set_come_best_first_in_each_protocol() -> None:
    numbers = find_numbers_on("ObjectNet")
    assert {one.dataset for one in numbers} == {"objectnet", "ObjectNet"}  # as origins and as authors call it
    found = group_numbers(filter(find_origin, numbers))
    assert ("open_clip", "reported-zero-shot", "top1_accuracy") in found
    assert all(METRICS[metric].higher_is_better for _, _, metric in found)
    for block in found.values():
        assert block == sorted(block, key=lambda one: -one.value)


def test_of_several_numbers_columns_show_that_with_labels_and_never_the_more_flattering_one() -> None:
    there = [one for one in find_numbers_on("eurosat") if find_origin(one) and one.encoder == "clip_vitB16"]
    assert len({one.protocol for one in there}) == 3
    assert select_preferred_numbers("eurosat")["clip_vitB16"].protocol == "reported-few-shot"
    there = [
        one for one in find_numbers_on("objectnet") if one.encoder == "clip_vitB32" and one.metric == "top1_accuracy"
    ]
    assert len(there) == 2
    assert select_preferred_numbers("objectnet")["clip_vitB32"].value == min(one.value for one in there)


def test_origins_that_differ_contradict_each_other_and_doubtful_numbers_do_not() -> None:
    def number(**changes: object) -> ReportedNumber:
        (first, *_) = [one for one in find_numbers_on("svhn") if one.protocol == "reported-zero-shot"]
        fields = {name: getattr(first, name) for name in ReportedNumber.__slots__}
        return ReportedNumber(**fields | {"value": 50.0, "doubt": "", "setting": ""} | changes)  # type: ignore[arg-type]

    other = number(value=50.0 + FAR_APART, source="another")
    (found,) = find_contradictions([number(), other, number(value=90.0, encoder="dino_vitS16")])
    assert found == (number(), other)
    near = {"value": 50.0 + WORTH_TELLING, "source": "another"}
    assert not find_contradictions([number(), number(**near)])
    for reason in ({"features": "class token"}, {"resolution": "448"}, {"setting": "other"}, {"remark": "By hand."}):
        assert find_contradictions([number(resolution="224"), number(**{"resolution": "224"} | near | reason)]), reason
    assert not find_contradictions([number(resolution=""), number(**near, resolution="448")])  # unknown sizes
    assert find_contradictions([number(), number(value=60.0, features="class token")])  # of one origin
    assert not find_contradictions([number(), number(value=60.0, resolution="448")])
    assert not find_contradictions([number(), number(value=90.0, source="another", doubt="Printed twice.")])
    few = {"protocol": "reported-few-shot", "setting": "10 labels"}
    assert find_contradictions([number(**few), number(**few, value=90.0, source="another")])
    assert not find_contradictions([number(**few), number(**few | {"setting": "16"}, value=90.0, source="another")])
    real = find_contradictions(reported_numbers())
    apart = [abs(one.value - other.value) for one, other in real]
    assert apart == sorted(apart, reverse=True) and apart[-1] >= WORTH_TELLING


def test_where_origins_disagree_all_numbers_stand_with_who_has_them_and_why() -> None:
    def told(encoder: str) -> dict[str, str]:
        (subject,) = list_subjects([encoder], with_risks=True)
        return describe_disagreements(
            [*reported_numbers(encoder), *build_measured_numbers(subject.card, subject.summary)]
        )

    clip = told("clip_vitB16")["linear, imagenet-1k"]
    assert clip.startswith("80.2 (card), 79.9 (measured by the study), ")
    assert clip.endswith("77.9 (Efficient probing: projected to the space of texts)")
    pe = told("pe_core_vitL14_336")["k-NN, imagenet-1k"]
    assert pe.startswith("82.7 (Efficient probing: ") and "49.1 (Efficient probing: mean of the patch tokens" in pe
    assert told("dino_rn50") == {}


WRONG = [
    ("encoder", "clip_vitB61", "'encoder': found 'clip_vitB61', expected the id of a card; near are: 'clip_vitB16'"),
    (
        "encoder",
        "dino_vitS16",
        "'protocol': found 'reported-zero-shot', expected a protocol of features, for the card of",
    ),
    ("protocol", "reported-zero", "'protocol': found 'reported-zero', expected a protocol of reported numbers"),
]


@pytest.mark.parametrize(("column", "text", "said"), WRONG)
def test_a_wrong_row_is_refused_with_one_sentence(tmp_path: Path, column: str, text: str, said: str) -> None:
    head, row, *_ = (FOLDER / "open_clip.tsv").read_text().split("\n")
    fields = dict(zip(head.split("\t"), row.split("\t"), strict=True)) | {column: text}
    path = tmp_path / EVIDENCE / "open_clip.tsv"
    path.parent.mkdir()
    (path.parent / "origins.toml").write_text((FOLDER / "origins.toml").read_text())
    content = f"{head}\n" + "\t".join(fields.values()) + "\n"
    wrong: list[ResultsError] = []
    assert not [*iterate_reported_numbers({path: content.encode()}, load_catalogue(), {}, wrong.append)]
    assert [str(error).startswith(f"{path}, line 2, column ") and said in str(error) for error in wrong] == [True]


def test_an_origin_that_contradicts_itself_is_refused_with_file_and_rows(tmp_path: Path) -> None:
    head, row, *_ = (FOLDER / "efficient-probing.tsv").read_text().split("\n")
    fields = dict(zip(head.split("\t"), row.split("\t"), strict=True))
    path = tmp_path / EVIDENCE / "efficient-probing.tsv"
    path.parent.mkdir()
    (path.parent / "origins.toml").write_text((FOLDER / "origins.toml").read_text())
    others = [fields | {"value": "12.5"}, fields | {"value": "12.5", "features": "of the fourth block"}]
    content = "\n".join([head, *("\t".join(one.values()) for one in (fields, *others)), ""])
    wrong: list[ResultsError] = []
    assert (
        len([*iterate_reported_numbers({path: content.encode()}, load_catalogue(), {}, wrong.append)]) == 2
    )  # by other features
    (error,) = map(str, wrong)
    assert error.startswith(f"{path}, line 3: found 12.5 for what {path}, line 2 has already, expected one value per ")
    assert error.endswith(".") and "\n" not in error


def test_of_an_encoder_that_pools_by_attention_the_number_that_counts_is_of_what_it_pools() -> None:
    for encoder, pooled, mean in (
        ("siglip_vitL16_256", "85.86", "84.11"),
        ("siglip2_vitSO400M14_224", "87.44", "86.27"),
        ("pe_core_vitL14_336", "87.76", "85.44"),
    ):
        printed = {one.printed: one for one in reported_numbers(encoder) if find_origin(one) == "efficient-probing"}
        assert select_preferred_accuracies()[encoder]["reported-linear"].printed == pooled
        assert (printed[pooled].features, printed[mean].features) == ("", "mean of the patch tokens")
    assert select_preferred_accuracies()["pe_core_vitL14_336"]["reported-knn"].value > 80


def test_no_number_by_a_probe_is_a_zero_shot_accuracy_of_the_same_encoder() -> None:
    on_imagenet = [one for one in reported_numbers() if one.is_of_imagenet and not one.doubt]
    zero_shot = {(one.encoder, one.value) for one in on_imagenet if one.protocol == "reported-zero-shot"}
    probes = [one for one in on_imagenet if one.protocol in ("reported-linear", "reported-knn", "reported-attentive")]
    assert not [one for one in probes if (one.encoder, one.value) in zero_shot]
