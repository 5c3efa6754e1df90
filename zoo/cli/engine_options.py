"""Options of the verbs that compute features: where they go, and the workers that compute them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import QueryError, format_count
from ..files import parse_local_folder
from .measure_options import build_featurising, select_source_options
from .options import ARGUMENTS, GroupedOption, add_options, reject_unused_options
from .output import format_list, print_json, print_notes

if TYPE_CHECKING:
    from ..datasets import ImageData
    from ..evaluation.many_encoders import ManyEncodersReport
    from ..execution.executor import Executor, Resources
    from ..execution.journal import Journal, RunSpec
    from ..features.running import RunReport
    from ..features.work_items import FeatureRunSettings
    from ..storage import Location

_SPLITS = ("train", "val", "both")


def _part(ctx: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """K and N of K/N."""
    if text is None:
        return None
    if text in _SPLITS:
        raise QueryError(f"Got --part {text}, expected K/N, a part of the work by number; write --split {text}.")
    from ..execution.executor import parse_part

    return parse_part(text)


PLACE_OPTION = click.option(
    "--to",
    "--out",
    "root",
    metavar="PLACE",
    help="Where features and what is made of them are kept: a folder, or an address as s3://bucket/folder.  "
    "[default: in the cache]",
)

_worker_option = partial(click.option, cls=GroupedOption, group="Workers")

PROCESS_OPTIONS = (
    _worker_option(
        "--on",
        is_common=True,
        metavar="ENGINE",
        help="local: one process per core or GPU; local:N processes; ray: a cluster on this machine; ray:HOST:PORT or "
        "ray:auto, one that runs.  [default: this process]",
    ),
    _worker_option("--part", metavar="K/N", callback=_part, help="Only part K of N of the work, as of a Slurm array."),
    _worker_option(
        "--gpus-each",
        type=click.FloatRange(0, 64),
        help="GPUs of a worker; 0.5: two workers on each.  [default: 1 where there are GPUs]",
    ),
    _worker_option(
        "--mixed-versions", is_flag=True, help="Also workers with other versions of what may change numbers."
    ),
)
"""Options of the process that hands out work, which change no number."""

CPUS_OPTION = _worker_option(
    "--cpus-each",
    type=click.IntRange(1, 1024),
    default=1,
    show_default=True,
    help="Threads of a worker; other numbers of them round otherwise.",
)

_NUMBER_OPTIONS = (
    CPUS_OPTION,
    _worker_option(
        "--store",
        "stored",
        type=click.Choice(["float32", "float16"]),
        default="float32",
        show_default=True,
        help="Numbers in the files of features; float16 takes half the room.",
    ),
)

_OF_PROCESS = ("on", "part", "gpus_each", "root", "runs_folder")  # and their values: they move no number
_FLAGS_OF_PROCESS = ("--mixed-versions", "--json", "--verbose", "-v")
OF_WORKERS = ("cpus_each", "gpus_each", "mixed_versions")
ENGINE_NAMES = ("root", "on", "part", "cpus_each", "gpus_each", "stored", "mixed_versions")


def add_engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--to``, ``--on``, ``--part``, ``--cpus-each``, ``--gpus-each``, ``--store`` and ``--mixed-versions``.

    The command gets them by the names of :data:`ENGINE_NAMES` in its ``**options``, from which :func:`build_engine`
    makes an :class:`EngineOptions`.
    """
    return add_options(command, (PLACE_OPTION, *PROCESS_OPTIONS, *_NUMBER_OPTIONS))


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Where features go, and the workers that compute them, as the options say."""

    where: str | Path  # a folder, or an address
    on: str | None
    part: tuple[int, int] | None
    cpus_each: int
    gpus_each: float | None
    stored: str
    mixed_versions: bool

    @property
    def folder(self) -> Path | None:
        """The folder that features go to; None if it is an address."""
        return self.where if isinstance(self.where, Path) else parse_local_folder(self.where)

    @property
    def is_used(self) -> bool:
        """True if work is to be done item by item, with so many threads each, on whatever workers.

        Without it this process computes with all its threads, as a library function would.
        """
        return self.on is not None or self.part is not None or self.folder is None

    @property
    def place(self) -> Location:
        """The place of the features; QueryError if there is none of this name."""
        from ..storage import resolve_place

        return resolve_place(self.where)

    def writable_place(self) -> Location:
        """The place, in which a file can be written; refused before anything is computed."""
        from ..storage import require_writable

        place = self.place
        require_writable(place)
        return place

    def resources(self, device: str | None) -> Resources:
        """What a worker takes; of a GPU one where there is one, unless ``device`` or ``--gpus-each`` say otherwise."""
        import torch

        from ..execution.executor import Resources

        n_gpus = self.gpus_each
        if n_gpus is None:
            wants = torch.cuda.is_available() if device is None else device.startswith("cuda")
            n_gpus = 1.0 if wants and self.is_used else 0.0
        n_cpus = self.cpus_each if self.is_used else torch.get_num_threads()
        return Resources(n_cpus=n_cpus, n_gpus=n_gpus)

    @property
    def shown(self) -> str:
        """The engine in a word or two."""
        part = "" if self.part is None else f", part {self.part[0]}/{self.part[1]}"
        return f"{self.on or 'this process'}{part}"

    @contextmanager
    def executor(self, device: str | None = None) -> Iterator[Executor]:
        """The workers, which end with the block."""
        from ..execution.opening_executors import open_executor

        with closing(
            open_executor(self.on, resources=self.resources(device), part=self.part, mixed_versions=self.mixed_versions)
        ) as workers:
            yield workers


def build_engine(options: dict[str, Any]) -> EngineOptions:
    """Takes the engine's options out of those of a verb; refuses those without effect.

    ``skip_corrupt`` becomes True or False: by default images that cannot be read are left out where an engine is used.
    """
    from ..files import get_evaluations_folder

    own = {name: options.pop(name) for name in ENGINE_NAMES}
    engine = EngineOptions(where=own.pop("root") or get_evaluations_folder(), **own)
    if not engine.is_used:
        reject_unused_options(OF_WORKERS, "this process computes by itself", remedy=", or add --on")
    if options.get("skip_corrupt", False) is None:
        options["skip_corrupt"] = engine.is_used
    return engine


def build_setting(
    images: str | list[str], data: ImageData, options: Mapping[str, Any], engine: EngineOptions
) -> FeatureRunSettings:
    """What all items of a run have in common, from the arguments of a verb that has them all."""
    from ..datasets.sources import open_any_images
    from ..features.work_items import FeatureRunSettings

    parts = ("all",) if data.is_whole else ("train", "val")
    return FeatureRunSettings(
        source=partial(open_any_images, images, is_new=data.is_whole, **select_source_options(dict(options))),
        place=str(engine.where),
        fingerprints={part: getattr(data, part).fingerprint for part in parts},
        how=build_featurising(dict(options)),
        stored=engine.stored,
    )


def rebuild_command(*images: str) -> tuple[str, ...]:
    """The verb and arguments of the running command without place and engine; a path to the images is absolute."""
    context = click.get_current_context()
    found, given = [str(context.info_name)], iter(context.meta.get(ARGUMENTS, ())[1:])
    of_process = {opt for one in context.command.params if one.name in _OF_PROCESS for opt in one.opts}
    for argument in given:
        name, equals, value = argument.partition("=")
        if name in of_process:
            if not equals:
                next(given, None)
        elif name == "--data" and equals:
            found.append(f"{name}={os.path.abspath(value)}")
        elif argument not in _FLAGS_OF_PROCESS:
            is_path = argument in images and os.path.exists(argument)
            found.append(os.path.abspath(argument) if is_path else argument)
    return tuple(found)


@contextmanager
def open_recorded_run(
    engine: EngineOptions, asked: RunSpec, device: str | None = None
) -> Iterator[tuple[Executor, Journal]]:
    """Workers and the journal of a run; both end with the block. What is odd about the record is told then."""
    from ..execution.journal import Journal

    place = engine.writable_place()
    with engine.executor(device) as workers:
        journal = Journal(
            place,
            asked,
            engine=engine.shown,
            n_workers=workers.n_workers,
            part=engine.part,
            mixed_versions=engine.mixed_versions or not engine.is_used,
        )
        with journal:
            yield workers, journal
    problem = f"the record of the run could not be written: {journal.problem}" if journal.problem else ""
    print_notes(note for note in (journal.clock_note, problem) if note)


def list_report_notes(report: RunReport, engine: EngineOptions) -> list[str]:
    """Sentences on what was odd in a run, and on what is left."""
    counts = (
        (report.n_retried, "done again after a failure"),
        (report.n_nondeterministic, "of which two workers made different features; one of the two is used"),
        (report.n_halved, "computed in smaller batches: the memory was too small"),
    )
    notes = [f"{format_count(n, 'item')} {what}" for n, what in counts if n]
    if notes:
        notes.append(f"what and why: zoo runs why {engine.where} {report.run}")
    if report.incomplete and not report.failures:
        n_all = len(report.complete) + len(report.incomplete)
        notes.append(f"{len(report.incomplete):,} of {n_all:,} features wait for shards of other parts of the work")
    return notes


def report_many(
    done: ManyEncodersReport, found: list[dict[str, Any]], engine: EngineOptions, *, as_json: bool, key: str
) -> None:
    """Tells what failed of measuring many encoders, and what is left; as JSON with the documents under ``key``."""
    for name, failure in done.failed.items():
        click.echo(f"{name}: {failure.text}", err=True)
    if as_json:
        failed = [{"encoder": name, "error": failure.text} for name, failure in done.failed.items()]
        run = {"run": done.name, "place": str(engine.where), "engine": engine.shown}
        run |= {} if done.features is None else done.features.as_dict()
        print_json({key: found, "failed": failed, "open": done.still_open, "run": run})
        return
    notes = [] if done.features is None else list_report_notes(done.features, engine)
    if done.still_open:
        notes.append(
            f"waiting for other parts of the work: {format_list(done.still_open, 3)}; go on with: zoo runs resume "
            f"{engine.where} {done.name}"
        )
    print_notes(notes)


def require_measured(problems: list[str], n_failed: int, n: int) -> None:
    """Ends with exit code 1 if an encoder could not be measured or recorded."""
    if n_failed:
        problems = [*problems, f"{n_failed} of {n} encoders could not be measured; see above."]
    if problems:
        raise click.ClickException(" ".join(problems))
