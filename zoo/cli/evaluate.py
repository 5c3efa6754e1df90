"""``zoo evaluate``, ``probe``, ``decompose``: tuned probes on features, and the risk decomposition."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.catalogue import catalogue
from ..errors import QueryError, ZooError
from .engine_options import (
    Engine,
    command_again,
    engine_of,
    engine_options,
    recorded_run,
    require_measured,
    setting_of,
    tell_many,
)
from .evaluation_output import (
    describe_numbers,
    document_of,
    evaluation_page,
    kept_document,
    print_evaluation,
    print_many,
    print_measured,
    print_risk,
    risk_document,
    tag_document,
)
from .measure_options import (
    DEVICE_OPTION,
    IMAGES_HELP,
    PAGE_OPTIONS,
    PART_NAMES,
    PART_OPTIONS,
    PROBE_OPTIONS,
    SETTING_OPTIONS,
    about_images,
    as_number,
    copies_document,
    copies_notes,
    featurising,
    groups_document,
    groups_notes,
    image_options,
    opened,
    recording,
    recording_options,
    refuse_idle_source,
    refuse_other_images,
    request_of,
    require_page_at,
    there,
)
from .options import encoder_names, given_options, refuse_idle, with_options
from .output import json_option, print_json, print_notes, say, wrapped

if TYPE_CHECKING:
    from ..datasets import ImageData
    from ..evaluation.evaluating import Evaluation, Request
    from ..evaluation.keeping import Kept
    from ..evaluation.regression import RegressionEvaluation
    from ..evaluation.tagging import TagEvaluation
    from ..looking.mistakes import Mistakes

_EVALUATE_EXAMPLES = """\b
Examples:
  zoo evaluate pocket_simclr_rn_shapes shapes
  zoo evaluate dino_vitS16 dino_vitS16@cls:11 ./birds --settings full,5-shot --device cuda
  zoo evaluate dino_vitS16 xrays.csv --label-column finding --group patient
  zoo evaluate dino_rn50 /data/imagenet --dataset imagenet-1k --decompose --supervised sup_rn50 --workers 8
  zoo evaluate dino_vitS16 ./birds --settings full --save birds-probe --export onnx
  zoo evaluate dino_vitS16 mae_vitB16 /data/imagenet --to s3://bucket/features --on ray:10.0.0.1:6379
