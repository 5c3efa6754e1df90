"""From a card to an encoder with its trained weights, and its preprocessing.

Weights are looked for in this order: the user's registered encoders, the mirror if ``ZOO_MIRROR`` names one (and then
nothing else), the cache, the places of the card, the best one first. What is not stored in converted form is fetched,
read, converted and stored with its provenance. A later place is tried if an earlier one cannot be reached; a file that
is there and wrong ends the search. Weights that come with the zoo, and a user's file, load even if the cache cannot be
written.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

from .cards import gated_access
from .cards.catalogue import get_base_card, load_catalogue
from .cards.representations import derive_card
from .cards.schema import EncoderCard, Missing, Preprocess
from .encoders import Encoder, build_empty_encoder, build_encoder
from .encoders.build import replace_pooling
from .encoders.layouts import (
    convert,
    find_published_role,
    get_layout,
    is_complete_file,
    require_fit,
)
from .encoders.layouts.lora import Lora
from .encoders.layouts.wrappers import Role
from .encoders.own_files import convert_own_file, hash_untrained
from .encoders.preprocess import build_preprocess
from .encoders.sizes import derive_sized_card, preprocess_at, resize_encoder
from .errors import DataError, QueryError, StoreError, WeightsRefused, WeightsUnavailable
from .files import get_user_folder
from .optional import require_extra
from .regression_check import remember_features
from .storage import format_place
from .version import __version__, find_library_version
from .weights import lock, mirror, store
from .weights.checkpoints import CheckpointContent, is_mapped, read_checkpoint
from .weights.download import DownloadTaken, fetch
from .weights.locations import (
    FetchedFile,
    format_location,
    format_portable_location,
    get_mirror,
    get_weights_folder,
    is_installed,
    is_path,
    is_shipped,
    resolve_source,
)
from .weights.tensors import TensorFileContent, compute_content, read_tensors, write_tensors

with require_extra("models", needed_for="Converting weights"):
    import torch
    from torch import Tensor

_LIBRARIES = ("torch", "torchvision", "timm", "safetensors", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWeights:
    """Converted weights on this machine."""

    path: Path
    record: store.WeightsRecord
    is_new: bool  # fetched and converted just now
    held: Mapping[str, Tensor] | None = None  # the weights themselves, where the file could not be written

    def tensors(self, *, remedy: str) -> dict[str, Tensor]:
        """The state dict, once every byte is what was written; ``describe_remedy`` ends the sentence on damage."""
        if self.held is not None:
            return dict(self.held)
        record = self.record
        content = TensorFileContent(sha256=record.sha256, size_bytes=record.size_bytes, sums=record.sums)
        return read_tensors(self.path, content, remedy=remedy)


def format_registered_location(sha256: str) -> str:
    """The place of registered weights, as a card names it."""
    return f"{store.REGISTERED}{sha256}"


def find_stored_weights(folder: Path, key: str) -> StoredWeights | None:
    """The weights with a key in a folder of converted weights; None if it has none."""
    record = store.find(folder, key)
    if record is None:
        return None
    return StoredWeights(path=store.get_tensors_path(folder, record.sha256), record=record, is_new=False)


def hash_architecture(encoder: Encoder) -> str:
    """Hash of the names, shapes and types of a state dict; encoders with the same one can share weights."""
    digest = blake2b(digest_size=16)
    for name, tensor in encoder.state_dict().items():
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
    return digest.hexdigest()


def store_weights(
    folder: Path,
    name: str,
    tensors: Mapping[str, Tensor],
    *,
    encoder: Encoder,
    origins: tuple[store.FileOrigin, ...],
    layout: str,
    is_registered: bool = False,
    selection: str = "",
    reading: store.FileReading | None = None,
    may_be_held: bool = False,
) -> StoredWeights:
    """Writes converted weights and their record into a folder of converted weights.

    For a user's file the record has which encoder in it was asked for (``selection``), and how it was read. With
    ``may_be_held`` weights that cannot be written are held in memory instead; otherwise nothing is left of them.
    """
    version_of_layout = get_layout(layout).version
    read_as = reading.layout if reading else layout
    about = {"format": "zoo-weights-1", "layout": f"{read_as} {get_layout(read_as).version}"}
    about |= {f"source_sha256_{number}": origin.sha256 for number, origin in enumerate(origins)}
    held = None
    try:
        content = write_tensors(folder / "tensors", tensors, about=about)
    except StoreError:
        if not may_be_held:
            raise
        content = compute_content(tensors, about=about)
        held = {key: tensor.clone() for key, tensor in tensors.items()}  # not pages of a file that may change
    if is_registered:
        first = origins[0]
        place, address = format_registered_location(content.sha256), format_portable_location(first.address)
        origins = (replace(first, place=place, address=address),)  # the folder may be moved, or copied to a mirror
        layout, version_of_layout, selection = "zoo", get_layout("zoo").version, ""
    record = store.WeightsRecord(
        encoder=name,
        origins=origins,
        layout=layout,
        layout_version=version_of_layout,
        architecture=hash_architecture(encoder),
        sha256=content.sha256,
        size_bytes=content.size_bytes,
        sums=content.sums,
        created=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        versions=_versions(),
        selection=selection,
        reading=reading,
    )
    path = store.get_tensors_path(folder, content.sha256)
    known = store.find(folder, record.key) if is_registered else None
    if known is not None:  # a second encoder of the same weights: the provenance of the first stands
        return StoredWeights(path=path, record=known, is_new=False)
    if held is None:
        store.write_record(folder, record)
    return StoredWeights(path=path, record=record, is_new=held is None, held=held)


def discard(stored: StoredWeights) -> None:
    """Removes what :func:`store_weights` has just written, because the encoder cannot be right."""
    folder = stored.path.parent.parent
    store.get_record_path(folder, stored.record.key).unlink(missing_ok=True)
    if all(
        record is None or record.sha256 != stored.record.sha256 for _, record in store.iterate_weights_records(folder)
    ):
        stored.path.unlink(missing_ok=True)


def _versions() -> dict[str, str]:
    versions = {library: find_library_version(library) for library in _LIBRARIES}
    return {"ssl-zoo": __version__, **{library: one for library, one in versions.items() if one is not None}}


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFile:
    """How a user's file is searched for the encoder; a published file is not searched."""

    checkpoint_key: str = ""  # which of several encoders in it is meant
    role: Role = ""  # which of student and teacher the method publishes
    is_layout_given: bool = False  # by the user, so that no other layout is tried
    lora: Lora | None = None  # how matrices of LoRA are merged; None: a file with such is refused
    like: str = ""  # of an encoder that is to have a card of its own: the one that it is made like
    is_network_given: bool = False  # by the user, whatever the file says of it

    @property
    def selection(self) -> str:
        """What of it the converted weights depend on."""
        meant = f"key {self.checkpoint_key}" if self.checkpoint_key else self.role
        return f"{meant} this layout alone".lstrip() if self.is_layout_given else meant


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsSource:
    """One place from which an encoder can be loaded, and how the file there is laid out."""

    places: tuple[str, ...]  # the file itself, then its companions
    layout: str
    sha256: str | None  # of the file, where the card knows it
    size_bytes: int | None
    key: str
    revision: str = ""  # commit of its repository on the Hub, where the card knows it
    search: UserFile | None = None  # of a user's file
    key_alone: str = ""  # of a user's file that needs no companion, for it holds all of the encoder
    mirrored_key: str = ""  # in a mirror, which does not know the paths of this machine

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys that the record of the converted weights may have."""
        return tuple(dict.fromkeys(key for key in (self.key, self.key_alone, self.mirrored_key) if key))


def list_weights_sources(
    card: EncoderCard, encoder: Encoder, *, weights: Sequence[str] = (), checkpoint_key: str = "", layout: str = ""
) -> list[WeightsSource]:
    """Where the weights of an encoder can be loaded from, the best place first.

    ``weights`` are the user's places of the file and its companions, instead of those of the card; ``checkpoint_key``
    and ``layout`` say which encoder in it is meant and how it is laid out, if it is not as the card says.
    """
    known = card.weights
    given: tuple[Any, ...] = tuple(weights[:1]) or (known.url, *known.mirrors)
    search = None
    if weights:
        role = find_published_role(card.objective.name)
        search = UserFile(checkpoint_key=checkpoint_key, role=role, is_layout_given=bool(layout))
    architecture = hash_architecture(encoder)
    choices = []
    for place in given:
        if isinstance(place, Missing):
            continue
        chosen = layout or _layout_of(card, place)
        companions = known.companions
        if weights:
            n = get_layout(chosen).n_companions
            if len(weights) > 1 + n:
                raise QueryError(
                    f"Found {len(weights)} files of weights for {card.id!r}, expected {'1 or 2' if n else 1} for the "
                    f"layout {chosen!r}."
                )
            companions = (*weights[1:], *known.companions[len(weights) - 1 :])[:n]
        files = (place, *companions)
        key = partial(
            store.compute_record_key,
            layout=chosen,
            layout_version=get_layout(chosen).version,
            architecture=architecture,
            selection=search.selection if search else "",
        )
        names = list(map(store.format_recorded_name, files))
        choices.append(
            WeightsSource(
                places=files,
                layout=chosen,
                search=search,
                sha256=_value(known.sha256) if place == known.url else None,
                size_bytes=_value(known.size_bytes) if place == known.url else None,
                revision=_value(known.revision) or "" if place == known.url else "",
                key=key(names),
                key_alone=key(names[:1]) if len(weights) == 1 < len(files) else "",
                mirrored_key=key([store.format_recorded_name(format_portable_location(file)) for file in files]),
            )
        )
    return choices


def _layout_of(card: EncoderCard, place: str) -> str:
    converter = card.weights.converter
    if isinstance(converter, Missing) or place.startswith(store.REGISTERED):
        return "zoo"
    is_rewritten = place.startswith("timm:") and not get_layout(converter).reads_timm_copies
    return "timm" if is_rewritten else converter


def _value(fact: Any) -> Any:
    return None if isinstance(fact, Missing) else fact


_HASHED = "sha256:"  # scheme of the user's files in the cache, before their SHA-256
_WITHOUT = "(For the architecture with random weights, pass pretrained=False.)"
_ATTEMPTS = 20  # of finding or fetching, while other processes are at the same weights


def obtain(
    card: EncoderCard,
    encoder: Encoder,
    *,
    weights: str | Sequence[str] = (),
    checkpoint_key: str = "",
    layout: str = "",
) -> StoredWeights:
    """The converted weights of an encoder, fetched and converted if they are not stored yet.

    Of ``encoder`` only names, shapes and types are read; the other parameters are those of
    :func:`list_weights_sources`. WeightsUnavailable has the reason for each place.
    """
    given = (weights,) if isinstance(weights, str) else tuple(weights)
    choices = list_weights_sources(card, encoder, weights=given, checkpoint_key=checkpoint_key, layout=layout)
    if given and any(resolve_source(place).kind == "path" for place in given):
        return _obtain_files(card, encoder, given, checkpoint_key=checkpoint_key, layout=layout)
    for attempt in range(_ATTEMPTS):
        stored = find_cached_weights(choices, is_user_file=bool(given))
        if stored is not None:
            return stored
        place = get_mirror()
        if place and not given and not _come_with_the_zoo(choices):
            raise WeightsUnavailable(
                f"The mirror {format_place(place)} (ZOO_MIRROR) has no weights of {card.id!r} that fit this "
                f"version of the zoo; run 'zoo mirror DEST {card.id}' where there is a network, or unset ZOO_MIRROR."
            )
        try:
            return _fetch_first(card, encoder, choices)
        except DownloadTaken:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def find_cached_weights(choices: Sequence[WeightsSource], *, is_user_file: bool = False) -> StoredWeights | None:
    """The weights of the first of these sources that this machine or the mirror has; None if there are none.

    A mirror never has a user's file. WeightsRefused if they came from another file than the card or a lock file says.
    """
    keys = [key for choice in choices for key in choice.keys]
    place = None if is_user_file or _come_with_the_zoo(choices) else get_mirror()
    for folder in (
        get_registered_store(),
        get_weights_folder() if place is None else mirror.copy_from_mirror(place, keys),
    ):
        for choice in choices:
            for key in choice.keys:
                stored = find_stored_weights(folder, key)
                if stored is not None:
                    _require_known(choice, stored.record)
                    return stored
    return None


def describe_remedy(stored: StoredWeights, *, name: str) -> str:
    """What to do about damaged weights, to end a sentence with."""
    if stored.path.is_relative_to(get_registered_store()):
        return "restore the file, or register the encoder again from its checkpoint"
    if get_mirror() and not stored.path.is_relative_to(get_weights_folder()):
        return "remove that file from the mirror and make the mirror again"
    return f"run 'zoo cache rm {name}' and load it again"


def get_registered_store() -> Path:
    """Where the weights of registered encoders are, in the user's folder."""
    return get_user_folder() / "weights"


