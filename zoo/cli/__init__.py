"""The command ``zoo``: the table of its verbs, whose modules are imported when they are called, errors and exit codes.

Every verb prints a table, or one JSON document with ``--json``. Exit codes: 0 fine; 1 a problem was found, nothing was
found, or something outside of the command line failed, such as the network, a full disk or a damaged file; 2 the
command line cannot be understood; 130 interrupted by Ctrl-C, 143 by SIGTERM.

A new verb is a function ``VERB_command`` in a module of this package, and a line in :data:`VERBS`; a verb below another
is a ``VERB_SUB_command``, and a line in the ``verbs`` of that one. Verbs do not import each other; what several of them
use is in ``options``, ``constraint_options``, ``measure_options``, ``engine_options``, ``output``, ``facts``,
``evaluation_output`` and ``stored_answers``.
"""

from __future__ import annotations

import _thread
import errno
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from ..errors import ComputingNote, ContentWarning, NameNote, QueryError, UnknownName, ZooError, escape_unprintable
from ..files import cache_lookups
from ..optional import announce_slow_imports
from ..version import __version__
from .options import ARGUMENTS, FoldedCommand
from .output import escape_output, log_progress, wrap_text


@dataclass(frozen=True, slots=True)
class Verb:
    """The module of this package that defines a verb, as ``VERB_command``, and its line in the help above it.

    ``group`` is the heading that it stands below, what it is for; a verb below another has none.
    """

    module: str
    line: str
    group: str = ""


def load_command(verb: Verb, function: str) -> click.Command:
    """The command that the module of a verb defines under this name; imports the module."""
    command: click.Command = getattr(import_module(f".{verb.module}", __package__), function)
    return command


class CommandWithVerbs(FoldedCommand):
    """A command that becomes another one if its first argument is the name of a verb below it, as zoo results merge.

    ``verbs`` has the verbs by name: SUB of VERB is the function ``VERB_SUB_command``.
    """

    def __init__(self, name: str | None, *, verbs: Mapping[str, Verb], **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self.verbs = dict(verbs)

    def verb(self, name: str) -> click.Command:
        """The command of a verb below this one."""
        return load_command(self.verbs[name], f"{self.name}_{name}_command")

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and args[0] in self.verbs:
            return self.verb(args[0]).make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        with formatter.section("Verbs"):
            formatter.write_dl([(f"{ctx.info_name} {name}", verb.line) for name, verb in self.verbs.items()])


VERBS = {  # by group, each in the order of a first use
    "list": Verb("list", "List encoders: filter, sort, choose columns.", "Find"),
    "show": Verb("show", "Show one encoder: error, licence, size, the line to load it.", "Find"),
    "results": Verb("results", "Show the measured errors and their components.", "Find"),
    "compare": Verb("list", "Show how encoders differ.", "Find"),
    "recommend": Verb("recommend", "Rank encoders by the error to expect with the labels you have.", "Find"),
    "data": Verb("data", "Show how your images are understood.", "Find"),
    "choose": Verb("choose", "Find the encoder for your labelled images.", "Find"),
    "evaluate": Verb("evaluate", "Measure encoders on your labelled images.", "Measure"),
    "decompose": Verb("evaluate", "Show the components of the full-shot error.", "Measure"),
    "segment": Verb("segment", "Find the encoder, layer and size that segment your images.", "Measure"),
    "layers": Verb("layers", "Find the block, pooling and image size that suit yours.", "Measure"),
    "metric": Verb("metric", "Measure how good features are, without labels.", "Measure"),
    "curve": Verb("curve", "Show what pre-training is worth on a task.", "Measure"),
    "probe": Verb("evaluate", "Train tuned linear probes on features.", "Measure"),
    "features": Verb("features", "Compute features of images, once.", "Measure"),
    "predict": Verb("predict", "Classify images by a saved probe.", "Measure"),
    "runs": Verb("runs", "Show what is done, running or failed of work on many workers.", "Measure"),
    "look": Verb("look", "See what encoders see in images.", "Look"),
    "study": Verb("study", "Answer the paper's questions with the results.", "Look"),
    "site": Verb("site", "Write a static site of everything the zoo knows.", "Look"),
    "demo": Verb("demo", "Run the main job on real input.", "Look"),
    "export": Verb("site", "Write a folder for the Hugging Face Hub.", "Share"),
    "mirror": Verb("weights", "Copy weights to where there is no network.", "Share"),
    "get": Verb("weights", "Fetch the weights of encoders into the cache.", "Manage"),
    "register": Verb("register", "Add a checkpoint of your own as an encoder.", "Manage"),
    "unregister": Verb("register", "Take encoders that you have registered out of the zoo.", "Manage"),
    "check": Verb("register", "Compare features with those of the first load.", "Manage"),
    "verify": Verb("cache", "Re-hash all stored weights.", "Manage"),
    "cache": Verb("cache", "List, remove or tidy the stored weights.", "Manage"),
    "doctor": Verb("doctor", "Check this installation.", "Manage"),
    "completion": Verb("doctor", "Print the completion script of a shell.", "Manage"),
}

_EPILOG = """\b
Examples:
  zoo list 'dino*'
  zoo list --where 'family == "vit" and z_dim <= 768' --sort train_test
  zoo show dino_vitS16
  zoo compare dino_vitS16 mae_vitB16
  zoo recommend
  zoo recommend --labels 20k --max-parameters 100M --licence permissive
  zoo choose ./birds --time 30m --licence permissive
  zoo evaluate pocket_simclr_rn_shapes shapes --decompose
  zoo layers pocket_simclr_vit_shapes digits
  zoo metric all pocket_simclr_rn_shapes shapes
  zoo curve pocket_simclr_rn_shapes shapes --task normals
  zoo study where_the_risk_lies
  zoo site --serve
  eval "$(zoo completion bash)"
"""


_LOOK_ONCE = ("list", "show", "results", "compare", "recommend", "choose", "site")  # verbs that add no content
_TABLES = _LOOK_ONCE[:4]  # of these those that print one, which may have many cells and no cycles, and end
_SCRIPTS = {"submit": "scripts/submit_results.py"}  # verbs of earlier versions
_HAS_FORKS = hasattr(os, "register_at_fork")  # not on Windows
_GRACE_S = 4.0  # for what a signal interrupts
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)


