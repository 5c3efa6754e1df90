"""``zoo evaluate``, ``probe``, ``decompose``: tuned probes on features, and the risk decomposition."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.catalogue import load_catalogue
from ..errors import QueryError, ZooError
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
from .evaluation_output import (
    build_evaluation_document,
    build_probe_document,
    build_regression_document,
    build_risk_document,
    build_shown_evaluation,
    build_tagging_document,
    print_evaluation,
    print_many,
    print_measured,
    print_risk,
    print_shown_evaluation,
    render_evaluation_page,
)
from .measure_options import (
    DEVICE_OPTION,
    EXPORT_OPTION,
    IMAGES_HELP,
    PAGE_OPTIONS,
    PART_NAMES,
    PART_OPTIONS,
    PROBE_OPTIONS,
    SETTING_OPTIONS,
    add_image_options,
    add_recording_options,
    build_counts_document,
    build_featurising,
    build_request,
    describe_images,
    list_copies_notes,
    list_groups_notes,
    open_labelled_images,
    parse_number,
    record_measured_rows,
    refuse_other_images,
    reject_unused_source,
    require_images_exist,
    require_page_at,
)
from .options import FoldedCommand, add_options, complete_encoder_names, get_given_options, reject_unused_options
from .output import add_json_option, log_progress, print_json, print_notes, wrap_text
from .stored_answers import StoredAnswer, decode_rows, encode_rows, list_content_stamps, locate_encoder_answer

if TYPE_CHECKING:
    from ..datasets import ImageData
    from ..evaluation.evaluating import Evaluation, Request
    from ..evaluation.multilabel import TagEvaluation
    from ..evaluation.refit import RefittedProbe
    from ..evaluation.regression import RegressionEvaluation
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
    EXPORT_OPTION,
)


@click.command("evaluate", cls=FoldedCommand, epilog=f"{IMAGES_HELP}\n\n{_EVALUATE_EXAMPLES}")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_encoder_names)
@click.argument("images", metavar="IMAGES", callback=require_images_exist)
@add_image_options
@(lambda command: add_options(command, [*SETTING_OPTIONS, *PROBE_OPTIONS, *PART_OPTIONS, *PAGE_OPTIONS]))
@click.option("--class-token", is_flag=True, help="With --probe attentive, the class token is a further place.")
@click.option("--decompose", is_flag=True, help="Also the components of the full-shot error (Algorithm 1).")
@click.option(
    "--supervised",
    metavar="NAME|PERCENT",
    shell_complete=complete_encoder_names,
    help="Supervised twin, or its training error: separates approximation from usability.",
)
@add_engine_options
@(lambda command: add_options(command, _SAVING))
@add_recording_options
@add_json_option
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
    becomes a row of your results. With --save the probe trained on all labels is kept too, with metrics next to the
    error.

    Images with tags (any number each) get one probe per tag and their mean average precision, without label settings,
    nearest neighbours and decomposition. Labels that are numbers, such as ages, get ridge regression: R2, errors in
    their unit and Spearman's rank correlation, with full or P% of the labels (--settings).

    --page shows the images that the probe with all labels gets wrong, classes that it confuses, labels that are
    probably wrong and near duplicates of training images among the test images; of several encoders in FILE-NAME.html.

    With --on or --part, or at an address, workers compute the features and measure each encoder when its features are
    complete. They write the rows to NAME/rows next to the features, and this process adds them to your results.
    """
    if not decompose:
        reject_unused_options(("supervised", *PART_NAMES), "no error is decomposed", remedy=", or add --decompose")
    is_attentive = options["probe"] == "attentive"
    if is_attentive:
        reject_unused_options(NOT_FOR_MAPS, "attentive probes are of maps")
    else:
        reject_unused_options(("class_token",), "no probe is of maps", remedy=", or add --probe attentive")
    reject_unused_source(record=record)
    if saved is None:
        reject_unused_options(("exports",), "no probe is kept", remedy=", or add --save DIR")
    require_page_at(page)
    engine = build_engine(options)
    by_workers = engine.is_used or engine.stored != "float32"
    given = get_given_options()
    if by_workers and is_attentive:
        raise QueryError(
            f"Got {given['probe']} for workers or --store, which have no maps; leave it out, and name a "
            "folder on this machine."
        )
    if by_workers and (idle := [given[name] for name in ("judged", "saved", "exports", "page") if name in given]):
        raise QueryError(
            f"Got {' and '.join(idle)} for workers, which keep no probe; leave it out, and then run the command again "
            "with it and the same --to, but without --on, --part and --store."
        )
    from ..files import format_path_part

    ids = list(dict.fromkeys(load_catalogue().id_of(name) for name in names))
    folders = _folders_to_save(ids, saved, exports)
    pages = {} if page is None else {name: page.with_stem(f"{page.stem}-{format_path_part(name)}") for name in ids}
    if page is not None and len(ids) == 1:
        pages = {ids[0]: page}
    data = open_labelled_images(images, options, takes_numbers=True)
    if data.train.target:
        reject_unused_options(NOT_FOR_NUMBERS, f"{data.name!r} has numbers for labels, and ridge regression to them")
    if data.train.tags:
        reject_unused_options(
            NOT_FOR_TAGS, f"{data.name!r} has tags, any number per image, and one probe per tag with all labels"
        )
    if record:
        refuse_other_images(data, with_probes=True)
    of_images, notes = describe_images(data, has_intervals=True)
    del of_images["copies"], of_images["groups"]  # which the documents have
    found: list[dict[str, Any]] = []
    problems: list[str] = []

    def add(document: dict[str, Any], rows: Any) -> None:
        recorded = record_measured_rows(rows) if record else None
        problem = recorded.problem if recorded else ""
        if problem:
            problems.append(f"{document['encoder']}: {problem}")
        if recorded and not as_json:
            print_notes(recorded.notes)
            sys.stdout.flush()
        added = recorded.document if recorded else None
        found.append(document | of_images | {"recorded": added, "not_recorded": problem or None})

    plain = not (by_workers or judged or saved or pages or data.train.tags or data.train.target)
    asked = {"verb": "evaluate", "supervised": supervised, "decompose": decompose, "source": source, "options": options}
    places = _locate_answers(ids, data, engine, asked) if plain else {}
    answers = {name: answer for name, place in places.items() if (answer := place.find()) is not None}
    request = None if len(answers) == len(ids) else build_request(options, decompose=decompose)
    if by_workers:
        assert request is not None
        done = _by_workers(ids, images, supervised, source, data, request, engine, options)
        if done.measured and not as_json:  # before anything can go wrong with the results
            print_many([one.document for one in done.measured], notes)
            sys.stdout.flush()
        for one in done.measured:
            add(one.document | {"saved": None, "page": None, "mistakes": None}, lambda rows=one.rows: rows)
        report_many(done, found, engine, as_json=as_json, key="evaluations")
        require_measured(problems, len(done.failed), len(ids))
        return
    twin: Any = parse_number(supervised)
    if request is not None:
        if supervised is not None and twin is None:
            twin = _featurised(supervised, data, engine, options, parts=("train",))["train"]
        request = replace(request, supervised=twin)
    failed = list[dict[str, str]]()
    for name in ids:
        from ..datasets.notes import describe_small_images

        px = load_catalogue()[name].preprocess.crop_px
        if name in answers:
            answer = answers[name]
            log_progress(f"{name}: as it was measured before")
            if not as_json:
                sizes = describe_small_images(data.train, encoder=name, px=px)
                print_shown_evaluation(answer["shown"], [*notes, *sizes])
                sys.stdout.flush()
            add(answer["document"], partial(decode_rows, answer["rows"]))
            continue
        assert request is not None
        try:
            wants_metrics = judged or saved is not None
            measured, kept = _measured(name, data, engine, options, request, wants_probe=wants_metrics or bool(pages))
            where = _saved(kept, data, folders[name], exports) if kept is not None and folders else None
            mistakes = _mistakes(measured, kept, request, engine) if kept is not None and pages else None
            kept = kept if wants_metrics else None
        except ZooError as error:
            if len(ids) == 1:
                raise
            failed.append({"encoder": name, "error": str(error)})
            click.echo(f"{name}: {error}", err=True)
            continue
        from ..evaluation.evaluating import Evaluation
        from ..evaluation.regression import RegressionEvaluation

        document = build_encoder_document(measured, kept)
        if not as_json:  # before anything can go wrong with the results
            sizes = describe_small_images(data.train, encoder=name, px=px)
            print_measured(measured, document, kept, [*notes, *sizes])
            if where is not None:
                click.echo(wrap_text(f"Saved the probe to {where}; predict images with: zoo predict {where} IMAGES"))
            sys.stdout.flush()
        more: dict[str, Any] = {
            "saved": None if where is None else str(where),
            "page": str(pages[name]) if pages else None,
        }
        more |= {"mistakes": None if mistakes is None else asdict(mistakes)}
        rows = _make_rows(measured, source)
        add(document | more, rows)
        if name in places and isinstance(measured, Evaluation) and not document["not_kept"]:
            answer = {"document": document | more, "shown": build_shown_evaluation(measured, document)}
            places[name].store({**answer, "rows": encode_rows(rows())})
        if mistakes is not None and not isinstance(measured, RegressionEvaluation):
            from ..looking.pages import write_page

            shown = None if hides_images else {"train": data.train, "val": data.val}
            write_page(render_evaluation_page(measured, document, mistakes, shown, notes), pages[name])
            if not as_json:
                click.echo(f"page: {pages[name]}", err=not sys.stdout.isatty())
    if as_json:
        print_json({"evaluations": found, "failed": failed})
    require_measured(problems, len(failed), len(ids))


