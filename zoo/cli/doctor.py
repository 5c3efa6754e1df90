"""``zoo doctor`` checks this installation; ``zoo completion`` prints the completion script of a shell."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata as installed
from itertools import chain, groupby
from pathlib import Path
from tempfile import TemporaryFile
from typing import Literal

import click

from ..cards.catalogue import catalogue
from ..cards.schema import Missing
from ..errors import ZooError
from ..files import NO_HOME, cache_folder, content_folder, user_folder
from ..storage import OFF, ON, is_offline, shown_place, without_password
from ..version import __version__
from ..weights.places import mirror_place, weights_folder
from ..weights.reach import host_of, unreachable
from .options import encoder_names
from .output import NothingFound, entry, json_option, print_json

DISTRIBUTION = "ssl-zoo"
EXTRAS = {
    "tables": ("pandas",),
    "models": ("numpy", "pillow", "timm", "torch", "torchvision", "safetensors", "huggingface-hub", "fsspec", "tqdm"),
    "study": ("jinja2", "matplotlib", "numpy", "optuna", "scipy", "statsmodels", "threadpoolctl", "xgboost"),
    "evaluate": ("optuna", "scikit-learn", "scipy", "threadpoolctl"),
    "images": ("datasets",),
    "dicom": ("pydicom",),
    "heif": ("pillow-heif",),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
    "site": ("itables",),
    "pocket": ("lightly",),
}
_ALWAYS = ("click", "filelock", "packaging", "prettytable", "rich")
_OLDEST_PYTHON = (3, 11)

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its result."""

    topic: str
    name: str
    status: Status
    detail: str


def versions() -> Iterator[Check]:
    """Checks Python, the zoo, its libraries and the extras they belong to."""
    topic = "versions"
    old = sys.version_info < _OLDEST_PYTHON
    wanted = ".".join(map(str, _OLDEST_PYTHON))
    yield Check(topic, "python", "problem" if old else "ok", platform.python_version() + (f", needs {wanted}" * old))
    own = _version(DISTRIBUTION)
    if own is None:
        yield Check(topic, DISTRIBUTION, "ok", f"{__version__}, run from a folder without being installed")
    elif own != __version__:
        detail = f"{__version__} runs, but {own} is installed; run: pip install -e . in the folder of the zoo"
        yield Check(topic, DISTRIBUTION, "warning", detail)
    else:
        yield Check(topic, DISTRIBUTION, "ok", own)
    wanted_versions = _specifiers() if own else {}
    for library in _ALWAYS:
        yield _library(library, wanted_versions, "problem", "run: pip install ssl-zoo")
    for extra, libraries in EXTRAS.items():
        for library in libraries:
            yield _library(library, wanted_versions, "ok", f"pip install 'ssl-zoo[{extra}]' adds it")


def _library(name: str, wanted: Mapping[str, str], if_absent: Status, remedy: str) -> Check:
    version = _version(name)
    if version is None:
        return Check("versions", name, if_absent, f"not installed; {remedy}")
    if name in wanted:
        from packaging.specifiers import SpecifierSet

        if not SpecifierSet(wanted[name]).contains(version, prereleases=True):
            return Check("versions", name, "problem", f"{version}, but the zoo needs {wanted[name]}")
    return Check("versions", name, "ok", version)


def _version(distribution: str) -> str | None:
    try:
        return installed.version(distribution)
    except installed.PackageNotFoundError:
        return None


def _specifiers() -> dict[str, str]:
    from packaging.requirements import Requirement

    requirements = map(Requirement, installed.requires(DISTRIBUTION) or [])
    return {requirement.name: str(requirement.specifier) for requirement in requirements if requirement.specifier}


def content() -> Iterator[Check]:
    """Checks the folders of content, and that every card and row in them can be read."""
    for name in ("metadata", "results", "analysis"):
        try:
            yield Check("content", f"{name} folder", "ok", str(content_folder(name)))
        except ZooError as error:
            yield Check("content", f"{name} folder", "problem", str(error))
    yield _own_folder()
    try:
        cards = catalogue()
    except ZooError as error:
        yield Check("content", "cards", "problem", str(error))
        yield Check("content", "results", "warning", "not read, for they name encoders and the cards cannot be read")
    else:
        yield Check("content", "cards", "ok", f"{len(cards):,} read")
        if cards.left_out:
            yield Check("content", "your own cards", "problem", " ".join(cards.left_out))
        yield from _results()
    yield _intact()


