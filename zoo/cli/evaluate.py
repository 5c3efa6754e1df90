"""``zoo evaluate``: features, tuned probes in every label setting, the risk decomposition, and rows in the results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.catalogue import catalogue
from ..cards.schema import Missing
from ..errors import ZooError
from .options import (
    IMAGES_HELP,
    PART_NAMES,
    encoder_names,
    featurising,
    image_options,
    images_document,
    opened,
    part_options,
    probe_options,
    refuse_idle,
    refuse_idle_probes,
    refuse_idle_source,
    refuse_other_images,
    request_of,
    say,
    setting_options,
)
from .output import json_option, print_json, print_notes, print_table, wrapped

if TYPE_CHECKING:
    from ..analysis.label_prediction import LabelPrediction
    from ..datasets import ImageData
    from ..datasets.images import Copies
    from ..evaluation.bootstrap import Interval
    from ..evaluation.evaluating import Evaluation, Featurising, Request
    from ..evaluation.measuring import SettingResult
    from ..evaluation.risk import RiskReport

PARTS = {
    "approximation": "approximation",
    "usability": "usability",
    "approximation_plus_usability": "approximation + usability",
    "probe_generalization": "probe generalization",
    "encoder_generalization": "encoder generalization",
}
_MOST_DIFFERENCES = 10  # that are listed; --json has all


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What became of numbers that were to be recorded."""

    document: dict[str, Any] | None  # for JSON; None if nothing was recorded
    problem: str  # why not, or what is recorded otherwise; "" if all is well
    notes: tuple[str, ...]


def recording(make_rows: Callable[[], Mapping[Any, Mapping[str, Any]]]) -> Recording:
    """Adds rows to the user's results; what goes wrong is told, for the numbers are there to be printed."""
    from ..results.recording import record

    try:
        found = record(make_rows(), differing="tell")
    except ZooError as error:
        return Recording(document=None, problem=f"The numbers were not added to your results: {error}", notes=())
    notes, problem = [], ""
    if found.paths:
        known = f", {found.n_known} were there" if found.n_known else ""
        notes.append(f"{found.n_new} rows added to {', '.join(map(str, found.paths))}{known}")
    if n := len(found.differences):
        notes += [str(one) for one in found.differences[:_MOST_DIFFERENCES]]
        if n > _MOST_DIFFERENCES:
            notes.append(f"and {n - _MOST_DIFFERENCES} more; see them with --json")
        problem = (
            f"{n} of {n + found.n_new + found.n_known} numbers were not added to your results, for others are recorded "
            "in their place; give these another --source, or use --no-record."
        )
    document = {
        "files": [str(path) for path in found.paths],
        "new": found.n_new,
        "known": found.n_known,
        "differing": [asdict(one) for one in found.differences],
    }
    return Recording(document=document, problem=problem, notes=tuple(notes))


def print_evaluation(evaluation: Evaluation, *, on_images: Sequence[str] = ()) -> None:
    """Errors by label setting, the decomposition, and how to read them, with notes on how images are read."""
    train, test = evaluation.train, evaluation.test
    click.echo(
        click.style(f"\n{train.origin.encoder} on {train.origin.dataset}", bold=True)
        + f": {len(train.y):,} training and {len(test.y):,} test images, {len(train.classes)} classes, "
        f"{train.dim:,} dimensions\n"
    )
    predicted = predictions(evaluation)
    if evaluation.settings or evaluation.neighbours is not None:
        _print_errors(evaluation, predicted)
    if evaluation.risk is not None:
        print_risk(evaluation.risk)
    _print_law(law_elsewhere(evaluation))
    notes = [
        "percent of the test images, lower is better; 95 % intervals over images and seeds, given these probes; "
        f"protocol {evaluation.protocols.errors.name}"
    ]
    notes += copies_notes(evaluation.copies)
    if evaluation.problems:
        notes.append(f"{len(evaluation.problems)} measured probes could not be kept: {evaluation.problems[0]}")
    notes += [f"{name} was left out: {why}" for name, why in evaluation.left_out.items()]
    notes += on_images
    if skipped := [f"{part.origin.split}: {one.image}" for part in (train, test) for one in part.skipped]:
        notes.append(f"{len(skipped):,} images could not be read and were left out: {', '.join(skipped[:5])}")
    runs = [run for result in evaluation.settings for run in result.runs if not run.refitted]
    few = sorted({run.n_tuning for run in runs if run.n_tuning is not None})
    if few:
        chosen = " or ".join(f"{n:,}" for n in few)
        notes.append(f"settings of probes with few labels were chosen on {chosen} further labelled training images")
    notes += _not_converged(evaluation)
    if predicted:
        told = evaluation.risk.warning if evaluation.risk is not None else ""
        notes += sorted({caveat for one in predicted.values() for caveat in one.caveats} - {told})
    print_notes(notes)