class CommandLineError(click.ClickException):
    """A command line that cannot be understood or answered: one sentence, exit code 2."""

    exit_code = 2


class VerbGroup(click.Group):
    """A group that knows its verbs by name and imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*VERBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        return load_command(VERBS[cmd_name], f"{cmd_name}_command")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            if args[0] in _SCRIPTS:
                raise CommandLineError(
                    f"{args[0]!r} is no verb but a script: python {_SCRIPTS[args[0]]}, in a checkout."
                )
            raise CommandLineError(str(UnknownName("verb", args[0], VERBS, hint="Run 'zoo --help' to see them all.")))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, VERBS))
        for group in dict.fromkeys(verb.group for verb in VERBS.values()):
            with formatter.section(group):
                formatter.write_dl([(n.ljust(width), verb.line) for n, verb in VERBS.items() if verb.group == group])

    def invoke(self, ctx: click.Context) -> Any:
        ctx.meta[ARGUMENTS] = (*ctx._protected_args, *ctx.args)
        try:
            quick = _quick("".join(ctx.meta[ARGUMENTS][:1]))
            with (
                escape_output(),
                _warnings_in_a_line(),
                _stopped_by_signals(),
                announce_slow_imports(log_progress),
                quick,
            ):
                return super().invoke(ctx)
        except (QueryError, UnknownName) as error:
            raise CommandLineError(str(error)) from error
        except ZooError as error:  # of what no other command line would mend
            raise click.ClickException(str(error)) from error
        except click.ClickException as error:
            error.message = escape_unprintable(error.message)  # type: ignore[misc]
            raise
        except BrokenPipeError:  # the reader, such as head, has seen enough
            _discard_stdout()
            ctx.exit(0)
        except KeyboardInterrupt as error:
            above = "\n" if sys.stderr.isatty() else ""  # which shows the key that was pressed
            click.echo(f"{above}Stopped. Finished work is kept; run the same command again to go on.", err=True)
            ctx.exit(143 if isinstance(error, Terminated) else 130)


class Terminated(KeyboardInterrupt):
    """The process was asked to end by SIGTERM, as by Slurm or a cluster: it stops as after Ctrl-C."""


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """SIGTERM ends the block by :class:`Terminated` and SIGINT by KeyboardInterrupt, whatever its threads are at.

    A child that was forked in it dies of SIGTERM as before. Windows has Ctrl-C alone, which Python raises by itself.
    """
    if threading.current_thread() is not threading.main_thread() or not _HAS_FORKS:
        yield
        return
    here, has_ended = os.getpid(), threading.Event()

    def stop(number: int, frame: object) -> None:
        if os.getpid() != here and number == signal.SIGTERM:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and not ignored, as nohup has it
        numbers.append(signal.SIGINT)
    came, comes = os.pipe()
    os.set_blocking(comes, False)

    def watch() -> None:
        while (number := os.read(came, 1)) and number[0] not in numbers:
            pass
        os.close(came)
        if number:
            _end_soon(128 + number[0], has_ended)

    # A handler runs in the main thread, which a signal does not wake that comes just before it waits for a lock.
    _thread.start_new_thread(watch, ())  # a Thread takes locks, which the interrupted code may have
    before = {number: signal.signal(number, stop) for number in numbers}
    wakes = signal.set_wakeup_fd(comes, warn_on_full_buffer=False)
    try:
        yield
    finally:
        has_ended.set()
        if os.getpid() == here:
            signal.set_wakeup_fd(wakes)
        os.close(comes)
        for number, handler in before.items():
            signal.signal(number, handler)


# A signal for a child is not one for the process that forked it.
if _HAS_FORKS:
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))


def _end_soon(code: int, has_ended: threading.Event) -> None:
    """Ends this process and its children in a few seconds, if the event does not come before.

    A thread that reads a file or waits for a disk ends in its own time, and a process with its last thread.
    """

    def end() -> None:
        if not has_ended.wait(_GRACE_S):
            os.write(2, b"Stopped without waiting for what was being read. Finished work is kept.\n")
            if processes := sys.modules.get("multiprocessing"):
                for child in processes.active_children():
                    child.kill()
            os._exit(code)

    _thread.start_new_thread(end, ())  # a Thread takes locks, which the interrupted code may have


@contextmanager
def _quick(verb: str) -> Iterator[None]:
    """Spares what takes long with many cards and rows: looking for changes again and again, collecting no garbage."""
    collects = gc.isenabled()
    if verb in _TABLES:
        gc.disable()
    try:
        with cache_lookups() if verb in _LOOK_ONCE else nullcontext():
            yield
    finally:
        if collects:
            gc.enable()


_SHOWN_WARNINGS = (ComputingNote, ContentWarning, NameNote)


@contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """Prints each warning about ignored content, and what names stand for, once, as a line on stderr."""
    with warnings.catch_warnings():
        for shown_kind in _SHOWN_WARNINGS:
            warnings.simplefilter("default", shown_kind)
        show = warnings.showwarning
        said: set[str] = set()  # Python forgets what it has shown whenever a library changes a filter

        def shown(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, _SHOWN_WARNINGS):
                show(escape_unprintable(str(message)), category, *where, **more)
            elif str(message) not in said:
                said.add(str(message))
                is_note = not issubclass(category, ContentWarning)
                text = wrap_text(f"{'' if is_note else 'Warning: '}{message}")
                click.secho(text, fg=None if is_note else "yellow", err=True)

        warnings.showwarning = shown
        yield


@click.group(
    cls=VerbGroup,
    epilog=_EPILOG,
    subcommand_metavar="VERB ...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="zoo", message="%(prog)s %(version)s")
@click.pass_context
def zoo(ctx: click.Context) -> None:
    """Self-supervised vision encoders: what they are, what was measured, which one to take.

    Every verb but completion takes --json.
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False


