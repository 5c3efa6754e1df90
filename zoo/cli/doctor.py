"""``zoo doctor``: this installation, or what hosts say of weights; ``zoo completion``: the script of a shell."""

from __future__ import annotations

import os
import platform
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import metadata as installed
from itertools import chain, groupby
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal, NamedTuple

import click

from ..cards.answers import make_table
from ..cards.catalogue import load_catalogue
from ..cards.schema import EncoderCard, Missing
from ..errors import StoreError, ZooError, format_count
from ..files import NO_HOME, get_cache_folder, get_content_folder, get_user_folder
from ..storage import OFF, ON, format_place, is_offline, strip_password
from ..version import __version__, find_library_version
from ..weights.hosts import find_unreachable, parse_host
from ..weights.locations import format_location, get_mirror, get_weights_folder
from .facts import search_encoders
from .options import complete_encoder_names
from .output import (
    NothingFound,
    add_json_option,
    format_entry,
    format_list,
    format_size,
    print_json,
    print_notes,
    print_table,
)

DISTRIBUTION = "ssl-zoo"
_ALWAYS = ("click", "filelock", "packaging", "rich")
EXTRAS = {
    "tables": "pandas",
    "models": "numpy pillow timm torch torchvision safetensors huggingface-hub fsspec requests tqdm urllib3",
    "study": "jinja2 matplotlib numpy optuna scipy shap statsmodels threadpoolctl xgboost",
    "evaluate": "optuna scikit-learn scipy threadpoolctl",
    "images": "datasets",
    "dicom": "pydicom",
    "heif": "pillow-heif",
    "tiff": "imagecodecs tifffile",
    "fast": "openvino",
    "onnx": "onnx onnxruntime onnxscript",
    "site": "markdown-it-py",
    "pocket": "lightly",
}
"""The libraries that each extra adds."""


class Check(NamedTuple):
    """One check and its result."""

    topic: str
    name: str
    status: Literal["ok", "warning", "problem"]
    detail: str


_COMMAND_EXAMPLES = """\b
Examples:
  zoo doctor
  zoo doctor --offline --json
  zoo doctor --access 'dinov3*'
"""
_MARKS = {"ok": "", "warning": "warning: ", "problem": "PROBLEM: "}
_COLOURS = {"ok": None, "warning": "yellow", "problem": "red"}


@click.command("doctor", epilog=_COMMAND_EXAMPLES)
@click.option("--offline", is_flag=True, help="Ask no host; ZOO_OFFLINE=1 does the same.")
@click.option(
    "--access",
    "pattern",
    metavar="PATTERN",
    shell_complete=complete_encoder_names,
    help="Instead, ask the hosts of these encoders whether their weights are open, gated, gone or changed.",
)
@add_json_option
def doctor_command(offline: bool, pattern: str | None, as_json: bool) -> None:
    """Check this installation, or with --access the hosts of weights.

    Versions, content, caches and the network. Exit code 1 if there is a problem, such as a cache that cannot be
    written; an absent extra or a host that does not answer is none.

    --access downloads nothing: the host of every place of the encoders that PATTERN matches, as in zoo list, gets a
    HEAD request. open: anyone can download; gated: access is granted by the publisher, and whether your token has it is
    said; gone; changed: not the file whose size, hash or revision is recorded; unreachable. Exit code 1 if a host
    contradicts a card, or could not be asked.
    """
    if pattern is not None:
        if offline or is_offline():
            raise click.UsageError("Got --access where no host may be asked (--offline or ZOO_OFFLINE).")
        _report_access(pattern, as_json=as_json)
        return
    checks = chain(check_versions(), check_content(), check_caches(), check_network(offline=offline))
    found: list[Check] = []
    if as_json:
        found = list(checks)
        sound = all(check.status != "problem" for check in found)
        print_json({"sound": sound, "checks": [check._asdict() for check in found]})
    else:  # each as it is made: the network comes last and takes longest
        for topic, members in groupby(checks, key=lambda check: check.topic):
            click.echo(("\n" if found else "") + click.style(topic.capitalize(), bold=True))
            for check in members:
                text = "\n".join(format_entry(check.name, _MARKS[check.status] + check.detail))
                click.secho(text, fg=_COLOURS[check.status])
                found.append(check)
    problems = [check.name for check in found if check.status == "problem"]
    if problems:
        raise NothingFound(f"{format_count(len(problems), 'problem')}: {', '.join(problems)}.")
    if not as_json:
        click.echo("\nNo problem found.")


