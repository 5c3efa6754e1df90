"""The language of ``--where``: what it says, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.each import for_each
from zoo.cards.schema import NOT_APPLICABLE, NOT_PUBLISHED, Kind
from zoo.errors import QueryError, UnknownName
from zoo.results.filter_expression import parse_condition

KINDS: dict[str, Kind] = {
    "encoder": "text",
    "family": "text",
    "z_dim": "whole number",
    "epochs": "whole number",
    "patch_size": "whole number",
    "is_ema": "true or false",
    "augmentations": "list",
    "train-nperclass-3_test": "number",
}
ENCODER: dict[str, Any] = {
    "encoder": "dino_vitS16",
    "family": "vit",
    "z_dim": 384,
    "epochs": NOT_PUBLISHED,
    "patch_size": NOT_APPLICABLE,
    "is_ema": True,
    "augmentations": ("crop", "flip"),
    "train-nperclass-3_test": 52.5,
}


def holds(text: str) -> bool:
    return parse_condition(text, KINDS).holds(ENCODER.__getitem__)


@for_each(
    [
        'family == "vit"',
        "family == 'vit' and z_dim <= 768",
        "100 < z_dim <= 384",
        'family != "resnet"',
        'family in ("vit", "convnext")',
        "z_dim in [384, 768]",
        'family not in {"resnet"}',
        '"16" in encoder',
        '"crop" in augmentations and "blur" not in augmentations',
        "is_ema",
        "is_ema == true",
        "not is_ema == True or z_dim > 1",
        "z_dim * 2 + 1 - 1 == 768 / 1",
        "-z_dim < 0",
        "`train-nperclass-3_test` < 60",
        "missing(epochs) and missing(patch_size) and not missing(z_dim)",
        "not_published(epochs) and not not_published(patch_size)",
        "not_applicable(patch_size)",
        "epochs > 100 or z_dim == 384",
        'encoder > "a"',
        'encoder > "DINO_A"',
        'family == "VIT" and family != "RESNET"',
        'family in ("ViT", "ConvNeXt")',
        '"DINO" in encoder',
        '"Crop" in augmentations',
        "`z_dim` == 384 and `family` == 'vit'",
        "encoder != '`z_dim`'",
        '"`" not in encoder',
        "true",
    ]
)
def test_a_true_condition_holds(text: str) -> None:
    assert holds(text)


@for_each(
    [
        'family == "Vi"',
        'family != "VIT"',
        'family not in ("VIT", "RESNET")',
        '"CROP" not in augmentations',
        "z_dim < 384",
        "z_dim / 0 > 1",
        "z_dim / 0 == z_dim / 0",
        "not is_ema",
        "z_dim in ()",
        "`train-nperclass-3_test` > 60",
        "false",
    ]
)
def test_a_false_condition_does_not_hold(text: str) -> None:
    assert not holds(text)


@for_each(
    ["{} > 1", "{} <= 1", "{} == {}", "{} != 1", "not {} > 1", "{} in (1, 2)", "{} not in (1, 2)", "-{} < {} + 1"]
)
def test_a_comparison_with_a_missing_value_is_neither_true_nor_false(text: str) -> None:
    assert not any(holds(text.format(name, name)) for name in ("epochs", "patch_size"))


def test_an_unknown_part_does_not_hide_one_that_decides() -> None:
    assert holds("z_dim == 384 or epochs > 1")
    assert not holds("z_dim == 384 and epochs > 1")
    assert holds("not (z_dim == 1 and epochs > 1)")


@for_each([("familly == 'vit'", "family"), ("Z_DIM > 1", "z_dim")], arguments=2)
def test_a_misspelt_column_lists_the_nearest(text: str, nearest: str) -> None:
    with pytest.raises(UnknownName, match=rf"no column named .*did you mean .*{nearest}"):
        parse_condition(text, KINDS)


@for_each(
    [
        ("", "Cannot read the condition"),
        ("family = 'vit'", "Cannot read the condition .*== compares"),
        ("family == ", "Cannot read the condition"),
        ("family == vit'", "Cannot read the condition"),
        ("`z_dim`x == 1", "Cannot read the condition"),
        ("`z_dim == 1", "Cannot read the condition"),
        ("z_dim > 1; z_dim", "Cannot read the condition"),
        ("(" * 300, "Cannot read the condition"),
        ("z_dim > 1" + " and z_dim > 1" * 100, "has 1,409 characters, expected at most 1,000"),
        ("-" * 900 + "z_dim > 1", "Cannot read the condition .*nested too deeply"),
        ("family == 3", "Cannot compare family, which is a text, and 3, which is a number"),
        ("z_dim == '384'", "Cannot compare z_dim, which is a number, and '384', which is a text"),
        ("z_dim in ('a', 'b')", "Cannot compare z_dim, which is a number, and 'a', which is a text"),
        ("is_ema < true", "Cannot order is_ema"),
        ("augmentations == 'crop'", "ask whether a text is in a list with 'in'"),
        ("z_dim in family", "Cannot look for z_dim, which is a number, in family, which is a text"),
        ("family + 1 > 2", "Cannot calculate with family, which is a text"),
        ("family", "family is a text, expected something true or false"),
        ("z_dim and is_ema", "z_dim is a number, expected something true or false"),
        ("z_dim", "z_dim is a number"),
        ("z_dim is 384", "write == to compare"),
        ("z_dim ** 2 > 1", "is not allowed in a condition"),
        ("z_dim % 2 == 1", "is not allowed in a condition"),
        ("encoder.upper() == 'A'", "is not allowed in a condition"),
        ("encoder.__class__ == 'A'", "is not allowed in a condition"),
        ("encoder[0] == 'd'", "is not allowed in a condition"),
        ("__import__('os') == 1", "is not allowed in a condition"),
        ("missing(z_dim + 1)", "is not allowed in a condition"),
        ("missing(z_dim, epochs)", "is not allowed in a condition"),
        ("(lambda: 1)() == 1", "is not allowed in a condition"),
        ("[x for x in family] == 1", "is not allowed in a condition"),
        ("f'{family}' == 'vit'", "is not allowed in a condition"),
        ("z_dim == None", "is not allowed in a condition"),
        ("z_dim == 1j", "is not allowed in a condition"),
        ("family == b'vit'", "is not allowed in a condition"),
        ("(z_dim, 1) == 1", "is not allowed in a condition"),
        ("1 if is_ema else 2", "is not allowed in a condition"),
        ("(z := 1) > 0", "is not allowed in a condition"),
    ],
    arguments=2,
)
def test_anything_else_is_refused_in_one_sentence(text: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason) as caught:
        parse_condition(text, KINDS)
    assert "\n" not in str(caught.value)