def _come_with_the_zoo(choices: Sequence[WeightsSource]) -> bool:
    return any(is_shipped(choice.places[0]) for choice in choices)


def _obtain_files(
    card: EncoderCard, encoder: Encoder, given: Sequence[str], *, checkpoint_key: str, layout: str
) -> StoredWeights:
    """The weights from a user's files; those of this machine are recognised by their content."""
    places, fetched = [], []
    for place in given:
        is_path = resolve_source(place).kind == "path"
        fetched.append(fetch(place, folder=get_weights_folder()) if is_path else None)
        places.append(f"{_HASHED}{fetched[-1].sha256}" if fetched[-1] else place)
    (choice,) = list_weights_sources(card, encoder, weights=places, checkpoint_key=checkpoint_key, layout=layout)
    for key in choice.keys:
        stored = find_stored_weights(get_weights_folder(), key)
        if stored is not None:
            return stored
    return _fetch_and_convert(card, encoder, choice, there=fetched)


def _fetch_first(card: EncoderCard, encoder: Encoder, choices: Sequence[WeightsSource]) -> StoredWeights:
    """The weights from the first place that can be reached."""
    is_asked = any(choice.places[0] == card.weights.url for choice in choices)
    if card.weights.availability == "gone" and is_asked:
        raise WeightsUnavailable(
            f"The weights of {card.id!r} are gone from the only place that had them ({card.weights.url}); "
            "if you have the file, pass weights='PATH', otherwise pretrained=False for random weights."
        )
    if card.weights.availability == "unfit" and is_asked:
        raise WeightsRefused(
            f"The file of {card.id!r} ({card.weights.url}) is of another network than this id, so it is not fetched; "
            f"'zoo show {card.id} --all' says what it holds. {_WITHOUT}"
        )
    if not choices:
        why = f"No place of the weights of {card.id!r} has been published"
        if card.weights.availability in gated_access.GATED:
            request = gated_access.describe_access_request(card)
            why = f"The weights of {card.id!r} are {card.weights.availability} ({request})"
        raise WeightsUnavailable(f"{why}: pass weights='PATH' or pretrained=False{_nearest_open(card)}.")
    reasons, unreached, ways_in = [], [], []
    for choice in choices:
        if choice.places[0].startswith(store.REGISTERED):
            reasons.append(
                f"the registered file is not in {get_registered_store()}; register it again, or restore the folder."
            )
            continue
        try:
            return _fetch_and_convert(card, encoder, choice)
        except WeightsUnavailable as error:  # offline too, for a later place may be a file or another cache
            reasons.append(str(error))
            unreached.append(error.unreached)
            ways_in += [error.way_in] if error.way_in else []
    if ways_in and choices[0].search is None:  # of the card's own places
        gate = "" if isinstance(card.weights.gate, Missing) else f" ({card.weights.gate})"
        raise WeightsUnavailable(
            f"The weights of {card.id!r} are given only to those whom their publisher admits{gate}: {ways_in[0]}, or "
            f"pass pretrained=False for random weights{_nearest_open(card)}.",
            way_in=ways_in[0],
        )
    hosts = dict.fromkeys(chain.from_iterable(unreached)) if len(unreached) == len(reasons) and all(unreached) else ()
    listed = " ".join(f"({number}) {reason}" for number, reason in enumerate(reasons, start=1))
    why = f": {reasons[0]}" if len(reasons) == 1 else f" from any of {len(reasons)} places: {listed}"
    raise WeightsUnavailable(f"The weights of {card.id!r} cannot be loaded{why} {_WITHOUT}", unreached=hosts)


