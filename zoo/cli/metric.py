"""``zoo metric``: label-free metrics and transferability scores of an encoder on images, or of features in a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.catalogue import catalogue
from ..errors import QueryError, ZooError
from ..results.vocabulary import FEATURE_METRICS, FeatureMetric, feature_metric
from .engine_options import Engine, command_again, engine_of, engine_options, recorded_run, setting_of, tell_many
from .measure_options import (
    IMAGES_HELP,
    copies_between,
    copies_document,
    copies_notes,
    groups_between,
    groups_document,
    groups_notes,
    image_options,
    images_document,
    opened,
    recording,
    recording_options,
    refuse_idle_source,
    refuse_other_images,
    settings_of,
)
from .options import encoder_names, given_options, metric_names, refuse_idle
from .output import json_option, print_json, print_notes, print_table, say

if TYPE_CHECKING:
    from ..datasets import ImageData
    from ..evaluation.label_free.measuring import Inputs, Measured
    from ..evaluation.many import MeasuringMetrics

BETTER = {True: "higher", False: "lower", None: "neither"}
Record = dict[str, Any]


def print_metrics(records: Sequence[Record], notes: Sequence[str], *, condensed: bool = False) -> None:
    """Prints one line a metric, notes, and why some are missing.

    With ``condensed``, metrics that need arrays which the file lacks share one line. A column of duplicates appears if
    there are any.
    """
    headers = ["metric", "value", "unit", "better", "images", "views", "features s", "metric s"]
    computed = [one for one in records if one["value"] is not None]
    rows = [
        [
            one["title"],
            f"{one['value']:,.4g}",
            one["unit"],
            one["better"],
            f"{one['n_images']:,}",
            "" if one["n_views"] is None else str(one["n_views"]),
            f"{one['seconds_featurising']:.1f}",
            f"{one['seconds_computing']:.1f}",
        ]
        for one in computed
    ]
    duplicates = [_duplicates(one["details"]) for one in computed]
    if any(duplicates):
        headers.append("duplicates")
        rows = [[*row, counts] for row, counts in zip(rows, duplicates, strict=True)]
    if rows:
        print_table(headers, rows, right=[1, 4, 5, 6, 7])
    reasons: dict[str, list[str]] = {}
    for one in records:
        if one["value"] is None:
            lacks = condensed and one.get("lacks")
            reason = "need views, labels or other images than the file holds" if lacks else one["reason"]
            reasons.setdefault(reason, []).append(one["title"])
    of_values = [f"{one['title']}: {note}" for one in computed for note in one["notes"]]
    of_missing = [f"{', '.join(titles)}: {reason}" for reason, titles in reasons.items()]
    print_notes([*notes, *of_values, *of_missing])


def _duplicates(details: Record) -> str:
    """Numbers of rows that equal another and that nearly do, if the metric counts them."""
    counts = {"exact": details.get("n_duplicates"), "near": details.get("n_near_duplicates")}
    return ", ".join(f"{n:,} {kind}" for kind, n in counts.items() if n)


def refuse_nothing(records: Sequence[Record]) -> None:
    """Ends with exit code 1 if no metric could be computed."""
    if all(one["value"] is None for one in records):
        raise click.ClickException("No metric could be computed; see above.")


def options_of(given: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Options by metric, from METRIC.NAME=VALUE."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in settings_of(given, form="METRIC.NAME=VALUE").items():
        name, point, option = key.partition(".")
        if not point or not option:
            raise QueryError(f"Got --set {key!r}, expected METRIC.NAME=VALUE, as in lidar.delta=1e-4.")
        found.setdefault(feature_metric(name).name, {})[option] = value
    return found


def metrics_of_file(wanted: Sequence[str], path: Path, options: Record, as_json: bool, *, everything: bool) -> None:
    """Computes and prints the metrics that the arrays of a file allow."""
    from ..errors import DataError
    from ..evaluation.label_free.catalogue import compute
    from ..evaluation.label_free.measuring import arguments_for, arrays_of, check_options
    from ..evaluation.label_free.rank import spectrum_of

    chosen = options_of(options["changed"])
    check_options(wanted, chosen)
    arrays = arrays_of(path, beside=options["beside"])
    spectra: Record = {}

    def spectrum_of_z(z: Any) -> Any:
        """One for all metrics that read it, so that the features are passed over once."""
        if "z" not in spectra:
            spectra["z"] = spectrum_of(z)
        return spectra["z"]

    records: list[Record] = []
    for one in map(feature_metric, wanted):
        begun_s = time.perf_counter()
        arguments: Record = {}
        try:
            arguments = arguments_for(one, arrays)
            if one.streams:
                arguments = {"z": spectrum_of_z(arguments["z"])}
            seeded = {"seed": options["seed"]} if one.seeded else {}
            value = compute(one.name, **arguments, **(seeded | chosen.get(one.name, {})))
        except (DataError, QueryError) as error:
            if len(wanted) == 1:
                raise
            records.append(_about(one) | {"value": None, "reason": str(error), "lacks": not arguments})
            continue
        records.append(
            _about(one)
            | {
                "value": value.value,
                "reason": "",
                "n_images": _n_images(arrays),
                "n_views": _n_views(value.details),
                "seconds_featurising": 0.0,
                "seconds_computing": time.perf_counter() - begun_s,
                "details": dict(value.details),
                "notes": list(value.notes),
            }
        )
    if as_json:
        print_json({"features": str(path), "metrics": records})
    else:
        print_metrics(records, [], condensed=everything)
    refuse_nothing(records)


def _n_images(arrays: Record) -> int:
    ids = arrays.get("ids")
    return len(arrays["z"]) if ids is None else len(set(ids.tolist()))


def _n_views(details: Mapping[str, Any]) -> int | None:
    """Number of views, if it is the same for all images."""
    found = details.get("n_views")
    return found[0] if isinstance(found, tuple) and found[0] == found[1] else None


_OF_A_FILE = frozenset({"beside", "seed", "changed", "record", "as_json"})
"""Options that mean something where features come from a file."""

_WITH_VALIDATION = frozenset({"rotations", "labelled", "pixels"})
_ONLY_OF = (  # options, the needs that they have an effect on, and what else metrics are measured on
    (("q", "augmentations"), {"views"}, "no views"),
    (("n",), {"views", "rotations"}, "no views and no turned images"),
    (("split",), {"features", "labels", "views"}, "both parts"),
    (("n_images",), {"features", "labels", "labelled", "source and target", "pixels"}, "views or turned images alone"),
    (("target",), {"source and target"}, "no data set to transfer to"),
)

_EPILOG = """\b
Examples:
  zoo metric --list
  zoo metric all pocket_simclr_rn_shapes shapes
  zoo metric lidar,rankme dino_vitS16 ./birds --views-of 1000 --views 50 --device cuda
  zoo metric rankme features/dino_vitS16/features/birds-train-*
  zoo metric logme,leave_one_out_ridge dino_vitS16 ./birds --n-images 2000
  zoo metric h_score labelled.npz    # with z, y and, if images belong together, groups
  zoo metric lidar views.npy --set lidar.delta=1e-4
  zoo metric rankme,lidar dino_vitS16 mae_vitB16 ./birds --to /shared/features --on local:4
