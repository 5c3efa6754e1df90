"""From a card to its trained weights: found in a cache, or fetched, read, converted, and kept.

What is looked for, in this order: the user's registered encoders, the mirror if ``ZOO_MIRROR`` names one (and then
nothing else), the cache, the places of the card, the best one first. A later place is tried when an earlier one cannot
be reached; a file that is there and wrong ends the search. Weights that come with the zoo need neither network nor
mirror, and are written into the lock file of an experiment alone: a place among the zoo's own files is no download.
They, and a file of the user's own, load where the cache cannot be written, too, and are converted at each load then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import chain
from pathlib import Path

from .encoders import Encoder, build_encoder
from .encoders.layouts import Converted, convert, convert_own, fingerprints, fits_without_companions
from .errors import StoreError, WeightsRefused, WeightsUnavailable
from .files import user_folder
from .locations import Candidate, candidates
from .metadata import EncoderCard
from .provenance import Found, found_in, keep
from .weights import lock, mirror, store
from .weights.checkpoints import Checkpoint, is_mapped, read_checkpoint
from .weights.download import TakenAway, fetch, finished_record
from .weights.environment import mirror_place, weights_folder
from .weights.hosts import asking_once
from .weights.places import Fetched, is_path, shown, source
from .weights.shipped import is_shipped

_HASHED = "sha256:"
"""Scheme under which the cache knows the user's own files: their SHA-256."""

_WITHOUT = "(For the architecture with random weights, pass pretrained=False.)"

_ATTEMPTS = 20  # of finding or fetching, while other processes are at the same weights


def obtain(
    card: EncoderCard,
    encoder: Encoder,
    *,
    weights: str | Sequence[str] = (),
    checkpoint_key: str = "",
    layout: str = "",
) -> Found:
    """The converted weights of an encoder, fetched and converted if they are not there yet.

    Parameters
    ----------
    card : EncoderCard
    encoder : Encoder
        As the card builds it, with or without weights; only names, shapes and types are read.
    weights : str or sequence of str
        Paths or addresses of the user's own checkpoint, and of companions of it in place of those of the card.
    checkpoint_key, layout : str
        Of the user's own checkpoint: which encoder in it is meant, and how it is laid out, if the card does not say.

    Raises
    ------
    WeightsUnavailable
        If they cannot be had from any place; says why for each. A host that cannot be reached is asked once a call,
        or once in a whole command.
    WeightsRefused
        If a file is not exactly what it must be, or not safe to read.
    StoreError
        If the cache, the mirror or the lock file cannot be read or written.
    """
    given = (weights,) if isinstance(weights, str) else tuple(weights)
    choices = candidates(card, encoder, weights=given, checkpoint_key=checkpoint_key, layout=layout)
    if given and any(source(place).kind == "path" for place in given):
        return _obtain_files(card, encoder, given, checkpoint_key=checkpoint_key, layout=layout)
    for attempt in range(_ATTEMPTS):
        found = kept(choices, is_own=bool(given))
        if found is not None:
            return found
        place = mirror_place()
        if place and not given and not _come_with_the_zoo(choices):
            raise WeightsUnavailable(
                f"The mirror {mirror.shown_mirror(place)} (ZOO_MIRROR) has no weights of {card.id!r} that fit this "
                f"version of the zoo; run 'zoo mirror DEST {card.id}' where there is a network, or unset ZOO_MIRROR."
            )
        try:
            with asking_once(place for choice in choices for place in choice.places):
                return _fetch_first(card, encoder, choices)
        except TakenAway:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def kept(choices: Sequence[Candidate], *, is_own: bool = False) -> Found | None:
    """What is on this machine or in the mirror of any of these candidates; None if nothing.

    Parameters
    ----------
    choices : sequence of Candidate
    is_own : bool
        They are the user's own place and not the card's, so that no mirror has them.

    Raises
    ------
    WeightsRefused
        If it came from another file than the card or a lock file says, or its record is damaged.
    StoreError
        If a folder cannot be read.
    """
    keys = [key for choice in choices for key in choice.keys]
    place = None if is_own or _come_with_the_zoo(choices) else mirror_place()
    for folder in (own_store(), weights_folder() if place is None else mirror.local_copy(place, keys)):
        for choice in choices:
            for key in choice.keys:
                found = found_in(folder, key)
                if found is not None:
                    _require_known(choice, found.record)
                    return found
    return None