def _nearest_open(card: EncoderCard) -> str:
    """The nearest open encoder in the place of a gated one, to end a sentence with."""
    found = (
        gated_access.suggest_open_encoder(card, load_catalogue())
        if card.weights.availability in gated_access.GATED
        else ""
    )
    return f"; {found}" if found else ""


def _fetch_and_convert(
    card: EncoderCard, encoder: Encoder, choice: WeightsSource, *, there: Sequence[FetchedFile | None] = ()
) -> StoredWeights:
    """Fetches, converts, locks and stores, in this order, so that a refused file leaves nothing."""
    with convert_candidate(card, encoder, choice, there=there) as (tensors, origins, reading, _):
        for origin in origins:
            if not origin.place.startswith(_HASHED):  # a place that is its own hash
                is_download = not is_installed(origin.place)
                lock.remember(origin.place, sha256=origin.sha256, size_bytes=origin.size_bytes, is_download=is_download)
        is_here = all(origin.place.startswith(_HASHED) or is_installed(origin.place) for origin in origins)
        return store_weights(
            get_weights_folder(),
            card.id,
            tensors,
            encoder=encoder,
            origins=origins,
            layout=choice.layout,
            selection=choice.search.selection if choice.search else "",
            reading=reading,
            may_be_held=is_here,  # what had to be fetched is not fetched again at every load
        )


