"""The recipe of learning curves: a protocol's name stands for all that defines its numbers, and for nothing else."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from zoo.errors import QueryError
from zoo.evaluation.curves.recipe import (
    TASKS,
    Recipe,
    describe_recipe,
    format_base_protocol,
    format_protocol_name,
    hash_recipe,
)
from zoo.results.vocabulary import METRICS

DIGESTS = {
    "classification": "e6507153b1c1b21283b6497a6938e8cb",
    "depth": "149e492c835da8fe537ce8ecd27708ef",
    "normals": "710659069d56eb753f6c5e6e6096d4a9",
}
OTHERS = {
    "frozen": True,
    "learning_rates": (1e-4,),
    "weight_decay": 0.1,
    "head_rate": 1.0,
    "batch_size": 32,
    "accumulate": 2,
    "epochs": 3.0,
    "least_steps": 10,
    "most_steps": 30,
    "evaluations": 5,
    "patience": 2,
    "validation_share": 0.5,
    "clip_norm": 2.0,
    "precision": "bfloat16",
}


@pytest.mark.parametrize("name", TASKS)
def test_a_protocol_never_changes(name: str) -> None:
    assert hash_recipe(TASKS[name]) == DIGESTS[name], (
        f"{format_base_protocol(TASKS[name])} means something else than it did, and rows with that name may exist: "
        "put the "
        "task, the recipe or the rules back, or make it the next number of the protocol, and then pin the new digest."
    )
    assert all(METRICS[metric].lower_is_better and METRICS[metric].any_images for metric in TASKS[name].metrics)


def test_every_option_that_is_another_is_told_by_the_name() -> None:
    changed = {option: replace(Recipe(), **{option: value}) for option, value in OTHERS.items()}  # type: ignore[arg-type]
    names = {option: format_protocol_name(TASKS["depth"], recipe) for option, recipe in changed.items()}
    assert names.keys() == {field.name for field in fields(Recipe)} and len(set(names.values())) == len(OTHERS)
    assert all(name.startswith(f"zoo-curve-depth-1 ({option}=") for option, name in names.items())
    assert format_protocol_name(TASKS["depth"], Recipe()) == "zoo-curve-depth-1"


@pytest.mark.parametrize("control", ["scratch", "maximal", "blind"])
def test_nothing_of_a_control_is_frozen_and_a_blind_guess_is_not_trained(control: str) -> None:
    told = format_protocol_name(TASKS["normals"], Recipe(frozen=True, epochs=3.0), control=control)
    options = f"control={control}" if control == "blind" else f"control={control}, epochs=3.0"
    assert told == f"zoo-curve-normals-1 ({options})"


def test_the_readme_of_the_results_has_every_protocol_with_its_options_and_rules(repository: Path) -> None:
    readme = (repository / "results" / "README.md").read_text()
    settings = describe_recipe(Recipe())
    rules = settings.pop("rules")
    for task in TASKS.values():
        (line,) = [line for line in readme.splitlines() if line.startswith(f"| `{format_base_protocol(task)}` |")]
        assert task.loss in line and task.decoder in line
        assert all(f"{name} " in line for name in settings) and all(rule in line for rule in rules.values())


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("epochs", 0),
        ("epochs", float("inf")),
        ("batch_size", 2.5),
        ("patience", True),
        ("accumulate", 64),
        ("validation_share", 1.0),
        ("validation_share", 0),
        ("learning_rates", ()),
        ("precision", "float64"),
        ("weight_decay", -1.0),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_its_name(option: str, value: object) -> None:
    with pytest.raises(QueryError, match=f"{option}="):
        Recipe(**{option: value})  # type: ignore[arg-type]
    assert Recipe(weight_decay=0).weight_decay == 0