def _print_errors(evaluation: Evaluation, predicted: dict[str, LabelPrediction]) -> None:
    headers = ["labels", "number", "error", "interval", "seeds"] + ["law predicts", "interval"] * bool(predicted)
    rows = []
    for result in evaluation.settings:
        row = [result.setting.name, f"{result.runs[0].n_train:,}", *_points(result.error), str(len(result.runs))]
        if predicted:
            one = predicted.get(result.setting.name)
            row += [f"{one.error:.1f}", _ends(one.ci_low, one.ci_high)] if one else ["", ""]
        rows.append(row)
    if evaluation.neighbours is not None:
        run = evaluation.neighbours.runs[0]
        name = f"full, {run.report['k']} nearest neighbours"
        rows.append([name, f"{run.n_train:,}", *_points(evaluation.neighbours.error), "1"] + ["", ""] * bool(predicted))
    print_table(headers, rows, right=[1, 2, 3, 4, 5, 6][: len(headers) - 1])


def print_risk(report: RiskReport) -> None:
    """The parts of the full-shot error."""
    click.echo(f"\nWhere the full-shot error of {report.encoder} comes from, in percentage points\n")
    shown = {part: words for part, words in PARTS.items() if not _is_sum_of_shown(part, report)}
    rows = [
        [words, *_points(report.intervals[part]), *_refitted(part, report)]
        for part, words in (shown | {"full_shot_error": "full-shot error"}).items()
        if part in report.intervals
    ]
    headers = ["part", "points", "given these probes"] + ["with refits"] * (report.refit is not None)
    print_table(headers, rows, right=range(1, len(headers)))
    notes = [f"order: {report.order}; parts are signed and add up to the error"]
    given = (
        '95 % intervals; "given these probes": over images and seeds, and not over what other training images would '
        "have made of the probes"
    )
    if report.refit is None:
        notes.append(f"{given}; --refit 20 trains them again on resampled images")
    else:
        notes.append(f'{given}; "with refits": also over that, by {report.refit.n} resamples of the images')
    if report.is_unstable:
        notes.append(_unstable(report))
    if "approximation" not in report.intervals:
        notes.append("without a supervised twin (--supervised) approximation and usability are known as a sum only")
    print_notes([*notes, report.warning or report.assumption])


def copies_notes(copies: Copies | None) -> list[str]:
    """Sentences on images that are copies of others."""
    return [] if copies is None else copies.notes()


def _refitted(part: str, report: RiskReport) -> list[str]:
    return [] if report.refit is None else _points(report.refit.intervals[part])[1:]


def _unstable(report: RiskReport) -> str:
    from ..evaluation.risk import LEVEL

    errors = ", ".join(f"{run.error_percent:.1f}" for run in report.risks["R_AS"].runs)
    return (
        f"the probes disagree: trained without one or another part of the images, they are wrong on it in {errors} "
        f"percent, which differ by more than the images explain (p = {report.disagreement:.1g}; with stable probes, "
        f"{100 * LEVEL:.0f} data set in 100 is said to be so), so that intervals given these probes are too short"
    )