@contextmanager
def convert_candidate(
    card: EncoderCard, encoder: Encoder, choice: WeightsSource, *, there: Sequence[FetchedFile | None] = ()
) -> Iterator[tuple[Mapping[str, Tensor], tuple[store.FileOrigin, ...], store.FileReading | None, EncoderCard]]:
    """The state dict from the files of a candidate, where they came from, how a user's file was read, and its card.

    The card is another one than ``card`` where a new encoder is for images of another size.

    Downloads are removed at the end of the block, however it ends; the tensors may be pages of them. ``there`` has the
    files that are there already, in the order of the candidate's places; None for one that is not.
    """
    search = choice.search

    untrained = cache(partial(hash_untrained, card))
    with ExitStack() as until_the_end:
        files: list[FetchedFile] = []
        read: list[CheckpointContent] = []
        for number, place in enumerate(choice.places):
            if number == 1 and choice.key_alone and is_complete_file(read[0].content, encoder):
                break
            file = there[number] if number < len(there) else None
            files.append(until_the_end.enter_context(_fetched(choice, place, number=number, there=file)))
            if not is_mapped(files[-1].path):
                untrained()  # now, so that a random network and numbers that are read into memory do not add up
            read.append(_read(files[-1], what=f"{card.id!r} ({files[0].origin})"))
        what, contents = f"{card.id!r} ({files[0].origin})", [checkpoint.content for checkpoint in read]
        reading: store.FileReading | None = None
        if search is None:
            tensors = convert(contents, encoder, layout=choice.layout, what=what, untrained=untrained)
        else:
            tensors, reading, card = convert_own_file(
                contents, card, encoder, search, layout=choice.layout, what=what, untrained=untrained
            )
        origins = tuple(
            store.FileOrigin(
                place=store.format_recorded_name(place),
                address=place if is_installed(place) else file.origin,  # the same on every machine
                sha256=file.sha256,
                size_bytes=file.size_bytes,
                format=checkpoint.format,
            )
            for place, file, checkpoint in zip(choice.places, files, read, strict=False)  # a companion may be left out
        )
        yield tensors.hold(), origins, reading, card


