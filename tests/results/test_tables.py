"""The shipped measurements: what is in the files, and what is derived from them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.each import for_each
from zoo import NOT_PUBLISHED
from zoo.errors import UnknownName
from zoo.results.derived import summaries
from zoo.results.recording import PROVENANCE_KEYS
from zoo.results.rows import Measurement, measurements
from zoo.results.values import COLUMNS, PUBLISHED_SOURCE
from zoo.results.vocabulary import ERRATUM_KINDS, METRICS, SPLITS

PUBLISHED = summaries(source=PUBLISHED_SOURCE)
IN_THE_TABLE = [name for name, summary in PUBLISHED.items() if "3-shot" in summary.errors]
WRONG = "deepcluster_rn50_bs512_ep200_mmselfsup"


def published(*, metrics: list[str]) -> list[Measurement]:
    return [row for row in measurements(metrics=metrics) if row.source == PUBLISHED_SOURCE]


@pytest.fixture(scope="module")
def raw(repository: Path) -> dict[tuple[str, str, str], float]:
    """Encoder, metric and split -> value, read without the zoo."""
    with (repository / "results" / "published" / "risks.csv").open(newline="") as file:
        return {(row["encoder"], row["metric"], row["split"]): float(row["value"]) for row in csv.DictReader(file)}


def test_the_published_counts_are_those_of_the_readme(repository: Path) -> None:
    assert len(PUBLISHED) == 200
    assert len(IN_THE_TABLE) == 169
    assert len([name for name in IN_THE_TABLE if "30-shot" not in PUBLISHED[name].errors]) == 2
    readme = (repository / "results" / "README.md").read_text()
    for path in sorted((repository / "results" / "published").glob("*.csv")):
        n_rows = len(path.read_text().splitlines()) - 1
        assert f"[published/{path.name}](published/{path.name}) | {n_rows} |" in readme
    assert len({row.encoder for row in published(metrics=["correlation_rank"])}) == 142


def test_the_decomposition_is_missing_or_assumed_where_no_twin_was_measured() -> None:
    parts = [PUBLISHED[name].decomposition for name in IN_THE_TABLE]
    assert all(part is not None for part in parts)
    without = [part for part in parts if part and part.approximation is NOT_PUBLISHED]
    assert len(without) == 23
    assert all(part.usability is NOT_PUBLISHED and part.approximation_plus_usability > 0 for part in without)
    assumed = [part for part in parts if part and part.approximation_assumed]
    assert len(assumed) == 12
    assert all(part.approximation == 0 for part in assumed)
    assert all(part.approximation != 0 for part in parts if part and not part.approximation_assumed)


@for_each(PUBLISHED)
def test_components_are_differences_of_the_raw_risks(encoder: str, raw: dict[tuple[str, str, str], float]) -> None:
    part = PUBLISHED[encoder].decomposition
    assert part is not None
    r_us = raw[encoder, "linear_probe_error", "train -> val"]
    r_af = raw.get((encoder, "linear_probe_error", "train -> train"))
    r_as = raw.get((encoder, "linear_probe_error", "train minus subset -> subset"))
    r_phi_f = raw.get((encoder, "supervised_twin_error", "train -> train"))
    if r_af is None or r_as is None:  # the generalization components were published in place of these risks
        assert (r_af, r_as) == (None, None)
        r_as = r_us - raw[encoder, "encoder_generalization", "train -> val"]
        r_af = r_as - raw[encoder, "probe_generalization", "train -> val"]
    assert part.approximation_plus_usability == pytest.approx(r_af, abs=1e-9)
    assert part.probe_generalization == pytest.approx(r_as - r_af, abs=1e-9)
    assert part.encoder_generalization == pytest.approx(r_us - r_as, abs=1e-9)
    if r_phi_f is None:
        assert (part.approximation, part.usability) == (NOT_PUBLISHED, NOT_PUBLISHED)
    else:
        assert part.approximation == r_phi_f
        assert part.usability == pytest.approx(r_af - r_phi_f, abs=1e-9)


def test_the_wrong_encoder_is_left_out_on_request_only() -> None:
    assert any(erratum.exclude for erratum in PUBLISHED[WRONG].errata)
    assert set(PUBLISHED) - set(summaries(exclude_wrong=True)) == {WRONG}
    assert {row.encoder for row in measurements()} - {row.encoder for row in measurements(exclude_wrong=True)} == {
        WRONG
    }


def test_measurements_can_be_chosen_by_metric_and_encoder_in_any_case() -> None:
    (train, val) = measurements(metrics=["uniformity"], encoders=["DINO_VITS16"])
    assert (train.encoder, train.split, val.split) == ("dino_vitS16", "train", "val")
    assert train.value == -3.083756028358562
    assert (train.n_train, train.seed, train.ci_low, train.ci_high) == (None, None, None, None)
    assert measurements(metrics="uniformity", encoders="dino_vitS16") == [train, val]
    with pytest.raises(UnknownName, match=r"linear_prob.*did you mean linear_probe_error"):
        measurements(metrics="linear_prob")
    with pytest.raises(UnknownName, match="dino_vitS16"):
        measurements(encoders=["dino_vitS17"])


def test_the_readme_explains_every_word_of_the_vocabulary(repository: Path) -> None:
    readme = (repository / "results" / "README.md").read_text()
    better = {True: "lower", False: "higher", None: "neither"}
    groups = {"all with a probe": True, "all without a probe": False}
    names = {
        tuple(name for name, split in SPLITS.items() if bool(split.n_train) is probe): text
        for text, probe in groups.items()
    }
    for metric in METRICS.values():
        splits = names.get(metric.splits) or ", ".join(f"`{split}`" for split in metric.splits)
        splits += ", any number of labels" * metric.any_labels
        splits += ", any number of images" * metric.any_images
        direction = better[metric.lower_is_better]
        assert f"| `{metric.name}` | {metric.unit} | {direction} | {splits} | {metric.meaning} |" in readme
    for split in SPLITS.values():
        assert f"| `{split.name}` | {split.n_train or ''} | {split.meaning} |" in readme
    for kind, meaning in ERRATUM_KINDS.items():
        assert f"| `{kind}` | {meaning} |" in readme
    for column in COLUMNS:
        assert f"`{column}`" in readme.split("## Metrics")[0]
    for protocol in {row.protocol for row in measurements()}:
        assert f"| `{protocol.partition(' (')[0]}` |" in readme
    for key, meaning in PROVENANCE_KEYS.items():
        assert f"| `{key}` | {meaning} |" in readme