def _locate_answers(
    ids: list[str], data: ImageData, engine: EngineOptions, asked: dict[str, Any]
) -> dict[str, StoredAnswer]:
    assert engine.folder is not None
    if asked["supervised"] in load_catalogue():
        asked = asked | {"twin": asdict(load_catalogue()[asked["supervised"]])}
    if asked["decompose"]:
        asked = asked | {"content": list_content_stamps()}
    return {name: locate_encoder_answer(engine.folder, name, data, asked) for name in ids}


def _make_rows(measured: Any, source: str) -> Callable[[], Any]:
    """What makes the rows of an evaluation."""
    from ..evaluation.evaluating import make_evaluation_rows
    from ..evaluation.multilabel import TagEvaluation, make_tag_rows
    from ..evaluation.regression import RegressionEvaluation, make_number_rows

    kinds: dict[type, Any] = {TagEvaluation: make_tag_rows, RegressionEvaluation: make_number_rows}
    return partial(kinds.get(type(measured), make_evaluation_rows), measured, source=source)


NOT_FOR_MAPS = ("neighbours", "protocol", "supervised")
NOT_FOR_NUMBERS = ("neighbours", "probe", "protocol", "decompose", "page")
NOT_FOR_TAGS = ("settings", "neighbours", "n_seeds", "probe", "decompose")