def _is_sum_of_shown(part: str, report: RiskReport) -> bool:
    return part == "approximation_plus_usability" and "approximation" in report.intervals


def predictions(evaluation: Evaluation) -> dict[str, LabelPrediction]:
    """What the scaling law expects in each few-shot setting, by name.

    Empty without the standard decomposition, and on other data than those that the law was fitted on.
    """
    report = evaluation.risk
    if report is None or report.order != "standard":
        return {}
    from ..analysis.label_prediction import is_law_known

    if not is_law_known(report):
        return {}
    few = [result for result in evaluation.settings if not result.setting.is_full]
    n_labels = {result.setting.name: result.runs[0].n_train for result in few}
    possible = {name: n for name, n in n_labels.items() if report.n_classes <= n <= report.n_train}
    if not possible:
        return {}
    from ..analysis.label_prediction import predict_labels

    return dict(zip(possible, predict_labels(report, possible.values(), seed=report.seed), strict=True))


def law_elsewhere(evaluation: Evaluation) -> dict[str, Any] | None:
    """What may be said of errors by labels on other data than ImageNet-1K, as JSON has it.

    Under "fitted" the exponent that fits the errors with few labels, or null with the reason under "not_fitted"; then
    under "extrapolated" the errors by ImageNet's law, and how far it has been off. None without the standard
    decomposition, and on ImageNet-1K, where "predicted" of each error says it.
    """
    report = evaluation.risk
    if report is None or report.order != "standard":
        return None
    from ..analysis.label_prediction import fit_exponent, is_law_known, missed_elsewhere, predict_labels

    if is_law_known(report):
        return None
    few = [result for result in evaluation.settings if not result.setting.is_full]
    try:
        return {"fitted": asdict(fit_exponent(report, few, seed=report.seed)), "not_fitted": None, "extrapolated": None}
    except ZooError as error:
        why = str(error)
    n_labels = {result.setting.name: result.runs[0].n_train for result in few} or _usual_labels(report)
    possible = {name: n for name, n in n_labels.items() if report.n_classes <= n < report.n_train}
    try:
        expected = predict_labels(report, possible.values(), seed=report.seed)
        missed = asdict(missed_elsewhere())
    except ZooError as error:  # such as a damaged file of results, which is no reason to print nothing
        return {"fitted": None, "not_fitted": f"{why} {error}", "extrapolated": None}
    errors = [
        {"setting": name, "n_train": one.n_labels, "error": one.error}
        for name, one in zip(possible, expected, strict=True)
    ]
    return {"fitted": None, "not_fitted": why, "extrapolated": {"errors": errors, "missed_elsewhere": missed}}


def _usual_labels(report: RiskReport) -> dict[str, int]:
    """Labels of the published settings with few of them."""
    from ..evaluation.measuring import PUBLISHED_SETTINGS, label_setting

    found = {}
    for setting in map(label_setting, PUBLISHED_SETTINGS):
        if setting.n_per_class is not None:
            found[setting.name] = setting.n_per_class * report.n_classes
        elif setting.percent is not None:
            found[setting.name] = max(report.n_classes, round(report.n_train * setting.percent / 100))
    return found