def main(*before: str) -> None:
    """Entry point of the command: runs one verb and exits; ``before`` are arguments before those of the process."""
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115 (closed)
    # Before torch: threads of OpenMP that wait for others sleep. Spinning, their default, took six times the processor
    # seconds of a probe, and ten times as long, where the cores are busy
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a poor terminal shows "?" for an accent, not a traceback
    if "_ZOO_COMPLETE" in os.environ:  # a shell asks, in the middle of a line that is being typed
        warnings.simplefilter("ignore", ContentWarning)
        warnings.simplefilter("ignore", NameNote)
    try:
        code = zoo.main([*before, *sys.argv[1:]], prog_name="zoo", standalone_mode=False)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except OSError as error:
        if error.filename is None:  # of the stream that verbs print to
            _discard_stdout()
            click.echo(f"Error: The output could not be written ({error.strerror}); write it somewhere else.", err=True)
        elif error.errno in _DISK_ERRORS:
            click.echo(
                f"Error: {escape_unprintable(str(error.filename))}: {error.strerror}; make room or make it accessible.",
                err=True,
            )
        else:
            raise
        sys.exit(1)
    if code in (130, 143):
        _end_soon(code, threading.Event())
    sys.exit(code or 0)


def _discard_stdout() -> None:
    """Discards its buffer, which the end of the process would try to write again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