"""
_SAVING = (
    click.option(
        "--metrics",
        "judged",
        is_flag=True,
        help="Also AUROC, average precision, calibration, class errors and confusions, of the probe with all labels.",
    ),
    click.option(
        "--save",
        "saved",
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        help="Keep that probe for 'zoo predict', with these metrics; of several encoders in DIR/NAME.",
    ),
    click.option(
        "--export",
        "exports",
        type=click.Choice(["torch", "onnx"]),
        multiple=True,
        help="With --save, also write encoder and probe as one network. Repeatable.",
    ),
)


@click.command("evaluate", epilog=f"{IMAGES_HELP}\n\n{_EVALUATE_EXAMPLES}")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=encoder_names)
@click.argument("images", metavar="IMAGES", callback=there)
@image_options
@(lambda command: with_options(command, [*SETTING_OPTIONS, *PROBE_OPTIONS, *PART_OPTIONS, *PAGE_OPTIONS]))
@click.option("--decompose", is_flag=True, help="Also the components of the full-shot error (Algorithm 1).")
@click.option(
    "--supervised",
    metavar="NAME|PERCENT",
    shell_complete=encoder_names,
    help="Supervised twin, or its training error: separates approximation from usability.",
)
@engine_options
@(lambda command: with_options(command, _SAVING))
@recording_options
@json_option
def evaluate_command(
    names: tuple[str, ...],
    images: str,
    decompose: bool,
    supervised: str | None,
    judged: bool,
    saved: Path | None,
    exports: tuple[str, ...],
    page: Path | None,
    hides_images: bool,
    source: str,
    record: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure encoders on your labelled images.

    Features and probes are kept as soon as they are computed: the same command goes on where it stopped. Every number
    becomes a row of your results. With --save the probe trained on all labels is kept too, with metrics beside the
    error.

    Images with tags (any number each) get one probe a tag and their mean average precision, without label settings,
    nearest neighbours and decomposition. Labels that are numbers, such as ages, get ridge regression: R2, errors in
    their unit and Spearman's rank correlation, with full or P% of the labels (--settings).

    --page shows the images that the probe with all labels gets wrong, classes that it confuses, labels that are
    probably wrong and near duplicates of training images among the test images; of several encoders in FILE-NAME.html.

    With --on or --part, or at an address, workers compute the features and measure each encoder when its features are
    complete. They write the rows to NAME/rows beside the features, and this process adds them to your results.
    """
    if not decompose:
        refuse_idle(("supervised", *PART_NAMES), "no error is decomposed", remedy=", or add --decompose")
    refuse_idle_source(record=record)
    if saved is None:
        refuse_idle(("exports",), "no probe is kept", remedy=", or add --save DIR")
    require_page_at(page)
    engine = engine_of(options)
    by_workers = engine.is_used or engine.stored != "float32"
    given = given_options()
    if by_workers and (idle := [given[name] for name in ("judged", "saved", "exports", "page") if name in given]):
        raise QueryError(
            f"Got {' and '.join(idle)} for workers, which keep no probe; leave it out, and then run the command again "
            "with it and the same --to, but without --on, --part and --store."
        )
    from ..features.items import path_part

    ids = list(dict.fromkeys(catalogue().id_of(name) for name in names))
    folders = _folders_to_save(ids, saved, exports)
    pages = {} if page is None else {name: page.with_stem(f"{page.stem}-{path_part(name)}") for name in ids}
    if page is not None and len(ids) == 1:
        pages = {ids[0]: page}
    request = request_of(options, decompose=decompose)
    data = opened(images, options, takes_numbers=True)
    if data.train.target:
        refuse_idle(NOT_FOR_NUMBERS, f"{data.name!r} has numbers for labels, and ridge regression to them")
    if data.train.tags:
        refuse_idle(NOT_FOR_TAGS, f"{data.name!r} has tags, any number an image, and one probe a tag with all labels")
    if record:
        refuse_other_images(data, with_probes=True)
    of_images, notes = about_images(data, has_intervals=True)
    del of_images["copies"], of_images["groups"]  # which the documents have
    found: list[dict[str, Any]] = []
    problems: list[str] = []

    def add(document: dict[str, Any], rows: Any) -> None:
        recorded = recording(rows) if record else None
        problem = recorded.problem if recorded else ""
        if problem:
            problems.append(f"{document['encoder']}: {problem}")
        if recorded and not as_json:
            print_notes(recorded.notes)
            sys.stdout.flush()
        added = recorded.document if recorded else None
        found.append(document | of_images | {"recorded": added, "not_recorded": problem or None})

    if by_workers:
        done = _by_workers(ids, images, supervised, source, data, request, engine, options)
        if done.measured and not as_json:  # before anything can go wrong with the results
            print_many([one.document for one in done.measured], notes)
            sys.stdout.flush()
        for one in done.measured:
            add(one.document | {"saved": None, "page": None, "mistakes": None}, lambda rows=one.rows: rows)
        tell_many(done, found, engine, as_json=as_json, key="evaluations")
        require_measured(problems, len(done.failed), len(ids))
        return
    twin: Any = as_number(supervised)
    if supervised is not None and twin is None:
        twin = _featurised(supervised, data, engine, options, parts=("train",))["train"]
    request, failed = replace(request, supervised=twin), list[dict[str, str]]()
    from ..evaluation.evaluating import rows_of_evaluation
    from ..evaluation.regression import RegressionEvaluation, make_number_rows
    from ..evaluation.tagging import TagEvaluation, rows_of_tags

    for name in ids:
        try:
            wants_metrics = judged or saved is not None
            measured, kept = _measured(name, data, engine, options, request, wants_probe=wants_metrics or bool(pages))
            where = _saved(kept, data, folders[name], exports) if kept is not None and folders else None
            mistakes = _mistakes(measured, kept, request) if kept is not None and pages else None
            kept = kept if wants_metrics else None
        except ZooError as error:
            if len(ids) == 1:
                raise
            failed.append({"encoder": name, "error": str(error)})
            click.echo(f"{name}: {error}", err=True)
            continue
        document = described(measured, kept)
        if not as_json:  # before anything can go wrong with the results
            from ..datasets.notes import size_notes

            sizes = size_notes(data.train, encoder=name, px=catalogue()[name].preprocess.crop_px)
            print_measured(measured, document, kept, [*notes, *sizes])
            if where is not None:
                click.echo(wrapped(f"Saved the probe to {where}; predict images with: zoo predict {where} IMAGES"))
            sys.stdout.flush()
        kinds: dict[type, Any] = {TagEvaluation: rows_of_tags, RegressionEvaluation: make_number_rows}
        to_rows = kinds.get(type(measured), rows_of_evaluation)
        more: dict[str, Any] = {
            "saved": None if where is None else str(where),
            "page": str(pages[name]) if pages else None,
        }
        more |= {"mistakes": None if mistakes is None else asdict(mistakes)}
        add(document | more, partial(to_rows, measured, source=source))
        if mistakes is not None:
            from ..looking.pages import write_page

            shown = None if hides_images else {"train": data.train, "val": data.val}
            write_page(evaluation_page(document, mistakes, shown, notes), pages[name])
            if not as_json:
                click.echo(f"page: {pages[name]}", err=not sys.stdout.isatty())
    if as_json:
        print_json({"evaluations": found, "failed": failed})
    require_measured(problems, len(failed), len(ids))


