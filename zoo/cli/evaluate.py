"""``zoo evaluate``, ``probe``, ``decompose``: tuned probes on features, and the risk decomposition."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
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
    setting_of,
    tell_many,
)
from .evaluation_output import document_of, print_evaluation, print_many, print_risk, risk_document
from .measure_options import (
    IMAGES_HELP,
    PART_NAMES,
    as_number,
    copies_between,
    copies_document,
    copies_notes,
    device_option,
    featurising,
    groups_between,
    groups_document,
    groups_notes,
    image_options,
    images_document,
    opened,
    part_options,
    probe_options,
    recording,
    recording_options,
    refuse_idle_probes,
    refuse_idle_source,
    refuse_other_images,
    request_of,
    setting_options,
    with_options,
)
from .options import encoder_names, given_options, refuse_idle
from .output import json_option, print_json, print_notes, say, wrapped
from .prediction_output import kept_document, print_kept, print_tag_evaluation, tag_document

if TYPE_CHECKING:
    from ..datasets import ImageData
    from ..evaluation.evaluating import Evaluation, Request
    from ..evaluation.keeping import Kept
    from ..evaluation.tagging import TagEvaluation
    from ..features.items import Featurising

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


def _saving_options(command: Callable[..., Any]) -> Callable[..., Any]:
    return with_options(command, _SAVING)


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
@engine_options
@_saving_options
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
    source: str,
    record: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure encoders on your labelled images.

    Features are computed once and kept, and so is each probe as soon as it is measured: the same command goes on where
    it was if it was stopped. Every number becomes a row of your results. With --save the probe that has learned from
    all labels is kept too: trained again at what was chosen, with metrics beside the error.

    Images with tags, any number each, have one probe a tag and their mean average precision; label settings, nearest
    neighbours and the decomposition are left out there.

    With --on or --part, or at an address, workers compute the features and measure each encoder as soon as its own are
    complete. They write the rows beside the features, in NAME/rows, and this process adds them to your results.
    """
    from ..datasets.imagefiles import notes_on, size_notes

    if not decompose:
        refuse_idle(("supervised", *PART_NAMES), "no error is decomposed", remedy=", or add --decompose")
    refuse_idle_probes(options)
    refuse_idle_source(record=record)
    if saved is None:
        refuse_idle(("exports",), "no probe is kept", remedy=", or add --save DIR")
    engine = engine_of(options)
    by_workers = engine.is_used or engine.stored != "float32"
    if by_workers:
        _refuse_with_workers(engine)
    ids = list(dict.fromkeys(catalogue().id_of(name) for name in names))
    folders = _folders_to_save(ids, saved, exports)
    request = request_of(options, decompose=decompose)
    data = opened(images, options)
    if data.train.tags:
        refuse_idle(NOT_FOR_TAGS, f"{data.name!r} has tags, any number an image, and one probe a tag with all labels")
    if record:
        refuse_other_images(data)
    if by_workers:
        options |= {"images": images, "supervised": supervised, "source": source, "record": record, "as_json": as_json}
        _evaluate_by_workers(ids, data, request, engine, options)
        return
    assert engine.folder is not None
    folder, how = engine.folder, featurising(options)
    twin = _twin_to_featurise(supervised, data, folder, how)
    found: list[dict[str, Any]] = []
    failed: list[tuple[str, ZooError]] = []
    problems: list[str] = []
    for name in ids:
        try:
            done = _Measured(name, data, folder, how, request, twin, wants_metrics=judged or saved is not None)
            done.save(folders.get(name), exports)
        except ZooError as error:
            if len(ids) == 1:
                raise
            failed.append((name, error))
            click.echo(f"{name}: {error}", err=True)
            continue
        if not as_json:  # before anything can go wrong with the results
            sizes = size_notes(data.train, encoder=name, px=catalogue()[name].preprocess.crop_px)
            done.print(on_images=[*notes_on([data.train, data.val]), *sizes])
            sys.stdout.flush()
        recorded = None
        if record:
            recorded = recording(partial(done.rows, source))
            problems += [f"{name}: {recorded.problem}"] * bool(recorded.problem)
        if as_json:
            document = done.document() | {"images": images_document(data)}
            problem = recorded.problem if recorded else ""
            added = recorded.document if recorded else None
            found.append(document | {"recorded": added, "not_recorded": problem or None})
        elif recorded:
            print_notes(recorded.notes)
            sys.stdout.flush()
    if as_json:
        print_json({"evaluations": found, "failed": [{"encoder": name, "error": str(error)} for name, error in failed]})
    if failed:
        problems.append(f"{len(failed)} of {len(ids)} encoders could not be measured; see above.")
    if problems:
        raise click.ClickException(" ".join(problems))


