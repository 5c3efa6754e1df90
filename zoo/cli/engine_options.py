"""Options of the verbs that compute features: where they go, and the workers that compute them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import QueryError
from .measure_options import with_options
from .options import refuse_idle

if TYPE_CHECKING:
    from ..execution.executor import Executor, Resources
    from ..storage import Place

_SPLITS = ("train", "val", "both")


def _part(ctx: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """K and N of K/N."""
    if text is None:
        return None
    if text in _SPLITS:
        raise QueryError(f"Got --part {text}, expected K/N, a part of the work by number; write --split {text}.")
    from ..execution.opening import parse_part

    return parse_part(text)


PLACE_OPTION = click.option(
    "--to",
    "--out",
    "root",
    metavar="PLACE",
    help="Where features and what is made of them are kept: a folder, or an address as s3://bucket/folder.  "
    "[default: in the cache]",
)

_ENGINE = (
    click.option(
        "--on",
        metavar="ENGINE",
        help="local: one process a core or GPU; local:N processes; ray: a cluster on this machine; ray:HOST:PORT or "
        "ray:auto, one that runs.  [default: this process]",
    ),
    click.option("--part", metavar="K/N", callback=_part, help="Only part K of N of the work, as of a Slurm array."),
    click.option(
        "--cpus-each",
        type=click.IntRange(1, 1024),
        default=1,
        show_default=True,
        help="Threads of a worker; other numbers of them round otherwise.",
    ),
    click.option(
        "--gpus-each",
        type=click.FloatRange(0, 64),
        help="GPUs of a worker; 0.5: two workers on each.  [default: 1 where there are GPUs]",
    ),
    click.option(
        "--store",
        "stored",
        type=click.Choice(["float32", "float16"]),
        default="float32",
        show_default=True,
        help="Numbers in the files of features; float16 takes half the room.",
    ),
    click.option("--mixed-versions", is_flag=True, help="Also workers with other versions of what may change numbers."),
)

_OF_WORKERS = ("cpus_each", "gpus_each", "mixed_versions")
ENGINE_NAMES = ("root", "on", "part", "cpus_each", "gpus_each", "stored", "mixed_versions")


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ``--to``, ``--on``, ``--part``, ``--cpus-each``, ``--gpus-each``, ``--store`` and ``--mixed-versions``.

    The command gets them by the names of :data:`ENGINE_NAMES` in its ``**options``, from which :func:`engine_of` makes
    an :class:`Engine`.
    """
    return with_options(command, (PLACE_OPTION, *_ENGINE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
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
        return None if "://" in str(self.where) else Path(self.where)

    @property
    def is_used(self) -> bool:
        """True if work is to be done item by item, with so many threads each, on whatever workers.

        Without it this process computes with all its threads, as a library function would.
        """
        return self.on is not None or self.part is not None or self.folder is None

    @property
    def place(self) -> Place:
        """The place of the features; QueryError if there is none of this name."""
        from ..storage import place_at

        return place_at(self.where)

    def writable_place(self) -> Place:
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

    @contextmanager
    def executor(self, device: str | None = None) -> Iterator[Executor]:
        """The workers, which end with the block."""
        from ..execution.opening import open_executor

        with closing(open_executor(self.on, resources=self.resources(device), part=self.part)) as workers:
            yield workers


def engine_of(options: dict[str, Any]) -> Engine:
    """Takes the engine's options out of those of a verb; refuses those without effect.

    ``skip_corrupt`` becomes True or False: by default images that cannot be read are left out where an engine is used.
    """
    from ..evaluation.evaluating import evaluations_folder

    own = {name: options.pop(name) for name in ENGINE_NAMES}
    engine = Engine(where=own.pop("root") or evaluations_folder(), **own)
    if not engine.is_used:
        refuse_idle(_OF_WORKERS, "this process computes by itself", remedy=", or add --on")
    if options.get("skip_corrupt", False) is None:
        options["skip_corrupt"] = engine.is_used
    return engine