def _print_law(law: dict[str, Any] | None) -> None:
    if law is None:
        return
    if law["fitted"] is not None:
        one = law["fitted"]
        labels = ", ".join(f"{n:,}" for n in one["n_labels"])
        click.echo("\nHow the error falls with labels\n")
        click.echo(wrapped(
            f"exponent {one['exponent']:.2f} ({one['ci_low']:.2f} to {one['ci_high']:.2f}), fitted to "
            f"{one['n_settings']} errors with {labels} labels of these images, which it misses by "
            f"{one['mean_absolute_miss']:.1f} points in the mean and {one['largest_miss']:.1f} at most"
        ))  # fmt: skip
        return
    if law["extrapolated"] is None:
        print_notes([law["not_fitted"]])
        return
    missed = law["extrapolated"]["missed_elsewhere"]
    errors = ", ".join(f"{one['setting']} {one['error']:.1f}" for one in law["extrapolated"]["errors"])
    click.echo("\nImageNet's law, extrapolated\n")
    click.echo(wrapped(
        f"{errors or 'no number of labels between one a class and all'} percent; on {' and '.join(missed['datasets'])} "
        f"it was off by {missed['mean_absolute']:.1f} points in the mean and {missed['largest']:.1f} at most, over "
        f"{missed['n']} errors of {missed['n_encoders']} encoders"
    ))  # fmt: skip
    print_notes([law["not_fitted"]])


def document_of(evaluation: Evaluation) -> dict[str, Any]:
    """Everything as JSON has it."""
    train, test = evaluation.train, evaluation.test
    predicted = predictions(evaluation)
    return {
        "encoder": train.origin.encoder,
        "dataset": train.origin.dataset,
        "n_train": len(train.y),
        "n_test": len(test.y),
        "n_classes": len(train.classes),
        "dim": train.dim,
        "protocol": evaluation.protocols.errors.name,
        "probe": evaluation.protocols.reason,
        "errors": [_setting(result) | _predicted(predicted.get(result.setting.name)) for result in evaluation.settings],
        "left_out": evaluation.left_out,
        "neighbours": None if evaluation.neighbours is None else _setting(evaluation.neighbours),
        "decomposition": None if evaluation.risk is None else risk_document(evaluation.risk),
        "law": law_elsewhere(evaluation),
        "copies": None if evaluation.copies is None else evaluation.copies.as_dict(),
        "not_kept": list(evaluation.problems),
        "skipped": {"train": [one.image for one in train.skipped], "val": [one.image for one in test.skipped]},
        "features": {"train": _folder(train), "val": _folder(test)},
        "origin": {"train": asdict(train.origin), "val": asdict(test.origin)},
    }


def risk_document(report: RiskReport) -> dict[str, Any]:
    """The decomposition as JSON has it; a part that is not known is null."""
    return {
        "order": report.order,
        "parts": {
            part: _interval(report.intervals[part]) if part in report.intervals else None for part in PARTS
        },
        "full_shot_error": _interval(report.intervals["full_shot_error"]),
        "risks": {name: {"split": risk.split, **_interval(risk.error)} for name, risk in report.risks.items()},
        "n_train": report.n_train,
        "n_test": report.n_test,
        "assumption": report.assumption,
        "warning": report.warning or None,
        "intervals": "over images and seeds, given these probes",
        "probes_disagree": None if report.disagreement is None else report.is_unstable,
        "probes_p_value": report.disagreement,
        "refit": None if report.refit is None else {
            "n": report.refit.n,
            "parts": {
                part: _interval(report.refit.intervals[part]) if part in report.refit.intervals else None
                for part in PARTS
            },
            "full_shot_error": _interval(report.refit.intervals["full_shot_error"]),
            "replicates": {name: values.tolist() for name, values in report.refit.replicates.items()},
        },
    }  # fmt: skip


def _setting(result: SettingResult) -> dict[str, Any]:
    return {
        "setting": result.setting.name,
        "split": result.setting.split,
        "n_train": result.runs[0].n_train,
        **_interval(result.error),
        "runs": [
            {"seed": run.seed, "value": run.error_percent, "n_tuning": run.n_tuning, "report": _plain(run.report)}
            for run in result.runs
        ],
    }


def _predicted(one: LabelPrediction | None) -> dict[str, Any]:
    return {"predicted": None if one is None else asdict(one)}


def _interval(found: Interval) -> dict[str, Any]:
    return {"value": found.value, "ci_low": found.ci_low, "ci_high": found.ci_high}


def _points(found: Interval) -> list[str]:
    return [f"{found.value:.1f}", _ends(found.ci_low, found.ci_high)]