def _refuse_with_workers(engine: Engine) -> None:
    """Refuses what needs the trained probe, which workers do not keep."""
    given = given_options()
    if idle := [given[name] for name in ("judged", "saved", "exports") if name in given]:
        where = "a folder" if engine.folder is None else str(engine.folder)
        raise QueryError(
            f"Got {' and '.join(idle)} for work on workers, which keep no probe; leave it out, and then run it again "
            f"with that, --to {where}, but without --on, --part and --store: features and probes are found there."
        )


def described(found: Evaluation | TagEvaluation) -> dict[str, Any]:
    """What was measured of an encoder as JSON."""
    from ..evaluation.tagging import TagEvaluation

    return tag_document(found) if isinstance(found, TagEvaluation) else document_of(found) | {"metrics": None}


def _evaluate_by_workers(
    ids: list[str], data: ImageData, request: Request, engine: Engine, options: dict[str, Any]
) -> None:
    """Measures encoders item by item, with a record."""
    from ..datasets.imagefiles import notes_on
    from ..evaluation.evaluating import PARTS
    from ..evaluation.many import Measuring, evaluate_many
    from ..features.running import asked_for
    from ..progress import Bar

    images, supervised, as_json = options["images"], options["supervised"], options["as_json"]
    known = as_number(supervised)
    measuring = Measuring(
        setting=setting_of(images, data, options, engine),
        request=replace(request, supervised=known),
        twin=None if supervised is None or known is not None else catalogue().id_of(supervised),
        describe=described,
        source=options["source"],
    )
    resources = engine.resources(options["device"])
    ask = partial(asked_for, measuring.setting, data=data, resources=resources)
    asked = ask(names=ids, parts=PARTS, verb="evaluate", command=command_again(images), more=measuring.asked)
    if measuring.twin is not None and measuring.twin not in ids:
        of_twin = ask(names=[measuring.twin], parts=("train",))
        asked = replace(asked, features=(*asked.features, *of_twin.features))
    with recorded_run(engine, asked, options["device"]) as (workers, journal):
        done = evaluate_many(measuring, ids, data, workers, journal, Bar("images"), resources=resources)
    if done.measured and not as_json:  # before anything can go wrong with the results
        notes = [*notes_on([data.train, data.val]), *copies_notes(copies_between(data))]
        notes += groups_notes(groups_between(data), has_intervals=True)
        print_many([one.document for one in done.measured], on_images=notes)
        sys.stdout.flush()
    found, problems = [], []
    for one in done.measured:
        recorded = recording(lambda rows=one.rows: rows) if options["record"] else None  # type: ignore[misc]
        problem = recorded.problem if recorded else ""
        problems += [f"{one.encoder}: {problem}"] * bool(problem)
        more = {"saved": None, "images": images_document(data), "recorded": recorded.document if recorded else None}
        found.append(one.document | more | {"not_recorded": problem or None})
    tell_many(done, found, engine, as_json=as_json, key="evaluations")
    if done.failed:
        problems.append(f"{len(done.failed)} of {len(ids)} encoders could not be measured; see above.")
    if problems:
        raise click.ClickException(" ".join(problems))


NOT_FOR_TAGS = ("settings", "neighbours", "n_seeds", "probe", "decompose")


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