def build_encoder_document(
    found: Evaluation | TagEvaluation | RegressionEvaluation, kept: RefittedProbe | None = None
) -> dict[str, Any]:
    """What was measured of an encoder as JSON."""
    from ..evaluation.multilabel import TagEvaluation
    from ..evaluation.regression import RegressionEvaluation

    if isinstance(found, RegressionEvaluation):
        return build_regression_document(found)
    if isinstance(found, TagEvaluation):
        return build_tagging_document(found)
    return build_evaluation_document(found) | {"metrics": None if kept is None else build_probe_document(kept)}


def _by_workers(
    ids: list[str],
    images: str,
    supervised: str | None,
    source: str,
    data: ImageData,
    request: Request,
    engine: EngineOptions,
    options: dict[str, Any],
) -> Any:
    """Measures encoders item by item, with a record of the run."""
    from ..evaluation.evaluating import PARTS
    from ..evaluation.many_encoders import MeasurementSpec, evaluate_many
    from ..features.running import build_run_spec
    from ..progress import ProgressBar

    known = parse_number(supervised)
    measuring = MeasurementSpec(
        setting=build_setting(images, data, options, engine),
        request=replace(request, supervised=known),
        twin=None if supervised is None or known is not None else load_catalogue().id_of(supervised),
        describe=build_encoder_document,
        source=source,
    )
    resources = engine.resources(options["device"])
    ask = partial(build_run_spec, measuring.setting, data=data, resources=resources)
    asked = ask(names=ids, parts=PARTS, verb="evaluate", command=rebuild_command(images), more=measuring.asked)
    if measuring.twin is not None and measuring.twin not in ids:
        of_twin = ask(names=[measuring.twin], parts=("train",))
        asked = replace(asked, features=(*asked.features, *of_twin.features))
    with open_recorded_run(engine, asked, options["device"]) as (workers, journal):
        return evaluate_many(measuring, ids, data, workers, journal, ProgressBar("images"), resources=resources)