def _ends(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.1f} to {high:.1f}"


def _not_converged(evaluation: Evaluation) -> list[str]:
    runs = [run for result in evaluation.settings for run in result.runs]
    n = sum(run.report.get("converged") is False for run in runs)
    return [f"{n} of {len(runs)} probes did not converge; see their reports with --json"] if n else []


def _folder(features: Any) -> str | None:
    return None if features.folder is None else str(features.folder)


def _plain(value: Any) -> Any:
    """Reports of probes hold what JSON has, numbers that are not finite apart."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, Missing):
        return None
    if isinstance(value, float) and value - value != 0:
        return str(value)
    return value


_EVALUATE_EXAMPLES = """\b
Examples:
  zoo evaluate pocket_simclr_rn_shapes shapes
  zoo evaluate dino_vitS16 dino_vitS16@cls:11 ./birds --settings full,5-shot --device cuda
  zoo evaluate dino_rn50 /data/imagenet --dataset imagenet-1k --decompose --supervised sup_rn50 --workers 8
"""


@click.command("evaluate", epilog=f"{IMAGES_HELP}\n\n{_EVALUATE_EXAMPLES}")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=encoder_names)
@click.argument("images", metavar="IMAGES")
@image_options
@setting_options
@probe_options
@part_options
@click.option("--decompose", is_flag=True, help="Also where the full-shot error comes from (Algorithm 1).")
@click.option(
    "--supervised",
    metavar="NAME|PERCENT",
    shell_complete=encoder_names,
    help="Supervised twin, or its training error: splits approximation from usability.",
)
@click.option(
    "--out",
    "root",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where features and measured probes are kept.  [default: in the cache]",
)
@click.option("--source", default="own", show_default=True, help="Who measured, as the results say it.")
@click.option("--record/--no-record", default=True, show_default=True, help="Add the numbers to your results.")
@json_option
def evaluate_command(
    names: tuple[str, ...], images: str, decompose: bool, supervised: str | None, root: Path | None, source: str,
    record: bool, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Measure encoders on your labelled images.

    Features are computed once and kept, and so is each probe as soon as it is measured: the same command goes on where
    it was if it was stopped. Every number becomes a row of your results.
    """
    from ..datasets.imagefiles import notes_on
    from ..evaluation.evaluating import evaluations_folder

    if not decompose:
        refuse_idle(("supervised", *PART_NAMES), "no error is decomposed", remedy=", or add --decompose")
    refuse_idle_probes(options)
    refuse_idle_source(record=record)
    ids = list(dict.fromkeys(catalogue().id_of(name) for name in names))
    request = request_of(options, decompose=decompose)
    data = opened(images, options)
    if record:
        refuse_other_images(data)
    folder, how = root or evaluations_folder(), featurising(options)
    twin = _twin_to_featurise(supervised, data, folder, how)
    found: list[dict[str, Any]] = []
    failed: list[tuple[str, ZooError]] = []
    problems: list[str] = []
    for name in ids:
        try:
            evaluation = _evaluated(name, data, folder, how, request, twin)
        except ZooError as error:
            if len(ids) == 1:
                raise
            failed.append((name, error))
            click.echo(f"{name}: {error}", err=True)
            continue
        if not as_json:  # before anything can go wrong with the results
            print_evaluation(evaluation, on_images=notes_on([data.train, data.val]))
            sys.stdout.flush()
        recorded = None
        if record:
            recorded = recording(partial(_rows, evaluation, source))
            problems += [f"{name}: {recorded.problem}"] * bool(recorded.problem)
        if as_json:
            document = document_of(evaluation) | {"images": images_document(data)}
            problem = recorded.problem if recorded else ""
            done = recorded.document if recorded else None
            found.append(document | {"recorded": done, "not_recorded": problem or None})
        elif recorded:
            print_notes(recorded.notes)
            sys.stdout.flush()
    if as_json:
        print_json({"evaluations": found, "failed": [{"encoder": name, "error": str(error)} for name, error in failed]})
    if failed:
        problems.append(f"{len(failed)} of {len(ids)} encoders could not be measured; see above.")
    if problems:
        raise click.ClickException(" ".join(problems))