def remedy(found: Found, *, name: str) -> str:
    """What to do about damaged weights, to end a sentence with."""
    if found.path.is_relative_to(own_store()):
        return "restore the file, or register the encoder again from its checkpoint"
    if mirror_place() and not found.path.is_relative_to(weights_folder()):
        return "remove that file from the mirror and make the mirror again"
    return f"run 'zoo cache rm {name}' and load it again"


def own_store() -> Path:
    """Where the weights of registered encoders are, in the user's own folder."""
    return user_folder() / "weights"


def _come_with_the_zoo(choices: Sequence[Candidate]) -> bool:
    return any(is_shipped(choice.places[0]) for choice in choices)


def _obtain_files(
    card: EncoderCard, encoder: Encoder, given: Sequence[str], *, checkpoint_key: str, layout: str
) -> Found:
    """The user's own files, those of this machine found again by their content."""
    places, fetched = [], []
    for place in given:
        is_path = source(place).kind == "path"
        fetched.append(fetch(place, folder=weights_folder()) if is_path else None)
        places.append(f"{_HASHED}{fetched[-1].sha256}" if fetched[-1] else place)
    (choice,) = candidates(card, encoder, weights=places, checkpoint_key=checkpoint_key, layout=layout)
    for key in choice.keys:
        found = found_in(weights_folder(), key)
        if found is not None:
            return found
    return _kept_anew(card, encoder, choice, there=fetched)


def _fetch_first(card: EncoderCard, encoder: Encoder, choices: Sequence[Candidate]) -> Found:
    """From the first place that can be reached."""
    if card.weights.availability == "gone" and any(choice.places[0] == card.weights.url for choice in choices):
        raise WeightsUnavailable(
            f"The weights of {card.id!r} are gone from the only place that had them ({card.weights.url}); "
            "if you have the file, pass weights='PATH', otherwise pretrained=False for random weights."
        )
    if card.weights.availability == "unfit" and any(choice.places[0] == card.weights.url for choice in choices):
        raise WeightsRefused(
            f"The file of {card.id!r} ({card.weights.url}) is of another network than this id, so it is not fetched; "
            f"'zoo show {card.id}' says what it holds. {_WITHOUT}"
        )
    if not choices:
        raise WeightsUnavailable(
            f"Nobody has published where the weights of {card.id!r} are; pass weights='PATH' or pretrained=False."
        )
    reasons, unreached = [], []
    for choice in choices:
        if choice.places[0].startswith(store.REGISTERED):
            reasons.append(f"the registered file is not in {own_store()}; register it again, or restore the folder.")
            continue
        try:
            return _kept_anew(card, encoder, choice)
        except WeightsUnavailable as error:  # offline too, for a later place may be a file or another cache
            reasons.append(str(error))
            unreached.append(error.unreached)
    hosts = dict.fromkeys(chain.from_iterable(unreached)) if len(unreached) == len(reasons) and all(unreached) else ()
    if len(reasons) == 1:
        raise WeightsUnavailable(f"The weights of {card.id!r} cannot be had: {reasons[0]} {_WITHOUT}", unreached=hosts)
    listed = " ".join(f"({number}) {reason}" for number, reason in enumerate(reasons, start=1))
    raise WeightsUnavailable(
        f"The weights of {card.id!r} cannot be had from any of {len(reasons)} places: {listed} {_WITHOUT}",
        unreached=hosts,
    )


def _kept_anew(
    card: EncoderCard, encoder: Encoder, choice: Candidate, *, there: Sequence[Fetched | None] = ()
) -> Found:
    """Fetched, converted, remembered and kept, in this order, so that a refused file leaves nothing."""
    with converted(card, encoder, choice, there=there) as (tensors, origins, reading):
        for origin in origins:
            if not origin.place.startswith(_HASHED):  # a place that is its own hash
                is_download = not is_shipped(origin.place)
                lock.remember(origin.place, sha256=origin.sha256, size_bytes=origin.size_bytes, is_download=is_download)
        is_here = all(origin.place.startswith(_HASHED) or is_shipped(origin.place) for origin in origins)
        return keep(
            weights_folder(),
            card.id,
            tensors,
            encoder=encoder,
            origins=origins,
            layout=choice.layout,
            selection=choice.own.selection if choice.own else "",
            reading=reading,
            may_be_held=is_here,  # what had to be fetched is not fetched again at every load
        )