class _Measured:
    """One encoder on one data set: of classes an evaluation, and the kept probe if wanted; of tags both in one."""

    def __init__(
        self,
        name: str,
        data: ImageData,
        root: Path,
        how: Featurising,
        request: Request,
        twin: Any,
        *,
        wants_metrics: bool,
    ) -> None:
        from ..evaluation.evaluating import featurise_data, runs_folder
        from ..progress import Bar

        def tell(text: str) -> None:
            say(f"{name}: {text}")

        tell(f"features of {data.name}")
        features = featurise_data(name, data, root=root, how=how, progress=lambda part: Bar("images"))
        train, test, reading = features["train"], features["val"], data.train.reading
        shown: dict[str, Any] = {"scale": reading.scale, "background": reading.background}
        self.saved: Path | None = None
        self.evaluation: Evaluation | None = None
        self.tagged: TagEvaluation | None = None
        self.kept: Kept | None = None
        if data.train.tags:
            from ..evaluation.tagging import evaluate_tags

            self.tagged = evaluate_tags(train, test, request, tell=tell, **shown)
            self.kept = self.tagged.kept
            return
        from ..evaluation.evaluating import evaluate

        asked, cache = replace(request, supervised=twin), runs_folder(root, name)
        self.evaluation = evaluate(train, test, asked, card=catalogue()[name], cache=cache, tell=tell)
        if wants_metrics:
            from ..evaluation.keeping import keep_probe

            tell("the probe with all labels again, and its metrics")
            self.kept = keep_probe(self.evaluation, asked, cache=cache, **shown)

    def save(self, folder: Path | None, exports: tuple[str, ...]) -> None:
        """Keeps the probe."""
        if folder is None or self.kept is None:
            return
        from ..evaluation.classification import Classification, confusion_figure
        from ..evaluation.saved_probes import save_probe

        metrics = self.kept.metrics
        figures = [confusion_figure(metrics)] if isinstance(metrics, Classification) else []
        self.saved = save_probe(self.kept.probe, folder, figures=figures, export=exports)

    def print(self, *, on_images: list[str]) -> None:
        """Prints tables and notes."""
        if self.evaluation is not None:
            print_evaluation(self.evaluation, on_images=on_images)
        if self.tagged is not None:
            print_tag_evaluation(self.tagged, on_images=on_images)
        elif self.kept is not None:
            print_kept(self.kept)
        if self.saved is not None:
            click.echo(
                wrapped(f"Saved the probe to {self.saved}; classify images with: zoo predict {self.saved} IMAGES")
            )

    def document(self) -> dict[str, Any]:
        """Everything as JSON."""
        if self.tagged is not None:
            document = tag_document(self.tagged)
        else:
            assert self.evaluation is not None
            document = document_of(self.evaluation)
            document["metrics"] = None if self.kept is None else kept_document(self.kept)
        return document | {"saved": None if self.saved is None else str(self.saved)}

    def rows(self, source: str) -> Mapping[Any, Mapping[str, Any]]:
        """Rows of results."""
        if self.tagged is not None:
            from ..evaluation.tagging import rows_of_tags

            return rows_of_tags(self.tagged, source=source)
        from ..evaluation.evaluating import rows_of_evaluation

        assert self.evaluation is not None
        return rows_of_evaluation(self.evaluation, source=source)


def _twin_to_featurise(supervised: str | None, data: ImageData, root: Path, how: Featurising) -> Any:
    """Features of the twin on the training images, its recorded training error, or None."""
    if supervised is None or as_number(supervised) is not None:
        return as_number(supervised)
    from ..evaluation.evaluating import featurise_data
    from ..progress import Bar

    say(f"{supervised}: features of {data.name} (train)")
    return featurise_data(supervised, data, root=root, how=how, parts=("train",), progress=lambda part: Bar("images"))[
        "train"
    ]


_PROBE_EXAMPLES = """\b
Example:
  zoo features dino_vitS16 ./birds --out features
  zoo probe features/dino_vitS16/features/birds-train-* features/dino_vitS16/features/birds-val-*
"""
_FOLDER = click.Path()  # or an address


@click.command("probe", epilog=_PROBE_EXAMPLES)
@click.argument("train", metavar="TRAIN", type=_FOLDER)
@click.argument("test", metavar="TEST", type=_FOLDER)
@setting_options
@probe_options
@device_option
@json_option
def probe_command(train: str, test: str, as_json: bool, **options: Any) -> None:
    """Train tuned linear probes on features.

    They learn from TRAIN in every label setting and are tested on TEST. Both are folders (or addresses) of features, as
    `zoo features` writes them. Nothing is added to your results; `zoo evaluate` does that.
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
@device_option
@click.option(
    "--supervised",
    metavar="FOLDER|PERCENT",
    help="Features of the supervised twin on the training images, or its training error.",
)
@json_option
def decompose_command(train: str, test: str, supervised: str | None, as_json: bool, **options: Any) -> None:
    """Show where the full-shot error comes from.

    Algorithm 1 takes it apart into approximation, usability, probe and encoder generalization. TRAIN and TEST are
    folders (or addresses) of features, as `zoo features` writes them: of images that the encoder was pretrained on, and
    of images that are new to it.
    """
    from ..datasets.images import copies_of, shared_groups
    from ..evaluation.evaluating import decomposed, evaluations_folder, runs_folder
    from ..features import load_features

    refuse_idle_probes(options)
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
    if as_json:
        document = {"encoder": report.encoder, "dataset": report.dataset, **risk_document(report)}
        print_json(document | {"copies": copies_document(copies), "groups": groups_document(groups)})
    else:
        print_risk(report)
        print_notes(copies_notes(copies) + groups_notes(groups, has_intervals=True))