def _evaluated(name: str, data: ImageData, root: Path, how: Featurising, request: Request, twin: Any) -> Evaluation:
    from dataclasses import replace

    from ..evaluation.evaluating import evaluate, featurise_data, runs_folder
    from ..progress import ImageBar as Bar

    say(f"{name}: features of {data.name}")
    features = featurise_data(name, data, root=root, how=how, progress=lambda part: Bar())
    return evaluate(
        features["train"], features["val"], replace(request, supervised=twin), card=catalogue()[name],
        cache=runs_folder(root, name), tell=lambda text: say(f"{name}: {text}"),
    )  # fmt: skip


def _twin_to_featurise(supervised: str | None, data: ImageData, root: Path, how: Featurising) -> Any:
    """Features of the twin on the training images, its recorded training error, or None."""
    if supervised is None:
        return None
    try:
        return float(supervised)
    except ValueError:
        pass  # the name of an encoder
    from ..evaluation.evaluating import featurise_data
    from ..progress import ImageBar as Bar

    say(f"{supervised}: features of {data.name} (train)")
    return featurise_data(supervised, data, root=root, how=how, parts=("train",), progress=lambda part: Bar())["train"]


def _rows(evaluation: Evaluation, source: str) -> Mapping[Any, Mapping[str, Any]]:
    from ..evaluation.evaluating import rows_of_evaluation

    return rows_of_evaluation(evaluation, source=source)


_FEATURES_EXAMPLES = """\b
Examples:
  zoo features pocket_simclr_rn_shapes shapes
  zoo features dino_vitS16@cls+avg /data/imagenet --dataset imagenet-1k --out features --workers 8
"""


@click.command("features", epilog=f"{IMAGES_HELP}\n\n{_FEATURES_EXAMPLES}")
@click.argument("name", metavar="NAME", shell_complete=encoder_names)
@click.argument("images", metavar="IMAGES")
@image_options
@click.option(
    "--part",
    "parts",
    type=click.Choice(["train", "val", "both"]),
    default="both",
    show_default=True,
    help="Which images.",
)
@click.option(
    "--out",
    "root",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the folders of features go.  [default: in the cache]",
)
@json_option
def features_command(
    name: str, images: str, parts: str, root: Path | None, as_json: bool, **options: Any
) -> None:  # fmt: skip
    """Compute features of labelled images, once.

    The features of an encoder are written shard by shard; the same command goes on where it was if it was stopped, and
    does nothing if all is there. `zoo probe` and `zoo decompose` take the folders.
    """
    from ..datasets.imagefiles import notes_on
    from ..datasets.images import copies_of
    from ..evaluation.evaluating import PARTS, evaluations_folder, featurise_data
    from ..progress import ImageBar as Bar

    data = opened(images, options)
    wanted = PARTS if parts == "both" else (parts,)
    found = featurise_data(
        name, data, root=root or evaluations_folder(), how=featurising(options), parts=wanted,
        progress=lambda part: Bar(),
    )  # fmt: skip
    records = [
        {
            "part": part,
            "folder": str(features.folder),
            "n_images": len(features.y),
            "dim": features.dim,
            "skipped": [skipped.image for skipped in features.skipped],
        }
        for part, features in found.items()
    ]
    copies = copies_of(data.train.contents, data.train.labels, data.val.contents, data.val.labels)
    if as_json:
        print_json(
            {
                "encoder": found[wanted[0]].origin.encoder,
                "dataset": data.name,
                "features": records,
                "images": images_document(data),
                "copies": None if copies is None else copies.as_dict(),
            }
        )
        return
    rows = [[part, f"{len(one.y):,}", f"{one.dim:,}", str(one.folder)] for part, one in found.items()]
    print_table(["part", "images", "dimensions", "folder"], rows, right=[1, 2])
    left_out = [f"{part}: {skipped.image}" for part, features in found.items() for skipped in features.skipped]
    notes = notes_on([data.train if part == "train" else data.val for part in wanted]) + copies_notes(copies)
    if left_out:
        notes.append(f"{len(left_out):,} images could not be read and were left out: {', '.join(left_out[:10])}")
    print_notes(notes)


