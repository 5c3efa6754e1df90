"""``zoo metric``: label-free metrics and transferability scores of an encoder on images, or of features in a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.answers import AnswerColumn, AnswerTable, make_table
from ..cards.catalogue import load_catalogue
from ..errors import QueryError, ZooError
from ..results.vocabulary import FEATURE_METRICS, FeatureMetric, find_feature_metric
from .engine_options import (
    EngineOptions,
    add_engine_options,
    build_engine,
    build_setting,
    open_recorded_run,
    rebuild_command,
    report_many,
    require_measured,
)
from .measure_options import (
    IMAGES_HELP,
    LABEL_KIND,
    SHOWN_OPTIONS,
    add_image_options,
    add_recording_options,
    describe_images,
    open_labelled_images,
    parse_settings,
    record_measured_rows,
    refuse_other_images,
    reject_unused_source,
    require_images_exist,
)
from .options import (
    FoldedCommand,
    complete_encoder_names,
    get_given_options,
    make_seed_option,
    metric_names,
    reject_unused_options,
)
from .output import add_json_option, log_progress, print_answer, print_json, print_notes, print_table
from .stored_answers import decode_rows, describe_image_sets, encode_rows, locate_encoder_answer

if TYPE_CHECKING:
    from ..datasets import ImageData
    from ..evaluation.label_free.measuring import MetricInputs, MetricResult
    from ..evaluation.many_encoders import MetricsSpec

BETTER = {True: "higher", False: "lower", None: "neither"}
Record = dict[str, Any]

_NONE = "No metric could be computed; see above."
_OF_A_FILE = frozenset({"beside", "seed", "changed", "record", "as_json"})
"""Options that mean something where features come from a file."""

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


@click.command("metric", cls=FoldedCommand, epilog=f"{IMAGES_HELP}\n\n{_EPILOG}")
@click.argument("metrics", metavar="METRIC", required=False, shell_complete=metric_names)
@click.argument(
    "words",
    metavar="NAME... IMAGES|FEATURES",
    nargs=-1,
    callback=require_images_exist,
    shell_complete=complete_encoder_names,
)
@click.option("--list", "listing", is_flag=True, help="Show all metrics, what they need and where they come from.")
@partial(add_image_options, without=[LABEL_KIND])  # its --target is another
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
    help="Features of validation images, in addition to FEATURES.",
)
@make_seed_option("Of images, views, clusters and draws.")
@click.option(
    "--set",
    "changed",
    metavar="METRIC.NAME=VALUE",
    multiple=True,
    help="An option of a metric, as cluster_learnability.k=5; named in the protocol. Repeatable.",
)
@add_engine_options
@add_recording_options
@add_json_option
def metric_command(metrics: str | None, words: tuple[str, ...], listing: bool, as_json: bool, **options: Any) -> None:
    """Measure how good features are, without labels or without training a probe.

    RankMe, LiDAR, the parts of CLID and their baselines; and scores of features with their labels: LogME, H-score, GBC,
    NLEEP, TransRate, and the leave-one-out accuracy of ridge regression and nearest neighbours.

    METRIC is a name, several by comma, or `all`. With IMAGES, an encoder is measured on them: features are computed
    once and kept, views are made by the augmentations of its training, and the numbers go to your results. Without,
    FEATURES is a folder of features, an .npy file of z, (n, dim) or (n_images, n_views, dim), or an .npz file of named
    arrays.

    With --on or --part, or at an address, workers measure an encoder each. They write the rows to NAME/rows below the
    place, and this process adds them to your results.
    """
    if listing:
        if metrics is not None:
            raise QueryError(f"Got --list and {metrics!r}, expected one of them; --list shows all metrics.")
        ordered = FEATURE_METRICS.values()
        if as_json:
            records = [
                {"name": one.name, "title": one.title, "kind": one.kind, "needs": one.needs, "unit": one.unit}
                | {"better": BETTER[one.higher_is_better], "least_images": one.least}
                | {"source": one.source, "meaning": one.meaning}
                for one in ordered
            ]
            print_json({"metrics": records})
            return
        rows = [
            [one.name, one.title, one.kind, one.needs, one.unit, BETTER[one.higher_is_better], one.source]
            for one in ordered
        ]
        heads = ["metric", "called", "kind", "needs", "unit", "better", "source"]
        print_table(make_table(heads, rows, spare=("source", "kind", "unit")))
        return
    if metrics is None or not words:
        raise QueryError("Got no METRIC and NAME or FEATURES; 'zoo metric --list' shows the metrics, --help examples.")
    wanted = (
        list(FEATURE_METRICS) if metrics == "all" else [find_feature_metric(one).name for one in metrics.split(",")]
    )
    chosen: dict[str, dict[str, Any]] = {}  # options by metric
    for key, value in parse_settings(options["changed"], form="METRIC.NAME=VALUE").items():
        name, point, option = key.partition(".")
        if not point or not option:
            raise QueryError(f"Got --set {key!r}, expected METRIC.NAME=VALUE, as in lidar.delta=1e-4.")
        chosen.setdefault(find_feature_metric(name).name, {})[option] = value
    *names, last = words
    if names:
        reject_unused_options(("beside",), "images have a part for validation, and --val is for files of features")
        reject_unused_source(record=options["record"])
        _of_encoders(wanted, names, last, chosen, options, as_json)
    else:
        reject_unused_options(get_given_options().keys() - _OF_A_FILE, "without IMAGES, a file of features is measured")
        _of_file(wanted, Path(last), chosen, options, as_json)


def _about(one: FeatureMetric) -> Record:
    return {"metric": one.name, "title": one.title, "unit": one.unit, "better": BETTER[one.higher_is_better]}


def _print(records: Sequence[Record], notes: Sequence[str], *, title: str = "", about: str = "") -> None:
    """A line per metric, notes, and why some are missing."""
    computed = [one for one in records if one["value"] is not None]
    kinds = {"n_duplicates": "exact", "n_near_duplicates": "near"}
    duplicates = [
        ", ".join(f"{one['details'][name]:,} {kind}" for name, kind in kinds.items() if one["details"].get(name))
        for one in computed
    ]
    columns = [
        AnswerColumn("metric", [one["title"] for one in computed]),
        AnswerColumn("value", [one["value"] for one in computed], form="{:,.4g}".format),
        AnswerColumn("unit", [one["unit"] for one in computed]),
        AnswerColumn("better", [one["better"] for one in computed]),
        AnswerColumn("images", [one["n_images"] for one in computed]),
        AnswerColumn("views", [one["n_views"] for one in computed], form=str),
        AnswerColumn("features s", [one["seconds_featurising"] for one in computed], form="{:.1f}".format),
        AnswerColumn("metric s", [one["seconds_computing"] for one in computed], form="{:.1f}".format),
        *[AnswerColumn("duplicates", duplicates)] * any(duplicates),
    ]
    reasons: dict[str, list[str]] = {}
    for one in records:
        if one["value"] is None:
            reasons.setdefault(one["reason"], []).append(one["title"])
    missing = [f"{', '.join(titles)}: {reason}" for reason, titles in reasons.items()]
    own = (f"{one['title']}: {note}" for one in computed for note in one["notes"])
    print_answer(AnswerTable(title=title, about=about, columns=columns), notes=[*missing, *own, *notes])


def _of_file(wanted: Sequence[str], path: Path, chosen: Record, options: Record, as_json: bool) -> None:
    """Computes and prints the metrics that the arrays of a file allow."""
    from ..errors import DataError
    from ..evaluation.label_free.catalogue import compute
    from ..evaluation.label_free.measuring import check_options, read_arrays, select_arguments
    from ..evaluation.label_free.rank import compute_spectrum

    check_options(wanted, chosen)
    arrays = read_arrays(path, beside=options["beside"])
    spectrum: Any = None  # one for all metrics that read it, so that the features are passed over once
    ids = arrays.get("ids")
    n_images = len(arrays["z"]) if ids is None else len(set(ids.tolist()))
    records: list[Record] = []
    for one in map(find_feature_metric, wanted):
        begun_s = time.perf_counter()
        try:
            arguments = select_arguments(one, arrays)
            if one.streams:
                spectrum = compute_spectrum(arguments["z"]) if spectrum is None else spectrum
                arguments = {"z": spectrum}
            seeded = {"seed": options["seed"]} if one.seeded else {}
            value = compute(one.name, **arguments, **(seeded | chosen.get(one.name, {})))
        except (DataError, QueryError) as error:
            if len(wanted) == 1:
                raise
            records.append(_about(one) | {"value": None, "reason": str(error)})
            continue
        views = value.details.get("n_views")
        records.append(
            _about(one)
            | {
                "value": value.value,
                "reason": "",
                "n_images": n_images,
                "n_views": views[0] if isinstance(views, tuple) and views[0] == views[1] else None,
                "seconds_featurising": 0.0,
                "seconds_computing": time.perf_counter() - begun_s,
                "details": dict(value.details),
                "notes": list(value.notes),
            }
        )
    if as_json:
        print_json({"features": str(path), "metrics": records})
    else:
        _print(records, [])
    if all(one["value"] is None for one in records):
        raise click.ClickException(_NONE)


def _of_encoders(
    wanted: Sequence[str], names: Sequence[str], images: str, chosen: Record, options: Record, as_json: bool
) -> None:
    engine = build_engine(options)
    reject_unused_options(("stored",), "what metrics read of features is kept in float32")
    ids = list(dict.fromkeys(load_catalogue().id_of(name) for name in names))
    data: ImageData = open_labelled_images(images, options)
    if options["record"]:
        refuse_other_images(data)
    target = None
    if options["target"] is not None:
        target = partial(_target, options["target"], {name: options[name] for name in SHOWN_OPTIONS})
    asked: Record = {"verb": "metric", "metrics": wanted, "chosen": chosen, "options": options}
    asked["target"] = None if target is None else describe_image_sets(target())
    places = (
        {}
        if engine.is_used or engine.folder is None
        else {name: locate_encoder_answer(engine.folder, name, data, asked) for name in ids}
    )
    answers = {name: answer for name, place in places.items() if (answer := place.find()) is not None}
    of_images, notes = describe_images(data, has_intervals=False)
    found: list[Record] = []
    problems: list[str] = []

    def add(document: Record, rows: Callable[[], Mapping[Any, Mapping[str, Any]]]) -> None:
        all_notes = [*document["notes"], *notes]
        if not as_json:  # before anything can go wrong with the results
            _print(document["metrics"], all_notes, title=document["encoder"], about=f" on {document['dataset']}")
        recorded = record_measured_rows(rows) if options["record"] else None
        if recorded and not as_json:
            print_notes(recorded.notes)
        problem = recorded.problem if recorded else ""
        problems.extend([problem] * bool(problem))
        added = {"recorded": recorded.document if recorded else None, "not_recorded": problem or None}
        found.append(document | {"notes": all_notes} | of_images | added)

    failed: list[Record] = []
    measuring = None
    if len(answers) < len(ids):
        measuring = _build_spec(wanted, images, data, target, chosen, options, engine)
    if engine.is_used:
        from ..evaluation.many_encoders import measure_many_metrics
        from ..features.running import build_run_spec
        from ..progress import ProgressBar

        assert measuring is not None
        resources = engine.resources(options["device"])
        command = rebuild_command(images)
        run = build_run_spec(
            measuring.setting, ids, data, (), resources=resources, verb="metric", command=command, more=measuring.asked
        )
        with open_recorded_run(engine, run, options["device"]) as (workers, journal):
            done = measure_many_metrics(
                measuring, ids, data, workers, journal, ProgressBar("encoders"), resources=resources
            )
        for one in done.measured:
            add(one.document, lambda rows=one.rows: rows)  # type: ignore[misc]
        report_many(done, found, engine, as_json=as_json, key="encoders")
        n_failed = len(done.failed)
    else:
        for name in ids:
            if name in answers:
                log_progress(f"{name}: as it was measured before")
                add(answers[name]["document"], partial(decode_rows, answers[name]["rows"]))
                continue
            assert measuring is not None
            try:
                log_progress(f"{name}: features of {data.name}")
                document, rows = _measure(measuring, name)
            except ZooError as error:
                if len(ids) == 1:
                    raise
                failed.append({"encoder": name, "error": str(error)})
                click.echo(f"{name}: {error}", err=True)
                continue
            add(document, rows)
            if all(one["value"] is not None for one in document["metrics"]):  # else what is missing may come
                places[name].store({"document": document, "rows": encode_rows(rows())})
        if as_json:
            print_json(found[0] if len(ids) == 1 else {"encoders": found, "failed": failed})
        n_failed = len(failed)
    require_measured(problems, n_failed, len(ids))
    if found and all(one["value"] is None for document in found for one in document["metrics"]):
        raise click.ClickException(_NONE)


def _build_spec(
    wanted: Sequence[str],
    images: str,
    data: ImageData,
    target: Callable[[], ImageData] | None,
    chosen: Record,
    options: Record,
    engine: EngineOptions,
) -> MetricsSpec:
    """What is to be measured of every encoder."""
    from ..evaluation.label_free.measuring import check_options
    from ..evaluation.many_encoders import MetricsSpec

    check_options(wanted, chosen)
    setting = build_setting(images, data, options, engine)
    if target is not None:
        setting = replace(setting, fingerprints={**setting.fingerprints, "target": target().train.fingerprint})
    taken = {name: options[name] for name in ("n_images", "n", "q", "seed")}
    return MetricsSpec(
        setting=setting,
        target=target,
        metrics=tuple(wanted),
        options=chosen,
        taken=taken | {"part": options["split"], "recipe": options["augmentations"]},
        source=options["source"],
        describe=build_metrics_document,
    )


def _measure(measuring: MetricsSpec, name: str) -> tuple[Record, Callable[[], Mapping[Any, Mapping[str, Any]]]]:
    """The metrics of an encoder as JSON, and what makes their rows."""
    from ..evaluation.label_free.measuring import make_metric_rows
    from ..evaluation.many_encoders import compute_encoder_metrics
    from ..progress import ProgressBar

    inputs, measured = compute_encoder_metrics(
        measuring, name, progress=lambda label: ProgressBar("images"), tell=log_progress
    )
    rows = partial(make_metric_rows, measured, inputs, source=measuring.source)
    return build_metrics_document(inputs, measured), rows


def build_metrics_document(inputs: MetricInputs, found: Sequence[MetricResult]) -> Record:
    """Metrics of an encoder as JSON."""
    records = [
        _about(one.metric)
        | {"value": one.value, "reason": one.reason, "split": one.split, "seed": one.seed}
        | {"n_images": one.n_images, "n_views": one.n_views}
        | {"seconds_featurising": one.seconds_featurising, "seconds_computing": one.seconds_computing}
        | {"details": dict(one.details), "notes": list(one.notes)}
        for one in found
    ]
    return {"encoder": inputs.card.id, "dataset": inputs.dataset, "notes": list(inputs.notes), "metrics": records}


def _target(images: str, shown: dict[str, Any]) -> ImageData:
    """Opens the data set to transfer to, with the same scale if its images have more than 8 bits per channel."""
    from ..datasets import open_images

    if shown["scale"] is not None:
        with suppress(QueryError):  # they have not
            return open_images(images, **shown)
    return open_images(images, **shown | {"scale": None})