def _own_folder() -> Check:
    name = "your own folder"
    try:
        folder = user_folder()
    except ZooError as error:
        return Check("content", name, "problem", str(error))
    obstacle = None if folder.is_relative_to(NO_HOME) else obstacle_to(folder)
    if obstacle is not None:
        return Check("content", name, "problem", f"{obstacle}; move it, or set ZOO_HOME to another folder")
    if not is_writable(nearest(folder)):
        return Check("content", name, "problem", f"{unwritable(folder)}; set ZOO_HOME to a folder that can be written")
    return Check("content", name, "ok", f"{folder}{'' if os.path.isdir(folder) else ' (none yet)'}")


def _results() -> Iterator[Check]:
    from ..cards.catalogue import catalogue
    from ..results.reported_rows import checked_numbers
    from ..results.rows import errata, read_rows

    left_out: list[str] = []
    try:
        n_rows, n_errata = len(read_rows(left_out=left_out, with_unlisted=True)), len(errata(left_out=left_out))
        n_reported = len(list(checked_numbers(catalogue(), left_out)))
    except ZooError as error:
        yield Check("content", "results", "problem", str(error))
        return
    yield Check("content", "results", "ok", f"{n_rows:,} rows and {n_errata} errata read")
    yield Check("content", "reported numbers", "ok", f"{n_reported:,} read")
    if left_out:
        yield Check("content", "your own results", "problem", " ".join(left_out))


def _intact() -> Check:
    from ..results.rows import damaged_files

    name = "results intact"
    try:
        damaged = damaged_files()
    except ZooError as error:
        return Check("content", name, "problem", str(error))
    if damaged:
        differ = f"{', '.join(damaged)}: not as the checksums say"
        return Check("content", name, "problem", f"{differ}; restore what was shipped, or install ssl-zoo again")
    return Check("content", name, "ok", "all shipped files are as their checksums say")


def obstacle_to(folder: Path) -> str | None:
    """What occupies the path of a folder, or of one above it; None if nothing does."""
    place = nearest(folder)
    return None if place.is_dir() else f"{place} is not a folder"


def nearest(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    return next((place for place in (folder, *folder.parents) if os.path.exists(place)), Path.cwd())


def unwritable(folder: Path) -> str:
    """The sentence that nothing can be written to a folder."""
    if folder.is_relative_to(NO_HOME):
        return "there is no home folder that may be looked into"
    return f"{folder}: nothing can be written there"


def is_writable(folder: Path) -> bool:
    """True if a file can be made there; tries it, because permissions alone do not show it."""
    try:
        with TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


_LEAST_FREE_BYTES = 2 * 1024**3  # the largest checkpoints need more than one GiB
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")
_OFFLINE = "ZOO_OFFLINE"
_HOST_TIMEOUT_S = 4.0


def caches() -> Iterator[Check]:
    """Checks the folders of stored files: how much they take, and how much is free."""
    yield _cache("zoo", "ZOO_CACHE", cache_folder)
    yield _cache("weights", "ZOO_CACHE or TORCH_HOME", weights_folder)
    if place := mirror_place():
        yield Check("caches", "mirror (ZOO_MIRROR)", "ok", f"{shown_place(place)}: every load comes from there")
    yield _cache("torch.hub", "TORCH_HOME", lambda: _home("TORCH_HOME", "torch") / "hub", is_needed=False)
    yield _cache("hf", "HF_HOME", lambda: _home("HF_HOME", "huggingface"))


def _home(variable: str, name: str) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(variable) or Path(base) / name).expanduser()


def _cache(owner: str, variable: str, locate: Callable[[], Path], *, is_needed: bool = True) -> Check:
    """Checks one folder of files; the zoo only reads from a cache that is not needed."""
    name = f"{owner} ({variable})"
    try:
        folder = locate()
    except (ZooError, RuntimeError) as error:  # pathlib says so of a home that it cannot find
        return Check("caches", name, "problem", f"{error}; set {variable} to a folder".replace(".;", ";"))
    obstacle = None if folder.is_relative_to(NO_HOME) else obstacle_to(folder)
    if obstacle is not None:
        return Check("caches", name, "problem", f"{obstacle}, so {folder} cannot be one; set {variable} to a folder")
    used = f"{_bytes(_size(folder))} used" if os.path.isdir(folder) else "empty"
    existing = nearest(folder)
    if not is_writable(existing):
        detail = f"{unwritable(folder)} ({used}); set {variable} to a folder that can be written"
        return Check("caches", name, "problem" if is_needed else "warning", detail)
    free = shutil.disk_usage(existing).free
    detail = f"{folder}: {used}, {_bytes(free)} free"
    if free < _LEAST_FREE_BYTES:
        return Check("caches", name, "warning", f"{detail}; too little for large weights")
    return Check("caches", name, "ok", detail)


