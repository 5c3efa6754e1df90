"""``zoo metric``: label-free metrics of an encoder on images, or of features in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import QueryError
from ..labelfree import LABEL_FREE_METRICS, LabelFreeMetric, metric
from .image_options import IMAGES_HELP, featurising, image_options, images_document, opened, refuse_other_images
from .measured import copies_notes, recording
from .metric_files import metrics_of_file
from .metric_table import BETTER, Record, options_of, print_metrics, refuse_nothing
from .options import encoder_names, given_options, metric_names, refuse_idle
from .output import json_option, print_json, print_notes, print_table
from .probe_options import refuse_idle_source, say

if TYPE_CHECKING:
    from ..datasets import ImageData
    from ..evaluation.label_free.inputs import Inputs
    from ..evaluation.label_free.measuring import Measured

_OF_A_FILE = frozenset({"beside", "seed", "changed", "record", "as_json"})
"""Options that mean something where features come from a file."""

_WITH_VALIDATION = frozenset({"rotations", "labelled", "pixels"})
_ONLY_OF = (  # options, the needs that they have an effect on, and what else metrics are measured on
    (("q", "augmentations"), {"views"}, "no views"),
    (("n",), {"views", "rotations"}, "no views and no turned images"),
    (("part",), {"features", "views"}, "both parts"),
    (("n_images",), {"features", "labelled", "source and target", "pixels"}, "views or turned images alone"),
    (("target",), {"source and target"}, "no data set to transfer to"),
)

_EPILOG = """\b
Examples:
  zoo metric --list
  zoo metric all pocket_simclr_rn_shapes shapes
  zoo metric lidar,rankme dino_vitS16 ./birds --views-of 1000 --views 50 --device cuda
  zoo metric rankme features/dino_vitS16/features/birds-train-*
  zoo metric lidar views.npy --set lidar.delta=1e-4
