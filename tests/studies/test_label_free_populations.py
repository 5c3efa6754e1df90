"""Populations of measured rows: which rows count, what is refused, and CLID of those that have both of its parts."""

from __future__ import annotations

import pytest

from analysis.label_free_vs_probe.populations import add_clid, build_measured_populations, compute_clid
from zoo.analysis.label_free import read_measured_rows
from zoo.cards.catalogue import load_catalogue
from zoo.results.values import Row

POCKET = [
    name
    for name, card in load_catalogue().items()
    if name.startswith("pocket_") and card.objective.mode not in ("supervised", "initialized")
]
PLAIN = {
    "dataset": "planted",
    "split": "train",
    "n_train": "",
    "seed": "0",
    "unit": "",
    "ci_low": "",
    "ci_high": "",
    "protocol": "zoo-label-free-1",
    "source": "me",
    "date": "2026-11-20",
}


def row(encoder: str, metric: str, value: float, **changes: str) -> Row:
    cells = {**PLAIN, "encoder": encoder, "metric": metric, "value": repr(float(value)), **changes}
    return Row(**cells)


def errors(encoders: list[str], **changes: str) -> list[Row]:
    """Full-shot errors of 20, 21, ... percent."""
    kind = {"split": "train -> val", "protocol": "zoo-logistic-2", **changes}
    return [row(encoder, "linear_probe_error", 20 + place, **kind) for place, encoder in enumerate(encoders)]


def metric(encoders: list[str], name: str = "rankme", **changes: str) -> list[Row]:
    """10, 9, ... so that the order is that of the accuracies."""
    return [row(encoder, name, 10 - place, **changes) for place, encoder in enumerate(encoders)]


def test_encoders_with_a_metric_and_an_accuracy_make_a_population() -> None:
    others = [name for name in load_catalogue() if name.startswith(("pocket_sup", "pocket_init"))]  # take no part
    found = build_measured_populations([*errors(POCKET[:8] + others), *metric(POCKET[:6] + others)])
    (population,) = found.populations
    assert (population.name, population.dataset, len(population)) == ("encoders measured on planted", "planted", 6)
    assert population.left_out == {"no label-free metric measured": 2}
    assert population.oracle[POCKET[0]] == 80.0 and population.values.at[POCKET[0], "rankme"] == 10.0
    assert population.objectives[POCKET[0]] == "simclr"
    assert not found.refused


@pytest.mark.parametrize("n", [0, 1, 4])
def test_fewer_than_five_are_refused_with_their_number(n: int) -> None:
    found = build_measured_populations([*errors(POCKET[:8]), *metric(POCKET[:n])])
    assert not found.populations
    sentence = found.refused["planted"]
    assert sentence.startswith(f"{n} of the 8 self-supervised encoders") and "expected at least 5" in sentence


def test_seeds_are_averaged_over_the_newest_campaign() -> None:
    encoder = POCKET[0]
    rows = [*errors(POCKET[:5]), *metric(POCKET[1:5])]
    rows += [row(encoder, "rankme", 4, seed="1"), row(encoder, "rankme", 8, seed="2")]
    rows += [row(encoder, "rankme", 100, date="2026-10-01")]
    assert build_measured_populations(rows).populations[0].values.at[encoder, "rankme"] == 6.0


def test_protocols_and_kinds_of_image_are_not_mixed() -> None:
    rows = [*errors(POCKET[:7]), *metric(POCKET[:6])]
    rows += metric(POCKET[:7], protocol="zoo-label-free-1 (n=100)") + metric(POCKET[:3], split="val")
    (population,) = build_measured_populations(rows).populations
    assert population.values["rankme"].notna().sum() == 7  # the protocol that most have
    even = build_measured_populations(
        [
            *errors(POCKET[:6]),
            *metric(POCKET[:6], protocol="other (n=1)", seed="3"),
            *[row(encoder, "rankme", 1) for encoder in POCKET[:6]],
        ]
    )
    assert even.populations[0].values["rankme"].unique().tolist() == [1.0]  # options of one's own come last


def test_alignment_of_a_class_is_not_taken_for_that_of_views() -> None:
    within = metric(POCKET[:6], "alignment")
    views = metric(POCKET[:5], "alignment", split="train pretraining-augmented")
    rows = [*errors(POCKET[:6]), *metric(POCKET[:6]), *within]
    assert "alignment" not in build_measured_populations(rows).populations[0].values
    assert build_measured_populations([*rows, *views]).populations[0].values["alignment"].notna().sum() == 5


def test_clid_and_w_clid_are_of_the_encoders_that_have_both_parts() -> None:
    dimension = [
        row(encoder, "intrinsic_dimension", value)
        for encoder, value in zip(POCKET[:7], [3, 9, 5, 7, 4, 8, 6], strict=True)
    ]
    rows = [*errors(POCKET[:8]), *metric(POCKET[:8], "cluster_learnability"), *dimension]
    (population,) = build_measured_populations(rows).populations
    clid = population.values["clid"]
    assert clid.notna().sum() == population.values["w_clid"].notna().sum() == 7
    assert clid[POCKET[0]] == pytest.approx(1.0)  # the most learnable, of the least dimensions
    again = compute_clid(population.values["intrinsic_dimension"], population.values["cluster_learnability"])
    assert again.to_dict() == pytest.approx(clid.dropna().to_dict())
    assert not population.unanswered


def test_what_clid_lacks_is_said() -> None:
    (population,) = build_measured_populations(
        [*errors(POCKET[:6]), *metric(POCKET[:6], "cluster_learnability")]
    ).populations
    assert population.unanswered == ("CLID needs intrinsic_dimension, which were not measured here.",)
    both = population.values.assign(intrinsic_dimension=5.0)
    values, refused = add_clid(both, population.oracle)
    assert "clid" not in values and all("same intrinsic dimension" in sentence for sentence in refused)


def test_a_grid_of_settings_is_read_from_the_names_of_protocols() -> None:
    rows = [*errors(POCKET[:6]), *metric(POCKET[:6], "cluster_learnability")]
    for n_clusters, k in ((4, 1), (16, 1), (16, 5)):
        rows += metric(
            POCKET[:5], "cluster_learnability", protocol=f"zoo-label-free-1 (k={k}, n_clusters={n_clusters})"
        )
    rows += metric(POCKET[:4], "cluster_learnability", protocol="zoo-label-free-1 (k=9, n_clusters=99)")
    found = build_measured_populations(rows)
    assert list(found.grids["planted"]) == [(4, 1), (16, 1), (16, 5)]
    assert len(found.populations[0].values["cluster_learnability"].dropna()) == 6


def test_rows_of_the_shipped_files_are_those_that_were_measured_here() -> None:
    rows = read_measured_rows()
    assert {one.dataset for one in rows} == {"shapes", "digits", "fashionmnist-10k"}
    assert {one.source for one in rows} == {"measured"}