def _folders_to_save(ids: list[str], saved: Path | None, exports: tuple[str, ...]) -> dict[str, Path]:
    """Where the probe of each encoder goes; refuses what is in the way before anything is computed."""
    if saved is None:
        return {}
    from ..evaluation.evaluating import get_runs_folder
    from ..evaluation.saved_probes import require_exporters, require_place

    folders = {name: saved if len(ids) == 1 else get_runs_folder(saved, name).parent for name in ids}
    for name, folder in folders.items():
        require_place(folder, name)
    require_exporters(exports)
    return folders


def _featurised(
    name: str, data: ImageData, engine: EngineOptions, options: dict[str, Any], **parts: Any
) -> dict[str, Any]:
    from ..evaluation.evaluating import featurise_data
    from ..progress import ProgressBar

    assert engine.folder is not None
    log_progress(f"{name}: features of {data.name}")
    how = build_featurising(options)
    if options["probe"] == "attentive":
        from ..features.maps import featurise_maps

        (maps,) = featurise_maps(
            name,
            data,
            class_token=options["class_token"],
            root=engine.folder,
            how=how,
            progress=lambda part: ProgressBar("images"),
        ).values()
        return maps
    return featurise_data(name, data, root=engine.folder, how=how, progress=lambda part: ProgressBar("images"), **parts)


def _measured(
    name: str, data: ImageData, engine: EngineOptions, options: dict[str, Any], request: Request, *, wants_probe: bool
) -> tuple[Evaluation | TagEvaluation | RegressionEvaluation, RefittedProbe | None]:
    """What was measured of one encoder, and the probe with its metrics if it is wanted (of tags they always are)."""
    from ..evaluation.evaluating import evaluate, get_runs_folder, locate_speed
    from ..evaluation.multilabel import evaluate_tags
    from ..evaluation.refit import keep_probe
    from ..evaluation.regression import evaluate_numbers
    from ..progress import ProgressBar

    def tell(text: str) -> None:
        log_progress(f"{name}: {text}")

    assert engine.folder is not None
    how = build_featurising(options)
    had_race = locate_speed(engine.folder, name).is_file()
    if had_race and not how.skip_corrupt and options["probe"] != "attentive":  # which no race does
        from ..choosing.candidates import complete_race

        complete_race(
            name, data, seed=request.seed, root=engine.folder, how=how, progress=lambda part: ProgressBar("images")
        )
    features = _featurised(name, data, engine, options)
    train, test, cache = features["train"], features["val"], get_runs_folder(engine.folder, name)
    if data.train.target:
        regressed = evaluate_numbers(train, test, request, cache=cache, tell=tell)
        return regressed, regressed.kept
    if data.train.tags:
        tagged = evaluate_tags(train, test, request, cache=cache, tell=tell)
        return tagged, tagged.kept
    found = evaluate(train, test, request, card=load_catalogue()[name], cache=cache, tell=tell)
    if not wants_probe:
        return found, None
    tell("the probe with all labels, and its metrics")
    return found, keep_probe(found, request, cache=cache)