@contextmanager
def converted(
    card: EncoderCard, encoder: Encoder, choice: Candidate, *, there: Sequence[Fetched | None] = ()
) -> Iterator[tuple[Converted, tuple[store.Origin, ...], store.Reading | None]]:
    """The state dict that the files of a candidate make, where they came from, and how the user's own was read.

    Downloads are removed at the end of the block, however it ends; the tensors may be pages of them.

    Parameters
    ----------
    card, encoder
        As for :func:`obtain`.
    choice : Candidate
    there : sequence of Fetched
        The files that are there already, in the order of the candidate's places; None for one that is not.

    Raises
    ------
    WeightsUnavailable, WeightsRefused, StoreError
        As :func:`obtain`.
    """
    own = choice.own

    @cache
    def untrained() -> Mapping[str, bytes]:
        return fingerprints(build_encoder(card, device="cpu"))

    with ExitStack() as until_the_end:
        files: list[Fetched] = []
        read: list[Checkpoint] = []
        for number, place in enumerate(choice.places):
            if number == 1 and choice.key_alone and fits_without_companions(read[0].content, encoder):
                break
            file = there[number] if number < len(there) else None
            files.append(until_the_end.enter_context(_fetched(choice, place, number=number, there=file)))
            if not is_mapped(files[-1].path):
                untrained()  # now, so that a random network and numbers that are read into memory do not add up
            read.append(_read(files[-1], what=f"{card.id!r} ({files[0].origin})"))
        what, contents = f"{card.id!r} ({files[0].origin})", [checkpoint.content for checkpoint in read]
        reading: store.Reading | None = None
        if own is None:
            tensors = convert(contents, encoder, layout=choice.layout, what=what, untrained=untrained)
        else:
            tensors, reading = convert_own(
                contents,
                encoder,
                layout=choice.layout,
                is_only=own.is_layout_given,
                checkpoint_key=own.checkpoint_key,
                role=own.role,
                what=what,
                untrained=untrained,
            )
        origins = tuple(
            store.Origin(
                place=store.kept_name(place),
                address=place if is_shipped(place) else file.origin,  # the same on every machine
                sha256=file.sha256,
                size_bytes=file.size_bytes,
                format=checkpoint.format,
            )
            for place, file, checkpoint in zip(choice.places, files, read, strict=False)  # a companion may be left out
        )
        yield tensors, origins, reading


def _read(file: Fetched, *, what: str) -> Checkpoint:
    try:
        return read_checkpoint(file.path, what=what)
    except StoreError as error:
        if file.is_ours and not file.path.exists():
            raise TakenAway(str(error)) from error
        raise


@contextmanager
def _fetched(choice: Candidate, place: str, *, number: int, there: Fetched | None) -> Iterator[Fetched]:
    """A file of a candidate; if it is ours it is removed at the end, whatever that is."""
    file = there
    if file is None:
        expected, size = (choice.sha256, choice.size_bytes) if number == 0 else (None, None)
        entry = lock.known(store.kept_name(place))
        if entry is not None and expected not in (None, entry.sha256):
            raise WeightsRefused(
                f"The card says sha256 {expected} of {shown(place)}, and {entry.lock} locked it at {entry.sha256}; "
                "find out which is right, and remove the line from the lock file if it is the card."
            )
        if entry is not None:
            expected, size = entry.sha256, entry.size_bytes
        file = fetch(_located(place), folder=weights_folder(), sha256=expected, size_bytes=size)
    try:
        yield file
    finally:
        if file.is_ours:
            file.path.unlink(missing_ok=True)
            finished_record(weights_folder(), place).unlink(missing_ok=True)


def _located(place: str) -> str:
    """A place as it can be opened: a relative path of a card is below the user's own folder."""
    if not is_path(place) or place.startswith(("~", "file:")):
        return place
    own = user_folder() / place
    return str(own) if own.exists() else place


def _require_known(choice: Candidate, record: store.Record) -> None:
    """What was converted once must still be what the card and the lock files say."""
    first = record.origins[0]
    if first.place.startswith(store.REGISTERED):  # found by the very hash that the card says
        return
    if choice.sha256 not in (None, first.sha256):
        raise WeightsRefused(
            f"The weights of {record.encoder!r} that are kept came from a file with sha256 {first.sha256} at "
            f"{first.place}, but the card says {choice.sha256}; run 'zoo cache rm {record.encoder}'."
        )
    for origin in record.origins:
        if origin.place.startswith((_HASHED, store.REGISTERED)):  # places that are their own hash
            continue
        lock.known(origin.place)  # refuses lock files that contradict each other
        lock.remember(origin.place, sha256=origin.sha256, size_bytes=origin.size_bytes, is_download=False)