"""


@click.command("metric", epilog=f"{IMAGES_HELP}\n\n{_EPILOG}")
@click.argument("metrics", metavar="METRIC", required=False, shell_complete=metric_names)
@click.argument("name", metavar="NAME|FEATURES", required=False, shell_complete=encoder_names)
@click.argument("images", metavar="[IMAGES]", required=False)
@click.option("--list", "listing", is_flag=True, help="Show all metrics, what they need and where they come from.")
@image_options
@click.option(
    "--part",
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
@click.option(
    "--out",
    "root",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where features are kept.  [default: in the cache]",
)
@click.option("--source", default="own", show_default=True, help="Who measured, as the results say it.")
@click.option("--record/--no-record", default=True, show_default=True, help="Add the numbers to your results.")
@json_option
def command(
    metrics: str | None, name: str | None, images: str | None, listing: bool, as_json: bool, **options: Any
) -> None:  # fmt: skip
    """Tell how good features are, without labels.

    RankMe, LiDAR, what CLID is made of, and what they are compared with.

    METRIC is a name, several by comma, or `all`. With IMAGES, an encoder is measured on them: what the metrics need is
    featurised once and kept, views are made by the augmentations of its training, and the numbers go to your results.
    Without, FEATURES is a folder of features, an .npy file of z, (n, dim) or (n_images, n_views, dim), or an .npz file
    of named arrays.
    """
    if listing:
        refuse_idle(given_options().keys() - {"listing", "as_json"}, "--list shows all metrics")
        if metrics is not None:
            raise QueryError(f"Got --list and {metrics!r}, expected one of them; --list shows all metrics.")
        _list(as_json)
        return
    if metrics is None or name is None:
        raise QueryError("Got no METRIC and NAME or FEATURES; 'zoo metric --list' shows the metrics, --help examples.")
    everything = metrics == "all"
    wanted = list(LABEL_FREE_METRICS) if everything else [metric(one).name for one in metrics.split(",")]
    _refuse_idle_options(name, of_file=images is None)
    _refuse_idle_beside(wanted, metrics, options, of_file=images is None)
    if images is None:
        metrics_of_file(wanted, Path(name), options, as_json, everything=everything)
    else:
        _of_encoder(wanted, name, images, options, as_json)


def _refuse_idle_options(name: str, *, of_file: bool) -> None:
    """Options that were given and would do nothing."""
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
    """Options that do nothing to the metrics that are asked for."""
    chosen = [metric(one) for one in wanted]
    needs = {one.needs for one in chosen}
    if of_file:
        if options["record"]:
            refuse_idle(("record",), "numbers of a file are not recorded, as nothing tells what it is of")
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
    ordered = LABEL_FREE_METRICS.values()
    if as_json:
        print_json({"metrics": [_described(one) for one in ordered]})
        return
    rows = [[one.name, one.title, one.needs, one.unit, BETTER[one.higher_is_better], one.source] for one in ordered]
    print_table(["metric", "called", "needs", "unit", "better", "source"], rows)


def _described(one: LabelFreeMetric) -> Record:
    return {"name": one.name, "title": one.title, "needs": one.needs, "unit": one.unit,
            "better": BETTER[one.higher_is_better], "least_images": one.least, "source": one.source,
            "meaning": one.meaning}  # fmt: skip


def _of_encoder(wanted: Sequence[str], name: str, images: str, options: Record, as_json: bool) -> None:
    from ..datasets.contents import copies_of
    from ..evaluation.label_free.inputs import inputs_of
    from ..evaluation.label_free.measuring import check_options, measure
    from ..features import Bar

    chosen = options_of(options["changed"])
    check_options(wanted, chosen)
    data: ImageData = opened(images, options)
    if options["record"]:
        refuse_other_images(data)
    target = None if options["target"] is None else _target(options["target"], options["scale"])
    needs = {metric(one).needs for one in wanted}
    say(f"{name}: features of {data.name}")
    inputs = inputs_of(
        name, data, needs, target=target, part=options["part"], n_images=options["n_images"], n=options["n"],
        q=options["q"], seed=options["seed"], recipe=options["augmentations"], root=options["root"],
        how=featurising(options), progress=lambda label: Bar(),
    )  # fmt: skip
    found = []
    for one in measure(wanted, inputs, seed=options["seed"], options=chosen):
        say(f"{inputs.card.id}: {one.metric.title}, {one.seconds_computing:.1f} s")
        found.append(one)
    records = [_record(one) for one in found]
    copies = copies_of(data.train.contents, data.train.labels, data.val.contents, data.val.labels)
    notes = [*inputs.notes, *copies_notes(copies)]
    if not as_json:  # before anything can go wrong with the results
        click.echo(click.style(f"\n{inputs.card.id}", bold=True) + f" on {inputs.dataset}\n")
        print_metrics(records, notes)
    recorded = None
    if options["record"]:
        recorded = recording(partial(_rows, found, inputs, options["source"]))
    problem = recorded.problem if recorded else ""
    if as_json:
        document: Record = {"encoder": inputs.card.id, "dataset": inputs.dataset, "notes": notes}
        document |= {"images": images_document(data), "copies": None if copies is None else copies.as_dict()}
        done = recorded.document if recorded else None
        print_json(document | {"metrics": records, "recorded": done, "not_recorded": problem or None})
    elif recorded:
        print_notes(recorded.notes)
    if problem:
        raise click.ClickException(problem)
    refuse_nothing(records)


def _target(images: str, scale: tuple[float, float] | None) -> ImageData:
    """The data set to transfer to, by the same scale if its images have more than 8 bits a channel."""
    from ..datasets import open_images

    if scale is not None:
        with suppress(QueryError):  # they have not
            return open_images(images, scale=scale)
    return open_images(images)


def _record(one: Measured) -> Record:
    return {
        "metric": one.metric.name, "title": one.metric.title, "value": one.value, "unit": one.metric.unit,
        "better": BETTER[one.metric.higher_is_better], "reason": one.reason, "split": one.split,
        "n_images": one.n_images, "n_views": one.n_views, "seconds_featurising": one.seconds_featurising,
        "seconds_computing": one.seconds_computing, "seed": one.seed, "details": dict(one.details),
        "notes": list(one.notes),
    }  # fmt: skip


def _rows(found: Sequence[Measured], inputs: Inputs, source: str) -> Mapping[Any, Mapping[str, Any]]:
    from ..evaluation.label_free.measuring import rows_of_measured

    return rows_of_measured(found, inputs, source=source)