"""


@click.command("metric", epilog=f"{IMAGES_HELP}\n\n{_EPILOG}")
@click.argument("metrics", metavar="METRIC", required=False, shell_complete=metric_names)
@click.argument("words", metavar="NAME... IMAGES|FEATURES", nargs=-1, shell_complete=encoder_names)
@click.option("--list", "listing", is_flag=True, help="Show all metrics, what they need and where they come from.")
@image_options
@click.option(
    "--split",
    type=click.Choice(["train", "val"]),
    default="train",
    show_default=True,
    help="Whose images metrics of one set of images take.",
)
@click.option(
    "--n-images", type=click.IntRange(1), default=25_600, show_default=True, help="Images of each part, at most."
)
@click.option(
    "--views-of",
    "n",
    metavar="N",
    type=click.IntRange(2),
    help="Images that views are made of.  [default: 1000, or 5000 above 1024 dimensions]",
)
@click.option(
    "--views",
    "q",
    metavar="Q",
    type=click.IntRange(2),
    help="Views of each of them.  [default: 50, or 10 above 1024 dimensions]",
)
@click.option(
    "--augmentations",
    metavar="LIST",
    help="Of the views, by comma, as crop,flip,color.  [default: those of the encoder's training]",
)
@click.option("--target", metavar="IMAGES", help="Data set to transfer to, for the entropy of its labels.")
@click.option(
    "--val",
    "beside",
    metavar="FEATURES",
    type=click.Path(path_type=Path),
    help="Features of validation images, beside FEATURES.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    help="Of images, views, clusters and draws.",
)
@click.option(
    "--set",
    "changed",
    metavar="METRIC.NAME=VALUE",
    multiple=True,
    help="An option of a metric, as cluster_learnability.k=5; named in the protocol. Repeatable.",
)
@engine_options
@recording_options
@json_option
def metric_command(metrics: str | None, words: tuple[str, ...], listing: bool, as_json: bool, **options: Any) -> None:
    """Measure how good features are, without labels or without training a probe.

    RankMe, LiDAR, what CLID is made of, and what they are compared with; and scores of features with their labels:
    LogME, H-score, GBC, NLEEP, TransRate, and the accuracy of ridge regression and nearest neighbours, leaving one out.

    METRIC is a name, several by comma, or `all`. With IMAGES, an encoder is measured on them: what the metrics need is
    featurised once and kept, views are made by the augmentations of its training, and the numbers go to your results.
    Without, FEATURES is a folder of features, an .npy file of z, (n, dim) or (n_images, n_views, dim), or an .npz file
    of named arrays.

    With --on or --part, or at an address, an encoder is one piece of work, for its views are made by its own
    augmentations, so that encoders have no decoding to share. A worker writes the rows to NAME/rows below the place,
    and this process adds them to your results.
    """
    if listing:
        refuse_idle(given_options().keys() - {"listing", "as_json"}, "--list shows all metrics")
        if metrics is not None:
            raise QueryError(f"Got --list and {metrics!r}, expected one of them; --list shows all metrics.")
        _list(as_json)
        return
    if metrics is None or not words:
        raise QueryError("Got no METRIC and NAME or FEATURES; 'zoo metric --list' shows the metrics, --help examples.")
    everything = metrics == "all"
    wanted = list(FEATURE_METRICS) if everything else [feature_metric(one).name for one in metrics.split(",")]
    *names, last = words
    _refuse_idle_options(names[0] if names else last, of_file=not names)
    _refuse_idle_beside(wanted, metrics, options, of_file=not names)
    if names:
        _of_encoders(wanted, names, last, options, as_json)
    else:
        metrics_of_file(wanted, Path(last), options, as_json, everything=everything)


def _refuse_idle_options(name: str, *, of_file: bool) -> None:
    """Refuses options that have no effect on a file, or on an encoder."""
    given = {option: text.partition(" ")[0] for option, text in given_options().items()}
    idle = [text for option, text in given.items() if (option not in _OF_A_FILE if of_file else option == "beside")]
    if idle and of_file:
        raise QueryError(
            f"{', '.join(idle)} say{'s' * (len(idle) == 1)} how an encoder is measured, but without IMAGES {name!r} is "
            "taken for a file of features: leave that out, or name images too."
        )
    if idle:
        raise QueryError(
            f"--val names features of validation images beside a file, but {name!r} is measured on images, which have "
            "a part for validation: leave it out."
        )


def _refuse_idle_beside(wanted: Sequence[str], metrics: str, options: Record, *, of_file: bool) -> None:
    """Refuses options that have no effect on the requested metrics."""
    chosen = [feature_metric(one) for one in wanted]
    needs = {one.needs for one in chosen}
    if of_file:
        if options["record"]:
            refuse_idle(("record",), "numbers of a file are not recorded, as its origin is unknown")
        if not any(one.seeded for one in chosen):
            refuse_idle(("seed",), f"{metrics} draws nothing")
        if not needs & _WITH_VALIDATION:
            refuse_idle(("beside",), f"{metrics} takes no validation images")
        return
    refuse_idle_source(record=options["record"])
    for names, effective, what in _ONLY_OF:
        if not needs & effective:
            refuse_idle(names, f"{metrics} is measured on {what}")


def _list(as_json: bool) -> None:
    ordered = FEATURE_METRICS.values()
    if as_json:
        print_json({"metrics": [_described(one) for one in ordered]})
        return
    rows = [
        [one.name, one.title, one.kind, one.needs, one.unit, BETTER[one.higher_is_better], one.source]
        for one in ordered
    ]
    print_table(["metric", "called", "kind", "needs", "unit", "better", "source"], rows)


def _described(one: FeatureMetric) -> Record:
    needed = {"needs": one.needs, "unit": one.unit, "better": BETTER[one.higher_is_better], "least_images": one.least}
    return {
        "name": one.name,
        "title": one.title,
        "kind": one.kind,
        **needed,
        "source": one.source,
        "meaning": one.meaning,
    }


def _about(one: FeatureMetric) -> Record:
    return {"metric": one.name, "title": one.title, "unit": one.unit, "better": BETTER[one.higher_is_better]}


def _of_encoders(wanted: Sequence[str], names: Sequence[str], images: str, options: Record, as_json: bool) -> None:
    from ..evaluation.label_free.measuring import check_options
    from ..evaluation.many import MeasuringMetrics, metrics_of
    from ..progress import Bar

    chosen = options_of(options["changed"])
    check_options(wanted, chosen)
    engine = engine_of(options)
    refuse_idle(("stored",), "what metrics read of features is kept in float32")
    ids = list(dict.fromkeys(catalogue().id_of(name) for name in names))
    data: ImageData = opened(images, options)
    if options["record"]:
        refuse_other_images(data)
    target = (
        None
        if options["target"] is None
        else partial(_target, options["target"], options["scale"], options["background"])
    )
    taken = {name: options[name] for name in ("n_images", "n", "q", "seed")}
    setting = setting_of(images, data, options, engine)
    fingerprints = dict(setting.fingerprints) | ({} if target is None else {"target": target().train.fingerprint})
    measuring = MeasuringMetrics(
        images=setting.source,
        target=target,
        fingerprints=fingerprints,
        place=setting.place,
        metrics=tuple(wanted),
        options=chosen,
        taken=taken | {"part": options["split"], "recipe": options["augmentations"]},
        how=setting.how,
        source=options["source"],
        describe=metrics_document,
    )
    if engine.is_used:
        _by_workers(measuring, ids, data, images, engine, options, as_json=as_json)
        return
    found: list[Record] = []
    failed: list[tuple[str, ZooError]] = []
    problems: list[str] = []
    for name in ids:
        try:
            say(f"{name}: features of {data.name}")
            inputs, measured = metrics_of(
                measuring, name, progress=lambda label: Bar("images"), tell=partial(_say_of, name)
            )
        except ZooError as error:
            if len(ids) == 1:
                raise
            failed.append((name, error))
            click.echo(f"{name}: {error}", err=True)
            continue
        document = metrics_document(inputs, measured)
        make_rows = partial(_rows, measured, inputs, source=options["source"])
        found.append(_told(document, data, make_rows if options["record"] else None, problems, as_json=as_json))
    failures = [{"encoder": name, "error": str(error)} for name, error in failed]
    if as_json:
        print_json(found[0] if len(ids) == 1 else {"encoders": found, "failed": failures})
    if failed:
        problems.append(f"{len(failed)} of {len(ids)} encoders could not be measured; see above.")
    if problems:
        raise click.ClickException(" ".join(problems))
    refuse_nothing([record for document in found for record in document["metrics"]])


def _say_of(name: str, text: str) -> None:
    say(f"{name}: {text}")


def _by_workers(
    measuring: MeasuringMetrics,
    ids: list[str],
    data: ImageData,
    images: str,
    engine: Engine,
    options: Record,
    *,
    as_json: bool,
) -> None:
    """Measures encoders on workers, with a record."""
    from ..evaluation.many import metrics_asked, metrics_many
    from ..progress import Bar

    resources = engine.resources(options["device"])
    asked = metrics_asked(measuring, ids, data, resources=resources, command=command_again(images))
    with recorded_run(engine, asked, options["device"]) as (workers, journal):
        done = metrics_many(measuring, ids, workers, journal, Bar("encoders"), resources=resources)
    problems: list[str] = []
    found = []
    for one in done.measured:
        make_rows = (lambda rows=one.rows: rows) if options["record"] else None
        found.append(_told(one.document, data, make_rows, problems, as_json=as_json))
    tell_many(done, found, engine, as_json=as_json, key="encoders")
    if done.failed:
        problems.append(f"{len(done.failed)} of {len(ids)} encoders could not be measured; see above.")
    if problems:
        raise click.ClickException(" ".join(problems))
    if found:
        refuse_nothing([record for document in found for record in document["metrics"]])


def metrics_document(inputs: Inputs, found: Sequence[Measured]) -> Record:
    """Metrics of an encoder as JSON."""
    records = [_record(one) for one in found]
    return {"encoder": inputs.card.id, "dataset": inputs.dataset, "notes": list(inputs.notes), "metrics": records}


def _told(
    document: Record,
    data: ImageData,
    make_rows: Callable[[], Mapping[Any, Mapping[str, Any]]] | None,
    problems: list[str],
    *,
    as_json: bool,
) -> Record:
    """Prints and records what was measured of an encoder; returns its document with what became of that."""
    copies, groups = copies_between(data), groups_between(data)
    notes = [*document["notes"], *copies_notes(copies), *groups_notes(groups, has_intervals=False)]
    if not as_json:  # before anything can go wrong with the results
        click.echo(click.style(f"\n{document['encoder']}", bold=True) + f" on {document['dataset']}\n")
        print_metrics(document["metrics"], notes)
    recorded = None if make_rows is None else recording(make_rows)
    if recorded and not as_json:
        print_notes(recorded.notes)
    problem = recorded.problem if recorded else ""
    problems += [problem] * bool(problem)
    return {
        "encoder": document["encoder"],
        "dataset": document["dataset"],
        "notes": notes,
        "images": images_document(data),
        "copies": copies_document(copies),
        "groups": groups_document(groups),
        "metrics": document["metrics"],
        "recorded": recorded.document if recorded else None,
        "not_recorded": problem or None,
    }


def _target(images: str, scale: tuple[float, float] | None, background: str) -> ImageData:
    """Opens the data set to transfer to, with the same scale if its images have more than 8 bits a channel."""
    from ..datasets import open_images

    if scale is not None:
        with suppress(QueryError):  # they have not
            return open_images(images, scale=scale, background=background)
    return open_images(images, background=background)


def _record(one: Measured) -> Record:
    value = {"value": one.value, "reason": one.reason, "split": one.split, "seed": one.seed}
    counts = {"n_images": one.n_images, "n_views": one.n_views}
    seconds = {"seconds_featurising": one.seconds_featurising, "seconds_computing": one.seconds_computing}
    return _about(one.metric) | value | counts | seconds | {"details": dict(one.details), "notes": list(one.notes)}


def _rows(found: Sequence[Measured], inputs: Inputs, *, source: str) -> Mapping[Any, Mapping[str, Any]]:
    from ..evaluation.label_free.measuring import rows_of_measured

    return rows_of_measured(found, inputs, source=source)