def check_versions() -> Iterator[Check]:
    """Checks the zoo, its libraries and the extras they belong to."""
    from packaging.requirements import Requirement

    yield Check("versions", "python", "ok", platform.python_version())
    own = find_library_version(DISTRIBUTION)
    if own not in (None, __version__):
        detail = f"{__version__} runs, but {own} is installed; run: pip install -e . in the folder of the zoo"
        yield Check("versions", DISTRIBUTION, "warning", detail)
    else:
        detail = f"{__version__}{'' if own else ', run from a folder without being installed'}"
        yield Check("versions", DISTRIBUTION, "ok", detail)
    declared = map(Requirement, (installed.requires(DISTRIBUTION) or []) if own else [])
    wanted = {requirement.name: requirement.specifier for requirement in declared if requirement.specifier}
    for extra, libraries in {"": " ".join(_ALWAYS), **EXTRAS}.items():
        for library in libraries.split():
            version = find_library_version(library)
            if version is None and extra:
                yield Check("versions", library, "ok", f"not installed; pip install 'ssl-zoo[{extra}]' adds it")
            elif version is None:
                yield Check("versions", library, "problem", "not installed; run: pip install ssl-zoo")
            elif library in wanted and not wanted[library].contains(version, prereleases=True):
                yield Check("versions", library, "problem", f"{version}, but the zoo needs {wanted[library]}")
            else:
                yield Check("versions", library, "ok", version)


def check_content() -> Iterator[Check]:
    """Checks the folders of content, and that every card and row in them can be read."""
    from ..results.reading import find_damaged_files

    def checked(name: str, look: Callable[[], str]) -> Check:
        try:
            return Check("content", name, "ok", look())
        except ZooError as error:
            return Check("content", name, "problem", str(error))

    def own_folder() -> str:
        folder = get_user_folder()
        if problem := _obstacle(folder, "ZOO_HOME"):
            raise StoreError(problem)
        return f"{folder}{'' if os.path.isdir(folder) else ' (none yet)'}"

    for name in ("metadata", "results", "analysis"):
        yield checked(f"{name} folder", partial(_folder_of, name))
    yield checked("your own folder", own_folder)
    cards = checked("cards", lambda: f"{len(load_catalogue()):,} read")
    yield cards
    if cards.status == "ok":
        if load_catalogue().left_out:
            yield Check("content", "your own cards", "problem", " ".join(load_catalogue().left_out))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            read = checked("results", _read_results)
        yield read
        known = load_catalogue().left_out
        left_out = dict.fromkeys(text for one in caught if (text := str(one.message)) not in known)
        if left_out:
            yield Check("content", "your own results", "problem", " ".join(left_out))
    if damaged := find_damaged_files():
        detail = f"{', '.join(damaged)}: not as the checksums say; install ssl-zoo again"
        yield Check("content", "results intact", "problem", detail)
    else:
        yield Check("content", "results intact", "ok", "all shipped files match their checksums")


def _folder_of(name: str) -> str:
    return str(get_content_folder(name))


def _read_results() -> str:
    from ..results.reported import reported_numbers
    from ..results.reported_values import CARD
    from ..results.rows import errata, read_rows

    n_rows, n_errata = len(read_rows(with_unlisted=True)), len(errata())
    n_reported = sum(one.source != CARD for one in reported_numbers())
    return f"{format_count(n_rows, 'row')}, {n_errata} errata and {n_reported:,} reported numbers read"