NOT_FOR_NUMBERS = ("neighbours", "probe", "protocol", "decompose", "page")
NOT_FOR_TAGS = ("settings", "neighbours", "n_seeds", "probe", "decompose")


def described(found: Evaluation | TagEvaluation | RegressionEvaluation, kept: Kept | None = None) -> dict[str, Any]:
    """What was measured of an encoder as JSON."""
    from ..evaluation.regression import RegressionEvaluation
    from ..evaluation.tagging import TagEvaluation

    if isinstance(found, RegressionEvaluation):
        return describe_numbers(found)
    if isinstance(found, TagEvaluation):
        return tag_document(found)
    return document_of(found) | {"metrics": None if kept is None else kept_document(kept)}


def _by_workers(
    ids: list[str],
    images: str,
    supervised: str | None,
    source: str,
    data: ImageData,
    request: Request,
    engine: Engine,
    options: dict[str, Any],
) -> Any:
    """Measures encoders item by item, with a record of the run."""
    from ..evaluation.evaluating import PARTS
    from ..evaluation.many import Measuring, evaluate_many
    from ..features.running import asked_for
    from ..progress import Bar

    known = as_number(supervised)
    measuring = Measuring(
        setting=setting_of(images, data, options, engine),
        request=replace(request, supervised=known),
        twin=None if supervised is None or known is not None else catalogue().id_of(supervised),
        describe=described,
        source=source,
    )
    resources = engine.resources(options["device"])
    ask = partial(asked_for, measuring.setting, data=data, resources=resources)
    asked = ask(names=ids, parts=PARTS, verb="evaluate", command=command_again(images), more=measuring.asked)
    if measuring.twin is not None and measuring.twin not in ids:
        of_twin = ask(names=[measuring.twin], parts=("train",))
        asked = replace(asked, features=(*asked.features, *of_twin.features))
    with recorded_run(engine, asked, options["device"]) as (workers, journal):
        return evaluate_many(measuring, ids, data, workers, journal, Bar("images"), resources=resources)


def _folders_to_save(ids: list[str], saved: Path | None, exports: tuple[str, ...]) -> dict[str, Path]:
    """Where the probe of each encoder goes; refuses what is in the way before anything is computed."""
    if saved is None:
        return {}
    from ..evaluation.evaluating import runs_folder
    from ..evaluation.saved_probes import require_exporters, require_place

    folders = {name: saved if len(ids) == 1 else runs_folder(saved, name).parent for name in ids}
    for name, folder in folders.items():
        require_place(folder, name)
    require_exporters(exports)
    return folders


def _featurised(name: str, data: ImageData, engine: Engine, options: dict[str, Any], **parts: Any) -> dict[str, Any]:
    from ..evaluation.evaluating import featurise_data
    from ..progress import Bar

    assert engine.folder is not None
    say(f"{name}: features of {data.name}")
    how = featurising(options)
    return featurise_data(name, data, root=engine.folder, how=how, progress=lambda part: Bar("images"), **parts)


def _measured(
    name: str, data: ImageData, engine: Engine, options: dict[str, Any], request: Request, *, wants_probe: bool
) -> tuple[Evaluation | TagEvaluation | RegressionEvaluation, Kept | None]:
    """What was measured of one encoder, and the probe with its metrics if it is wanted (of tags they always are)."""
    from ..choosing.contending import complete_race
    from ..evaluation.evaluating import evaluate, runs_folder
    from ..evaluation.keeping import keep_probe
    from ..evaluation.regression import evaluate_numbers
    from ..evaluation.tagging import evaluate_tags
    from ..progress import Bar

    def tell(text: str) -> None:
        say(f"{name}: {text}")

    assert engine.folder is not None
    how = featurising(options)
    if not how.skip_corrupt:  # which no race does
        complete_race(name, data, seed=request.seed, root=engine.folder, how=how, progress=lambda part: Bar("images"))
    features = _featurised(name, data, engine, options)
    train, test = features["train"], features["val"]
    if data.train.target:
        regressed = evaluate_numbers(train, test, request, tell=tell)
        return regressed, regressed.kept
    if data.train.tags:
        tagged = evaluate_tags(train, test, request, tell=tell)
        return tagged, tagged.kept
    cache = runs_folder(engine.folder, name)
    found = evaluate(train, test, request, card=catalogue()[name], cache=cache, tell=tell)
    if not wants_probe:
        return found, None
    tell("the probe with all labels again, and its metrics")
    return found, keep_probe(found, request, cache=cache)