def _read(file: FetchedFile, *, what: str) -> CheckpointContent:
    try:
        return read_checkpoint(file.path, what=what)
    except StoreError as error:
        if file.is_ours and not file.path.exists():
            raise DownloadTaken(str(error)) from error
        raise


@contextmanager
def _fetched(choice: WeightsSource, place: str, *, number: int, there: FetchedFile | None) -> Iterator[FetchedFile]:
    """A file of a candidate; if it is a download of ours it is removed at the end, however the block ends."""
    file = there
    if file is None:
        expected, size = (choice.sha256, choice.size_bytes) if number == 0 else (None, None)
        entry = lock.find_locked_file(store.format_recorded_name(place))
        if entry is not None and expected not in (None, entry.sha256):
            raise WeightsRefused(
                f"The card says sha256 {expected} of {format_location(place)}, and {entry.lock} locked it at "
                f"{entry.sha256}; find out which is right, and remove the line from the lock file if it is the card."
            )
        if entry is not None:
            expected, size = entry.sha256, entry.size_bytes
        revision = choice.revision if number == 0 else ""
        how: Any = {"sha256": expected, "size_bytes": size, "revision": revision, "is_public": choice.search is None}
        file = fetch(_located(place), folder=get_weights_folder(), **how)
    try:
        yield file
    finally:
        if file.is_ours:
            file.path.unlink(missing_ok=True)