def _size(folder: Path) -> int:
    """Bytes of all files below, links not followed."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:  # deleted by somebody else in the meantime
                continue
    return total


def _bytes(n: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "bytes" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} TiB"


def network(*, offline: bool) -> Iterator[Check]:
    """Checks proxies, and whether the hosts that the cards name answer."""
    for variable in (*_PROXIES, "HF_HUB_OFFLINE"):
        if os.environ.get(variable):
            yield Check("network", variable, "ok", without_password(os.environ[variable]))
    stated = os.environ.get(_OFFLINE, "").strip()
    if stated.casefold() not in (*ON, *OFF):
        yield Check("network", _OFFLINE, "warning", f"{stated!r} is taken for yes, expected 1 or 0")
    elif stated:
        yield Check("network", _OFFLINE, "ok", stated)
    if offline or is_offline():
        yield Check("network", "hosts", "ok", f"not asked (--offline or {_OFFLINE})")
        return
    try:
        users = _users_of_hosts()
    except ZooError as error:
        yield Check("network", "hosts", "problem", f"not known, for the cards cannot be read: {error}")
        return
    reasons = unreachable([f"https://{host}/" for host in users], seconds=_HOST_TIMEOUT_S)
    for host, n in sorted(users.items(), key=lambda pair: (-pair[1], pair[0])):
        has = f"has weights of {n} encoder{'s' if n > 1 else ''}"
        reason = reasons.get(f"https://{host}/")
        if reason is not None:
            yield Check("network", host, "warning", f"{has}; does not answer: {reason}")
        else:
            yield Check("network", host, "ok", f"{has}; answers")


def _users_of_hosts() -> dict[str, int]:
    """How many encoders have weights on each host."""
    users: dict[str, int] = {}
    for card in catalogue().values():
        places = {card.weights.url, *card.weights.mirrors, *card.weights.companions}
        for host in {host_of(place) for place in places if not isinstance(place, Missing)} - {None}:
            users[str(host)] = users.get(str(host), 0) + 1
    return users


_MARKS = {"ok": "", "warning": "warning: ", "problem": "PROBLEM: "}
_COLOURS = {"ok": None, "warning": "yellow", "problem": "red"}


_EXAMPLES = """\b
Examples:
  zoo doctor
  zoo doctor --offline --json
  zoo doctor --access 'dinov3*'
"""


@click.command("doctor", epilog=_EXAMPLES)
@click.option("--offline", is_flag=True, help="Ask no host; ZOO_OFFLINE=1 does the same.")
@click.option(
    "--access",
    "pattern",
    metavar="PATTERN",
    shell_complete=encoder_names,
    help="Instead, ask the hosts of these encoders whether their weights are open, gated, gone or changed.",
)
@json_option
def doctor_command(offline: bool, pattern: str | None, as_json: bool) -> None:
    """Check this installation, or with --access the hosts of weights.

    Versions, content, caches and the network. Exit code 1 if there is a problem, as a cache is that cannot be written;
    an absent extra or a host that does not answer is none.

    --access downloads nothing: the host of every place of the encoders that PATTERN matches, as in zoo list, is asked
    by a HEAD request. open: for everybody; gated: for those whom its publisher admits, and whether your token is
    admitted is said; gone; changed: another file than the one whose size, hash or revision is recorded; unreachable.
    Exit code 1 if a host says otherwise than a card, or could not be asked.
    """
    if pattern is not None:
        from .access import report

        report(pattern, offline=offline, as_json=as_json)
        return
    checks = chain(versions(), content(), caches(), network(offline=offline))
    if as_json:
        found = list(checks)
        sound = all(check.status != "problem" for check in found)
        print_json({"sound": sound, "checks": [asdict(check) for check in found]})
    else:
        found = _print(checks)
    problems = [check.name for check in found if check.status == "problem"]
    if problems:
        raise NothingFound(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}: {', '.join(problems)}.")


def _print(checks: chain[Check]) -> list[Check]:
    """Prints each check as it is made; the network comes last and takes longest."""
    found: list[Check] = []
    for topic, members in groupby(checks, key=lambda check: check.topic):
        click.echo(("\n" if found else "") + click.style(topic.capitalize(), bold=True))
        for check in members:
            text = "\n".join(entry(check.name, _MARKS[check.status] + check.detail))
            click.secho(text, fg=_COLOURS[check.status])
            found.append(check)
    if all(check.status != "problem" for check in found):
        click.echo("\nNo problem found.")
    return found


_COMPLETION_EXAMPLES = """\b
Put the line of your shell into its start-up file:
  eval "$(zoo completion bash)"       in .bashrc
  eval "$(zoo completion zsh)"        in .zshrc
  zoo completion fish | source        in config.fish
"""


@click.command("completion", epilog=_COMPLETION_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    kinds = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
    # BashComplete.source() starts bash to ask for its version; the script itself is the same for every version
    completion = kinds[shell](ctx.find_root().command, {}, "zoo", "_ZOO_COMPLETE")
    click.echo(completion.source_template % completion.source_vars())
