"""How ``zoo evaluate`` and ``zoo predict`` print metrics of predictions: tables of metrics, classes and confusions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from .measure_options import skipped_notes
from .output import print_notes, print_table

if TYPE_CHECKING:
    from ..evaluation.bootstrap import Interval
    from ..evaluation.classification import Classification, ClassResult, Tagging
    from ..evaluation.keeping import Kept
    from ..evaluation.tagging import TagEvaluation

TITLES = {
    "error": "error",
    "balanced_error": "balanced error",
    "auroc": "AUROC",
    "average_precision": "average precision",
    "log_loss": "log loss",
    "calibration_error": "calibration error",
    "adaptive_calibration_error": "calibration error, adaptive bins",
    "tag_average_precision": "mean average precision",
    "tag_error": "error of a tag",
    "any_tag_error": "any tag wrong",
}
_MOST_CLASSES = 20  # with a line each
_MOST_COLUMNS = 12  # of a confusion matrix
_N_CONFUSIONS = 10


def print_kept(kept: Kept) -> None:
    """Prints the metrics of a probe that has learned from all labels."""
    from ..evaluation.classification import Classification

    assert isinstance(kept.metrics, Classification)
    print_classification(kept.metrics, of="The probe with all labels")
    if kept.n_different:
        print_notes(
            [
                f"trained again, the probe judges {kept.n_different:,} images otherwise than when its error was "
                "measured, for two classes are as likely there"
            ]
        )


def kept_document(kept: Kept) -> dict[str, Any]:
    """Metrics of the probe with all labels as JSON."""
    return kept.metrics.as_dict() | {"n_judged_otherwise": kept.n_different}


def print_tag_evaluation(found: TagEvaluation, *, on_images: Sequence[str] = ()) -> None:
    """Prints what was measured on images with tags, and what does not apply to them."""
    from ..evaluation.tagging import NOT_FOR_TAGS

    train, test = found.train, found.test
    click.echo(
        click.style(f"\n{train.origin.encoder} on {train.origin.dataset}", bold=True)
        + f": {len(train.y):,} training and {len(test.y):,} test images, {len(train.tags)} tags, "
        f"{train.dim:,} dimensions"
    )
    print_tagging(found.metrics, of="One probe a tag, with all labels")
    notes = [f"protocol {found.protocol.name}; C chosen on {found.n_tuning:,} training images; {NOT_FOR_TAGS}"]
    notes += [f"the tag {tag!r} has no probe: {why}" for tag, why in found.left_out.items()]
    if found.left_out or found.metrics.left_out:
        notes.append("not recorded in your results, for the mean average precision is not over all tags")
    if found.not_converged:
        notes.append(f"{len(found.not_converged)} of {len(found.chosen)} probes did not converge")
    skipped = [f"{part.origin.split}: {one.image}" for part in (train, test) for one in part.skipped]
    print_notes([*notes, *on_images, *skipped_notes(skipped, n_named=5)])


def tag_document(found: TagEvaluation) -> dict[str, Any]:
    """What was measured on images with tags as JSON."""
    from ..evaluation.tagging import NOT_FOR_TAGS

    train, test = found.train, found.test
    return {
        "encoder": train.origin.encoder,
        "dataset": train.origin.dataset,
        "n_train": len(train.y),
        "n_test": len(test.y),
        "tags": list(train.tags),
        "dim": train.dim,
        "protocol": found.protocol.name,
        "metrics": found.metrics.as_dict(),
        "chosen": {"C": found.chosen},
        "n_tuning": found.n_tuning,
        "left_out": found.left_out,
        "not_applicable": NOT_FOR_TAGS,
        "not_converged": list(found.not_converged),
        "skipped": {"train": [one.image for one in train.skipped], "val": [one.image for one in test.skipped]},
        "origin": {"train": asdict(train.origin), "val": asdict(test.origin)},
    }


def print_classification(found: Classification, *, of: str) -> None:
    """Prints metrics, classes and confusions; ``of`` says whose predictions they are."""
    click.echo(f"\n{of}, on {found.n_images:,} images\n")
    _print_metrics(found.metrics)
    worst = sorted(found.per_class, key=lambda one: -one.error.value if one.error else 1.0)
    shown = found.per_class if len(found.per_class) <= _MOST_CLASSES else worst[:_N_CONFUSIONS]
    if len(shown) < len(found.per_class):
        click.echo(f"\nThe {len(shown)} of {len(found.per_class):,} classes with the largest errors\n")
    else:
        click.echo("\nEach class\n")
    _print_classes("class", shown)
    _print_confusions(found)
    print_notes(_notes(found))


def print_tagging(found: Tagging, *, of: str) -> None:
    """Prints metrics and tags."""
    click.echo(f"\n{of}, on {found.n_images:,} images\n")
    _print_metrics(found.metrics)
    worst = sorted(found.per_tag, key=lambda one: one.average_precision.value if one.average_precision else 101.0)
    shown = found.per_tag if len(found.per_tag) <= _MOST_CLASSES else worst[:_MOST_CLASSES]
    if len(shown) < len(found.per_tag):
        click.echo(f"\nThe {len(shown)} of {len(found.per_tag):,} tags with the smallest average precision\n")
    else:
        click.echo("\nEach tag\n")
    _print_classes("tag", shown)
    print_notes(
        [
            "percent, a tag is predicted above a probability of a half; lower is better of errors, higher of AUROC and "
            f"average precision; {_intervals(found)}",
            *_left_out(found.left_out),
        ]
    )


def _print_metrics(metrics: dict[str, Interval]) -> None:
    from ..evaluation.classification import HIGHER_IS_BETTER, UNITS

    rows = [
        [
            TITLES[name],
            f"{one.value:.3f}" if UNITS[name] == "nats" else f"{one.value:.1f}",
            _ends(one, digits=3 if UNITS[name] == "nats" else 1),
            UNITS[name],
            "higher" if name in HIGHER_IS_BETTER else "lower",
        ]
        for name, one in metrics.items()
    ]
    print_table(["metric", "value", "interval", "unit", "better"], rows, right=[1, 2])


def _print_classes(what: str, shown: Sequence[ClassResult]) -> None:
    rows = [
        [
            one.name or "(none)",
            f"{one.n_images:,}",
            f"{one.n_predicted:,}",
            *_points(one.error),
            *_points(one.auroc),
            *_points(one.average_precision),
        ]
        for one in shown
    ]
    headers = [what, "images", "predicted", "error", "interval", "AUROC", "interval", "AP", "interval"]
    print_table(headers, rows, right=range(1, len(headers)))


def _print_confusions(found: Classification) -> None:
    if len(found.classes) <= _MOST_COLUMNS:
        click.echo("\nConfusion matrix: rows are classes, columns what they are predicted as\n")
        rows = [
            [name, *(f"{n:,}" if n else "." for n in counts)]
            for name, counts in zip(found.classes, found.confusion.tolist(), strict=True)
        ]
        print_table(["class", *found.classes], rows, right=range(1, len(found.classes) + 1))
        return
    pairs = found.confusions(_N_CONFUSIONS)
    if pairs:
        click.echo("\nMost frequent confusions\n")
        print_table(["class", "predicted as", "images"], [[a, b, f"{n:,}"] for a, b, n in pairs], right=[2])


def _notes(found: Classification) -> list[str]:
    ranked = f"of {found.positive!r}" if found.positive is not None else "means over classes, each against the rest"
    ranks = f"AUROC and average precision (AP) are {ranked}; " if "auroc" in found.metrics else ""
    notes = [f"percent (log loss in nats); {ranks}{_intervals(found)}"]
    chance = found.calibration
    if chance.by_chance is not None and chance.p_value is not None:
        within = "so that miscalibration is not shown" if chance.p_value > 0.05 else "so that it is miscalibrated"
        notes.append(
            f"1 in 40 perfectly calibrated probes has a calibration error above {chance.by_chance:.1f} percent on so "
            f"many images (p = {chance.p_value:.2g}), {within}"
        )
    return notes + _left_out(found.left_out)


def _intervals(found: Classification | Tagging) -> str:
    if not found.n_draws:
        return "without intervals"
    over = "images" if found.n_groups is None else f"the {found.n_groups:,} groups of images"
    return f"95 % intervals by {found.n_draws:,} resamples of {over}, given this probe"


def _left_out(left_out: dict[str, str]) -> list[str]:
    return [f"{what}: {why}" for what, why in left_out.items()]


def _points(found: Interval | None) -> list[str]:
    return ["", ""] if found is None else [f"{found.value:.1f}", _ends(found)]


def _ends(found: Interval, *, digits: int = 1) -> str:
    if found.ci_low is None or found.ci_high is None:
        return ""
    return f"{found.ci_low:.{digits}f} to {found.ci_high:.{digits}f}"