def _located(place: str) -> str:
    """A place as it can be opened: a relative path of a card is below the user's folder."""
    if not is_path(place) or place.startswith(("~", "file:")):
        return place
    path = get_user_folder() / place
    return str(path) if path.exists() else place


def _require_known(choice: WeightsSource, record: store.WeightsRecord) -> None:
    """Refuses stored weights that are not of the file that the card and the lock files name."""
    first = record.origins[0]
    if first.place.startswith(store.REGISTERED):  # its key is the hash in the card
        return
    if choice.sha256 not in (None, first.sha256):
        raise WeightsRefused(
            f"The stored weights of {record.encoder!r} came from a file with sha256 {first.sha256} at "
            f"{first.place}, but the card says {choice.sha256}; run 'zoo cache rm {record.encoder}'."
        )
    commit = re.search(r"/resolve/([0-9a-f]{40})/", first.address)
    if choice.revision and commit and commit[1] != choice.revision and choice.sha256 is None:
        raise WeightsRefused(
            f"The stored weights of {record.encoder!r} came from the revision {commit[1]} of {first.place}, but the "
            f"card says {choice.revision}; run 'zoo cache rm {record.encoder}'."
        )
    for origin in record.origins:
        if origin.place.startswith((_HASHED, store.REGISTERED)):  # places that are their own hash
            continue
        lock.find_locked_file(origin.place)  # refuses lock files that contradict each other
        lock.remember(origin.place, sha256=origin.sha256, size_bytes=origin.size_bytes, is_download=False)


def load(
    name: str,
    *,
    pretrained: bool = True,
    weights: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    checkpoint_key: str | None = None,
    layout: str | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    features: str | None = None,
    layers: int | Iterable[int] | None = None,
    px: int | None = None,
    fast_resize: bool = False,
) -> tuple[torch.nn.Module, Any]:
    """An encoder and the preprocessing that belongs to it.

    The first load fetches the weights, checks and converts them, and stores the result; later loads map that file.

    Parameters
    ----------
    name : str
        Id of the encoder; case does not matter. With other features it is the same as with ``features`` and ``layers``:
        ``dino_vitS16@cls:9+10+11``. What has no card is named by its place at timm or on the Hub: ``timm:ARCH.TAG``,
        ``hf:ORG/NAME`` (:mod:`zoo.encoders.unlisted`).
    pretrained : bool
        With the trained weights; ``False`` gives the same architecture with random ones.
    weights : path or address, or a list of them, optional
        Your checkpoint to load instead, as training scripts, timm, lightly, solo-learn or Lightning save it: the
        encoder is searched for in it; ``encoder.reading`` says what was read and changed. A list gives the file and its
        companions.
    checkpoint_key : str, optional
        Which of several encoders in your checkpoint is meant: ``"student"``, ``"state_dict"``, ``"model.backbone"``.
        Without it the average of the training is taken where there is one, and of teacher and student the one that the
        method publishes; otherwise the message lists the keys.
    layout : str, optional
        How your checkpoint names its tensors; without it, as this encoder's files do, or in another way that fits.
    seed : int
        Of the random weights, where there are any.
    device : str or torch.device, optional
        Where the encoder is built; ``"meta"`` gives shapes without memory and needs no weights.
    features : str, optional
        What is taken from the network in place of what its card says: ``cls``, ``avg`` (mean of the patch tokens),
        ``cls+avg``; ``proj`` and ``proj+cls`` where the card takes a projection.
    layers : int or iterable of int, optional
        Of which blocks, after the final norm, joined from the earliest to the latest: counted from 0 or, negative, from
        the end; or how many of the last. The last one unless given. :mod:`zoo.cards.representations` says more.
    px : int, optional
        Side of the images, if it is to be another than the card's; position embeddings are interpolated to it.
    fast_resize : bool
        Images are resized as tensors, which halves the time of what comes before the encoder; pixels differ by two
        steps of 255 at most, features by up to 4e-4 (``benchmarks/decoding.py``).

    Returns
    -------
    encoder : torch.nn.Module
        From images float32 (n, 3, px, px) to features float32 (n, dim); in eval mode.
    preprocess : callable
        From a PIL image to a tensor float32 (3, px, px).

    Raises
    ------
    WeightsUnavailable
        If no place gives the weights; says why, for each.
    WeightsRefused
        If a file is not exactly what it must be, or not safe to read.
    StoreError
        If the cache, the lock file or the mirror cannot be read or written.
    DataError
        If the features of the bundled images, which the first load stores for ``zoo check``, are not finite.
    QueryError
        If the encoder does not have such features, or does not take images of this size; says which it has or takes.
    UnknownName, BuildError, MissingExtra
    """
    card = load_catalogue()[name]
    if features is not None or layers is not None:
        card = derive_card(card, features=features, layers=layers)
    places = list_user_files(weights)
    if places and not pretrained:
        raise QueryError(
            f"Found weights={format_location(places[0])!r} and pretrained=False for {card.id!r}, expected one of the "
            "two."
        )
    if (checkpoint_key or layout) and not places:
        option = "checkpoint_key" if checkpoint_key else "layout"
        raise QueryError(f"Found {option} without weights for {card.id!r}; it concerns a file of your own, give both.")
    preprocess = build_preprocess(card.preprocess)
    sized = None if px is None else derive_sized_card(get_base_card(card), px)
    of_px = card.preprocess if px is None else preprocess_at(card.preprocess, px)
    at_px = build_preprocess(of_px, fast_resize=fast_resize)
    target = torch.get_default_device() if device is None else torch.device(device)
    encoder_card = get_base_card(card)
    if not pretrained or target.type == "meta" or (card.is_untrained and not places):
        encoder = build_encoder(encoder_card, seed=seed, device=target)
        if sized is not None:
            encoder = resize_encoder(encoder, encoder_card, sized)
        return encoder if card is encoder_card else replace_pooling(encoder, card), at_px
    encoder, stored = load_trained_encoder(
        encoder_card, weights=places, checkpoint_key=checkpoint_key or "", layout=layout or ""
    )
    encoder = encoder.to(target)
    if stored.is_new and not places:
        try:
            remember_features(encoder_card, stored, encoder, preprocess)
        except DataError:  # finite weights, and features that are not
            discard(stored)
            raise
    if sized is not None:
        encoder = resize_encoder(encoder, encoder_card, sized)
    return encoder if card is encoder_card else replace_pooling(encoder, card), at_px