def _mistakes(measured: Any, kept: Kept, request: Request) -> Mistakes:
    from ..evaluation.tagging import TagEvaluation
    from ..looking.mistakes import mistakes_of

    say(f"{measured.train.origin.encoder}: its mistakes")
    protocol = measured.protocol if isinstance(measured, TagEvaluation) else measured.protocols.errors
    train, test = measured.train, measured.test
    return mistakes_of(train, test, kept.probe, protocol=protocol, device=request.device, seed=request.seed)


def _saved(kept: Kept, data: ImageData, folder: Path, exports: tuple[str, ...]) -> Path:
    from ..evaluation.classification import Classification, confusion_figure
    from ..evaluation.saved_probes import save_probe

    metrics = kept.metrics
    figures = [confusion_figure(metrics)] if isinstance(metrics, Classification) else []
    probe = replace(kept.probe, scale=data.train.reading.scale, background=data.train.reading.background)
    return save_probe(probe, folder, figures=figures, export=exports)


_PROBE_EXAMPLES = """\b
Example:
  zoo features dino_vitS16 ./birds --out features
  zoo probe features/dino_vitS16/features/birds-train-* features/dino_vitS16/features/birds-val-*
"""


@click.command("probe", epilog=_PROBE_EXAMPLES)
@click.argument("train", metavar="TRAIN")
@click.argument("test", metavar="TEST")
@(lambda command: with_options(command, [*SETTING_OPTIONS, *PROBE_OPTIONS, DEVICE_OPTION]))
@json_option
def probe_command(train: str, test: str, as_json: bool, **options: Any) -> None:
    """Train tuned linear probes on features.

    They are trained on TRAIN in every label setting and tested on TEST: folders (or addresses) of features, as `zoo
    features` writes them. Nothing is added to your results; `zoo evaluate` does that.
    """
    from ..evaluation.evaluating import evaluate
    from ..features import load_features

    found = evaluate(load_features(train), load_features(test), request_of(options, decompose=False), tell=say)
    if as_json:
        print_json(document_of(found))
    else:
        notes = copies_notes(found.copies) + groups_notes(found.groups, has_intervals=True)
        print_evaluation(document_of(found), notes)


_DECOMPOSE_EXAMPLES = """\b
Example:
  zoo decompose features/dino_rn50/features/birds-train-* features/dino_rn50/features/birds-val-* --supervised 0.84
"""


@click.command("decompose", epilog=_DECOMPOSE_EXAMPLES)
@click.argument("train", metavar="TRAIN")
@click.argument("test", metavar="TEST")
@(lambda command: with_options(command, [*PROBE_OPTIONS, *PART_OPTIONS, DEVICE_OPTION]))
@click.option(
    "--supervised",
    metavar="FOLDER|PERCENT",
    help="Features of the supervised twin on the training images, or its training error.",
)
@json_option
def decompose_command(train: str, test: str, supervised: str | None, as_json: bool, **options: Any) -> None:
    """Show the components of the full-shot error.

    Algorithm 1 splits it into approximation, usability, probe and encoder generalization. TRAIN and TEST are folders
    (or addresses) of features, as `zoo features` writes them: of images that the encoder was pretrained on, and of
    images that are new to it.
    """
    from ..datasets.images import copies_of, shared_groups
    from ..evaluation.evaluating import decomposed, evaluations_folder, runs_folder
    from ..features import load_features

    of_train, of_test = load_features(train), load_features(test)
    twin: Any = as_number(supervised)
    if supervised is not None and twin is None:
        twin = load_features(supervised)
    request = request_of(options, decompose=True, supervised=twin)
    name = of_train.origin.encoder
    card = catalogue()[name] if name in catalogue() else None  # noqa: SIM401 (an unknown name is no KeyError)
    kept = runs_folder(evaluations_folder(), name)
    report = decomposed(of_train, of_test, request, card=card, cache=kept, tell=say)
    copies = copies_of(of_train.contents, of_train.y, of_test.contents, of_test.y)
    groups = shared_groups(of_train.groups, of_test.groups)
    risk = risk_document(report)
    if as_json:
        document = {"encoder": report.encoder, "dataset": report.dataset, **risk}
        print_json(document | {"copies": copies_document(copies), "groups": groups_document(groups)})
    else:
        print_risk(report.encoder, risk)
        print_notes(copies_notes(copies) + groups_notes(groups, has_intervals=True))