def _nearest(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    return next((place for place in (folder, *folder.parents) if os.path.exists(place)), Path.cwd())


def _obstacle(folder: Path, variable: str) -> str:
    """Why nothing can be written to a folder, and what to do; "" if it can; tries it, as permissions do not show it."""
    remedy = f"set {variable} to a folder that can be written"
    if folder.is_relative_to(NO_HOME):
        return f"there is no home folder; {remedy}"
    place = _nearest(folder)
    if not place.is_dir():
        return f"{place} is not a folder; {remedy}"
    try:
        with TemporaryFile(dir=place):
            return ""
    except OSError:
        return f"{folder}: nothing can be written there; {remedy}"


_LEAST_FREE_BYTES = 2 * 1024**3  # the largest checkpoints need more than one GiB
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")
_OFFLINE = "ZOO_OFFLINE"
_HOST_TIMEOUT_S = 4.0


def check_caches() -> Iterator[Check]:
    """Checks the folders of stored files: how much they take, and how much is free."""
    yield _cache("zoo", "ZOO_CACHE", get_cache_folder)
    yield _cache("weights", "ZOO_CACHE or TORCH_HOME", get_weights_folder)
    if place := get_mirror():
        yield Check("caches", "mirror (ZOO_MIRROR)", "ok", f"{format_place(place)}: every load comes from there")


def _cache(owner: str, variable: str, locate: Callable[[], Path]) -> Check:
    name = f"{owner} ({variable})"
    try:
        folder = locate()
    except (ZooError, RuntimeError) as error:  # pathlib says so of a home that it cannot find
        return Check("caches", name, "problem", f"{str(error).rstrip('.')}; set {variable} to a folder")
    if obstacle := _obstacle(folder, variable):
        return Check("caches", name, "problem", obstacle)
    free = shutil.disk_usage(_nearest(folder)).free
    used = sum(os.lstat(os.path.join(parent, name)).st_size for parent, _, names in os.walk(folder) for name in names)
    detail = f"{folder}: {format_size(used)} used, {format_size(free)} free"
    if free < _LEAST_FREE_BYTES:
        return Check("caches", name, "warning", f"{detail}; too little for large weights")
    return Check("caches", name, "ok", detail)


def check_network(*, offline: bool) -> Iterator[Check]:
    """Checks proxies, and whether the hosts that the cards name answer."""
    for variable in (*_PROXIES, "HF_HUB_OFFLINE"):
        if os.environ.get(variable):
            yield Check("network", variable, "ok", strip_password(os.environ[variable]))
    stated = os.environ.get(_OFFLINE, "").strip()
    if stated.casefold() not in (*ON, *OFF):
        yield Check("network", _OFFLINE, "warning", f"{stated!r} is taken for yes, expected 1 or 0")
    if offline or is_offline():
        yield Check("network", "hosts", "ok", f"not asked (--offline or {_OFFLINE})")
        return
    users: Counter[str] = Counter()  # encoders with weights on each host
    for card in load_catalogue().values():
        places = {card.weights.url, *card.weights.mirrors, *card.weights.companions}
        users.update(
            {str(parse_host(place)) for place in places if not isinstance(place, Missing) and parse_host(place)}
        )
    reasons = find_unreachable([f"https://{host}/" for host in users], seconds=_HOST_TIMEOUT_S)
    for host, n in users.most_common():
        reason = reasons.get(f"https://{host}/")
        said = "answers" if reason is None else f"does not answer: {reason}"
        yield Check(
            "network", host, "ok" if reason is None else "warning", f"weights of {format_count(n, 'encoder')}; {said}"
        )


# --- access ----------------------------------------------------------------------------------------------------------

_AT_ONCE = 8  # requests; the Hub and the others stay polite to so many
_FITS: dict[str, tuple[str, ...]] = {  # what a card says, and what its host may answer then
    "open": ("open", "here"),
    "unfit": ("open", "here"),
    "gated": ("gated",),
    "by request": ("gated",),
    "gone": ("gone",),
}


def _report_access(pattern: str, *, as_json: bool) -> None:
    """Asks the host of every place of the cards that the pattern matches, and prints what was answered."""
    names, cards = search_encoders([pattern]), load_catalogue()
    if not names:
        raise NothingFound(f"No encoder has a name like {pattern!r}.")
    places = {name: list(_places(cards[name])) for name in names}  # role, what is recorded, what the card says
    answers = _answers({recorded for found in places.values() for _, recorded, _ in found})
    records: dict[str, list[dict[str, Any]]] = {}
    for name, asked in places.items():
        records[name] = []
        for role, recorded, says in asked:
            answer = answers[recorded]
            fitting = _FITS.get(says, ("open", "here", "gated"))
            records[name].append(
                {
                    "file": role,
                    "place": format_location(recorded.place),
                    "access": answer.access,
                    "card_says": says or None,
                    "agrees": None if answer.access == "unreachable" else answer.access in fitting,
                    "detail": answer.detail or None,
                    "revision": answer.revision or None,
                    "sha256": answer.sha256 or None,
                    "size_bytes": answer.size_bytes,
                }
            )
    counts = dict(Counter(found[0]["access"] for found in records.values() if found).most_common())
    every = [(name, one) for name, found in records.items() for one in found]
    if as_json:
        encoders = [
            {"encoder": name, "access": found[0]["access"] if found else None, "places": found}
            for name, found in records.items()
        ]
        agrees = all(one["agrees"] for _, one in every)
        print_json({"n_encoders": len(names), "counts": counts, "agrees": agrees, "encoders": encoders})
    else:
        rows = []
        for name, one in every:
            amount = "" if one["size_bytes"] is None else format_size(one["size_bytes"])
            says = "agrees" if one["agrees"] else one["card_says"] or "nothing"
            rows.append([name, one["file"], one["access"], says, amount, one["place"], one["detail"] or ""])
        print_table(make_table(["encoder", "file", "access", "card", "size", "place", "answer"], rows, numbers=[4]))
        without = [name for name, found in records.items() if not found]
        lacking = f"; without a place: {', '.join(without)}" if without else ""
        print_notes([", ".join(f"{n} {access}" for access, n in counts.items()) + lacking])
    parts = []
    for verdict, what in ((False, "not as the card says"), (None, "not known, a host could not be asked")):
        among = list(dict.fromkeys(name for name, one in every if one["agrees"] is verdict))
        parts += [f"{what}: {format_list(among, 10)}"] * bool(among)
    if parts:
        raise NothingFound(f"Access is {'; '.join(parts)}.")


def _places(card: EncoderCard) -> Iterator[tuple[str, Any, str]]:
    """Every place of a card's files, each repository of the Hub once: role, what is recorded, what the card says."""
    from ..weights.access import RecordedFile, resolve_location
    from ..weights.lock import find_locked_file
    from ..weights.store import format_recorded_name

    def text(fact: Any) -> str:
        return "" if isinstance(fact, Missing) else str(fact)

    weights = card.weights
    says = text(weights.availability)
    roles = [("weights", weights.url, says)]
    roles += [("mirror", place, "") for place in weights.mirrors]
    roles += [("companion", place, says) for place in weights.companions]
    roles += [("authors' copy", weights.authors_url, text(weights.authors_availability))]
    seen = set()
    for role, place, expected in roles:
        if isinstance(place, Missing):
            continue
        try:
            found = resolve_location(place)
            is_on_hub = found.kind == "hub"  # a name of timm and its repository on the Hub are one
            identity: object = (found.repository, found.filenames[0]) if is_on_hub else found.url or found.path
        except ZooError:  # asking will say why
            is_on_hub, identity = False, place
        if identity in seen or (role == "authors' copy" and not is_on_hub):  # a page says nothing of a file
            continue
        seen.add(identity)
        locked = find_locked_file(format_recorded_name(place))
        sha256, revision, n_bytes = "", "", None
        if role == "weights":
            sha256, revision = text(weights.sha256), text(weights.revision)
            n_bytes = None if isinstance(weights.size_bytes, Missing) else weights.size_bytes
        if locked:
            sha256, n_bytes = sha256 or locked.sha256, locked.size_bytes if n_bytes is None else n_bytes
        yield role, RecordedFile(place=place, revision=revision, sha256=sha256, size_bytes=n_bytes), expected


def _answers(questions: set[Any]) -> dict[Any, Any]:
    """What the hosts answer, by what is recorded of a place."""
    from ..progress import ProgressBar
    from ..weights.access import ask

    ordered = sorted(questions, key=lambda one: str(one.place))
    bar, answers = ProgressBar("places"), {}
    bar.start("asking", len(ordered), 0)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            for one, answer in zip(ordered, pool.map(ask, ordered), strict=True):
                answers[one] = answer
                bar.advance(1)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after an interrupt nothing more is asked
            bar.end()
    return answers


# --- completion ------------------------------------------------------------------------------------------------------

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