def load_for_whole_images(name: str, *, px: int | None = None) -> tuple[torch.nn.Module, Any, Preprocess]:
    """An encoder, the transform that gives it images whole, as squares, and what that does."""
    card = get_base_card(load_catalogue()[name])
    whole = derive_whole_preprocess(card if px is None else derive_sized_card(card, px))
    encoder, _ = load(card.id, px=px)
    return encoder, build_preprocess(whole), whole


def derive_whole_preprocess(card: EncoderCard) -> Preprocess:
    """The preprocessing of a card, but of whole images, resized to a square."""
    return replace(card.preprocess, fit="squash", resize_px=card.preprocess.crop_px)


def list_user_files(weights: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None) -> tuple[str, ...]:
    """The user's files as places: one, or a file and its companions; none for None."""
    if weights is None:
        return ()
    given = (weights,) if isinstance(weights, (str, os.PathLike)) else tuple(weights)
    if not given or not all(isinstance(place, (str, os.PathLike)) for place in given):
        raise QueryError(f"Found weights={weights!r}, expected a path, an address, or a list of them.")
    return tuple(os.fspath(place) for place in given)


def load_trained_encoder(
    card: EncoderCard, *, weights: Sequence[str] = (), checkpoint_key: str = "", layout: str = ""
) -> tuple[Encoder, StoredWeights]:
    """An encoder with its trained weights, on the CPU, and where they came from; see :func:`list_weights_sources`."""
    encoder_card = get_base_card(card)
    encoder = build_empty_encoder(encoder_card)
    stored = obtain(encoder_card, encoder, weights=weights, checkpoint_key=checkpoint_key, layout=layout)
    state = stored.tensors(remedy=describe_remedy(stored, name=encoder_card.id))
    is_ours = stored.path.is_relative_to(get_weights_folder() / "tensors") or stored.path.is_relative_to(
        get_registered_store()
    )
    require_fit(state, encoder, what=str(stored.path), is_trusted=is_ours)  # a mirror was made elsewhere
    encoder.load_state_dict(state, assign=True)
    encoder = encoder.requires_grad_(False)
    encoder.reading = stored.record.reading
    return encoder if card is encoder_card else replace_pooling(encoder, card), stored