def _mistakes(measured: Any, kept: RefittedProbe, request: Request, engine: EngineOptions) -> Mistakes:
    from ..evaluation.evaluating import get_runs_folder
    from ..evaluation.multilabel import TagEvaluation
    from ..looking.mistakes import mistakes_of

    assert engine.folder is not None
    train, test, name = measured.train, measured.test, measured.train.origin.encoder
    log_progress(f"{name}: its mistakes")
    protocol = measured.protocol if isinstance(measured, TagEvaluation) else measured.protocols.errors
    how: dict[str, Any] = {
        "device": request.device,
        "seed": request.seed,
        "cache": get_runs_folder(engine.folder, name),
    }
    return mistakes_of(train, test, kept.probe, protocol=protocol, **how)


def _saved(kept: RefittedProbe, data: ImageData, folder: Path, exports: tuple[str, ...]) -> Path:
    from ..evaluation.classification import ClassificationMetrics, make_confusion_figure
    from ..evaluation.saved_probes import save_probe

    metrics = kept.metrics
    figures = [make_confusion_figure(metrics)] if isinstance(metrics, ClassificationMetrics) else []
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
@(lambda command: add_options(command, [*SETTING_OPTIONS, *PROBE_OPTIONS, DEVICE_OPTION]))
@add_json_option
def probe_command(train: str, test: str, as_json: bool, **options: Any) -> None:
    """Train tuned linear probes on features.

    They are trained on TRAIN in every label setting and tested on TEST: folders (or addresses) of features, as `zoo
    features` writes them. Nothing is added to your results; `zoo evaluate` does that.
    """
    from ..evaluation.evaluating import evaluate
    from ..features import load_features

    found = evaluate(
        load_features(train), load_features(test), build_request(options, decompose=False), tell=log_progress
    )
    if as_json:
        print_json(build_evaluation_document(found))
    else:
        notes = list_copies_notes(found.copies) + list_groups_notes(found.groups, has_intervals=True)
        print_evaluation(found, build_evaluation_document(found), notes)


_DECOMPOSE_EXAMPLES = """\b
Example:
  zoo decompose features/dino_rn50/features/birds-train-* features/dino_rn50/features/birds-val-* --supervised 0.84
"""


@click.command("decompose", epilog=_DECOMPOSE_EXAMPLES)
@click.argument("train", metavar="TRAIN")
@click.argument("test", metavar="TEST")
@(lambda command: add_options(command, [*PROBE_OPTIONS, *PART_OPTIONS, DEVICE_OPTION]))
@click.option(
    "--supervised",
    metavar="FOLDER|PERCENT",
    help="Features of the supervised twin on the training images, or its training error.",
)
@add_json_option
def decompose_command(train: str, test: str, supervised: str | None, as_json: bool, **options: Any) -> None:
    """Show the components of the full-shot error.

    Algorithm 1 splits it into approximation, usability, probe and encoder generalization. TRAIN and TEST are folders
    (or addresses) of features, as `zoo features` writes them: of images that the encoder was pretrained on, and of
    images that are new to it.
    """
    from ..datasets.images import count_copies, count_shared_groups
    from ..evaluation.evaluating import evaluate_decomposition, get_runs_folder
    from ..features import load_features
    from ..files import get_evaluations_folder

    of_train, of_test = load_features(train), load_features(test)
    twin: Any = parse_number(supervised)
    if supervised is not None and twin is None:
        twin = load_features(supervised)
    request = build_request(options, decompose=True, supervised=twin)
    name = of_train.origin.encoder
    card = load_catalogue()[name] if name in load_catalogue() else None  # noqa: SIM401 (an unknown name is no KeyError)
    kept = get_runs_folder(get_evaluations_folder(), name)
    report = evaluate_decomposition(of_train, of_test, request, card=card, cache=kept, tell=log_progress)
    copies = count_copies(of_train.contents, of_train.y, of_test.contents, of_test.y)
    groups = count_shared_groups(of_train.groups, of_test.groups)
    risk = build_risk_document(report)
    if as_json:
        document = {"encoder": report.encoder, "dataset": report.dataset, **risk}
        print_json(document | {"copies": build_counts_document(copies), "groups": build_counts_document(groups)})
    else:
        print_risk(report, list_copies_notes(copies) + list_groups_notes(groups, has_intervals=True))