_PROBE_EXAMPLES = """\b
Example:
  zoo features dino_vitS16 ./birds --out features
  zoo probe features/dino_vitS16/features/birds-train-* features/dino_vitS16/features/birds-val-*
"""
_FOLDER = click.Path(path_type=Path)


@click.command("probe", epilog=_PROBE_EXAMPLES)
@click.argument("train", metavar="TRAIN", type=_FOLDER)
@click.argument("test", metavar="TEST", type=_FOLDER)
@setting_options
@probe_options
@click.option("--device", metavar="DEVICE", help="Where to compute.  [default: a GPU if there is one]")
@json_option
def probe_command(train: Path, test: Path, as_json: bool, **options: Any) -> None:
    """Train tuned linear probes on features.

    They learn from TRAIN in every label setting and are tested on TEST. Both are folders of features, as `zoo features`
    writes them. Nothing is added to your results; `zoo evaluate` does that.
    """
    from ..evaluation.evaluating import evaluate
    from ..features import load_features

    refuse_idle_probes(options)
    evaluation = evaluate(load_features(train), load_features(test), request_of(options, decompose=False), tell=say)
    if as_json:
        print_json(document_of(evaluation))
    else:
        print_evaluation(evaluation)


_DECOMPOSE_EXAMPLES = """\b
Example:
  zoo decompose features/dino_rn50/features/birds-train-* features/dino_rn50/features/birds-val-* --supervised 0.84
"""


@click.command("decompose", epilog=_DECOMPOSE_EXAMPLES)
@click.argument("train", metavar="TRAIN", type=_FOLDER)
@click.argument("test", metavar="TEST", type=_FOLDER)
@probe_options
@part_options
@click.option("--device", metavar="DEVICE", help="Where to compute.  [default: a GPU if there is one]")
@click.option(
    "--supervised",
    metavar="FOLDER|PERCENT",
    help="Features of the supervised twin on the training images, or its training error.",
)
@json_option
def decompose_command(train: Path, test: Path, supervised: str | None, as_json: bool, **options: Any) -> None:
    """Show where the full-shot error comes from.

    Algorithm 1 takes it apart into approximation, usability, probe and encoder generalization. TRAIN and TEST are
    folders of features, as `zoo features` writes them: of images that the encoder was pretrained on, and of images that
    are new to it.
    """
    from ..datasets.images import copies_of
    from ..evaluation.evaluating import decomposed, evaluations_folder, runs_folder
    from ..features import load_features

    refuse_idle_probes(options)
    of_train, of_test = load_features(train), load_features(test)
    request = request_of(options, decompose=True, supervised=_twin_features(supervised))
    name = of_train.origin.encoder
    card = catalogue()[name] if name in catalogue() else None  # noqa: SIM401 (an unknown name is no KeyError)
    kept = runs_folder(evaluations_folder(), name)
    report = decomposed(of_train, of_test, request, card=card, cache=kept, tell=say)
    copies = copies_of(of_train.contents, of_train.y, of_test.contents, of_test.y)
    if as_json:
        counts = None if copies is None else copies.as_dict()
        document = {"encoder": report.encoder, "dataset": report.dataset, **risk_document(report), "copies": counts}
        print_json(document)
    else:
        print_risk(report)
        print_notes(copies_notes(copies))


def _twin_features(given: str | None) -> Any:
    if given is None:
        return None
    try:
        return float(given)
    except ValueError:
        pass  # a folder
    from ..features import load_features

    return load_features(given)
