"""Encoders without a card: one is made, the moment it is asked for, of what timm or the Hugging Face Hub says.

========================  ============================================================================================
``timm:ARCH.TAG``         any weights of timm; without the tag, those that timm itself takes
``hf:ORG/NAME``           a repository of the Hub with a vision backbone of transformers, or with a network of timm; its
                          ``config.json`` says which, its ``preprocessor_config.json`` how images are made ready
``hf:ORG/NAME@REVISION``  the same at a branch, a tag or a commit
========================  ============================================================================================

Features may follow, as behind an id: ``timm:vit_small_patch14_dinov2.lvd142m@cls+avg``. Such a card says what those
files say, and of everything else that nobody has recorded it. It is known to this process under an id of its own
(``timm_vit_small_patch14_dinov2_lvd142m``); once rows of results are recorded for it, it is written into the user's
folder, and stays (:mod:`zoo.cards.writing`). Its weights are fetched by the commit that its configuration came from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ..cards.catalogue import adopt, build_card, get_unlisted, load_catalogue
from ..cards.reading import check_facts
from ..cards.same_weights import find_same_weights
from ..cards.schema import NOT_APPLICABLE, EncoderCard
from ..cards.timm_facts import find_timm_name, read_config_facts, read_timm_facts, resolve_timm_name
from ..errors import CardError, QueryError, WeightsRefused, WeightsUnavailable, warn_name_note
from ..optional import require_extra
from ..weights.download import fetch
from ..weights.locations import FetchedFile, get_weights_folder

Facts = dict[str, Any]

_NONE = NOT_APPLICABLE.value
_REPOSITORY = re.compile(r"([\w.-]+/[\w.-]+)(?:@([^/@]+))?")
_COMMIT = re.compile(r"/resolve/([0-9a-f]{40})/")
_PROCESSORS = ("processor_config.json", "video_preprocessor_config.json", "preprocessor_config.json")
_SAME_SIZE = 1e-3  # share of parameters by which libraries differ in one network: biases of nothing, mask tokens
_MOST_BYTES = 1 << 20  # of a configuration
_BY_PLACE: dict[str, EncoderCard] = {}  # cards made in this process


def load_unlisted_card(place: str) -> EncoderCard:
    """The card of the encoder at ``timm:ARCH.TAG`` or ``hf:ORG/NAME[@REVISION]``, made of what its files say.

    QueryError if there is no such encoder, or none of images; WeightsUnavailable or WeightsRefused if the
    configuration cannot be fetched or read; MissingExtra without the library that builds it.
    """
    if place not in _BY_PLACE:
        scheme, _, rest = place.partition(":")
        _BY_PLACE[place] = _of_timm(rest) if scheme.casefold() == "timm" else _of_hub(place, rest)
    return adopt(_BY_PLACE[place])


def _of_timm(name: str) -> EncoderCard:
    full = resolve_timm_name(name)
    if full.casefold() != name.casefold():  # without its tag: with it, it may have a card
        return load_catalogue()[f"timm:{full}"]
    facts = read_timm_facts(full)
    facts["provenance"] = {"url": f"https://huggingface.co/timm/{full}", "extracted": False}
    card = _made(f"timm_{full}", "timm", facts, place=f"timm:{full}")
    _note_same(card, f"timm:{full}")
    return card


def _of_hub(place: str, rest: str) -> EncoderCard:
    match = _REPOSITORY.fullmatch(rest)
    if match is None:
        raise QueryError(f"The name {place!r} is not understood, expected hf:ORG/NAME or hf:ORG/NAME@REVISION.")
    repository, revision = match[1], match[2] or ""
    asked = f"hf:{repository}@{revision}" if revision else f"hf:{repository}"
    config, commit = _read(asked, "config.json")
    pinned = f"hf:{repository}@{commit}" if commit else asked
    if listed := find_timm_name(repository, config):  # one of timm's own
        return load_catalogue()[f"timm:{listed}"]
    if isinstance(config.get("architecture"), str):
        facts, converter = read_config_facts(config, place=asked), "timm"
    else:
        facts, converter = _of_transformers(config, asked), "transformers"
        facts["preprocess"] = _preprocess(pinned, config, asked=asked)
    facts["weights"] = facts.get("weights", {}) | {
        "url": pinned,
        "mirrors": [],
        "companions": [],
        "same_file_as": _NONE,
        "converter": converter,
        **({"revision": commit} if commit else {}),
    }
    facts["provenance"] = {"url": f"https://huggingface.co/{repository}", "extracted": False}
    card = _made(f"hf_{repository}{f'_{revision[:12]}' if revision else ''}", "hf", facts, place=asked)
    if not _note_same(card, asked) and converter == "transformers":
        _note_alike(card, repository, asked)
    return card


def _note_same(card: EncoderCard, asked: str) -> bool:
    same = find_same_weights(card)
    for one in same:
        warn_name_note(
            f"{asked} has no card; of the same weights is {one.encoder!r}, whose features are others: {one.says}."
        )
    return bool(same)


def _note_alike(card: EncoderCard, repository: str, asked: str) -> None:
    """Says which cards may be of the same weights, where their features are others: same family and size of network."""
    known, n_own, px = load_catalogue(), card.architecture.n_parameters, card.preprocess.crop_px
    families, sizes = known.column("family"), known.column("architecture.n_parameters")
    named = _folded(repository.partition("/")[2])
    family = max((one for one in set(families.values()) if _folded(one) in named), key=len, default="")
    apart = {
        name: abs(n - n_own)
        for name, n in sizes.items()
        if isinstance(n, int) and isinstance(n_own, int) and families[name] == family
    }
    nearest = min(apart.values(), default=0)
    found = []
    for name in [name for name, n in apart.items() if n == nearest <= _SAME_SIZE * sizes[name]][:3]:
        other = known[name]
        learned_px = other.architecture.native_px
        reasons = {
            "its images are made ready otherwise": other.preprocess != card.preprocess,
            "its position embeddings are interpolated otherwise": learned_px not in (px, NOT_APPLICABLE),
            "other tokens are taken": other.representation.layer != card.representation.layer,
        }
        if any(reasons.values()):
            found.append(f"{name!r} ({' and '.join(reason for reason, is_so in reasons.items() if is_so)})")
    if found:
        warn_name_note(
            f"{asked} has no card; of the same weights may be {', '.join(found)}, whose features are then others."
        )


def _folded(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.casefold())


def _made(name: str, family: str, facts: Facts, *, place: str) -> EncoderCard:
    identifier = re.sub("[^A-Za-z0-9]+", "_", name).strip("_")
    url = facts["weights"]["url"]
    taken = get_unlisted(identifier)
    if identifier in load_catalogue() and (taken is None or taken.weights.url != url):
        raise QueryError(
            f"{place!r} would be {identifier!r}, and there is another encoder of that id; run 'zoo register' on its "
            "file and choose an id."
        )
    try:
        checked = check_facts(f"The card of {place!r}", facts)
    except CardError as error:
        raise QueryError(f"{str(error).removesuffix('.')}; {place!r} cannot be an encoder here.") from error
    return build_card({"id": identifier, "family": family, **checked})


def _of_transformers(config: Mapping[str, Any], place: str) -> Facts:
    with require_extra("transformers", needed_for=f"The encoder {place!r}"):
        from .transformers_models import parse_configuration
    try:
        return parse_configuration(config)
    except (TypeError, ValueError) as error:
        raise QueryError(
            f"{place!r} cannot be an encoder: {error}; expected a vision backbone of transformers, or a network "
            "of timm."
        ) from error


def _read(place: str, name: str) -> tuple[dict[str, Any], str]:
    """A configuration of a repository, and the commit that it is of; "" if that is unknown."""
    file: FetchedFile = fetch(f"{place}/{name}", folder=get_weights_folder())
    content = file.path.read_bytes()[: _MOST_BYTES + 1]
    try:
        config = json.loads(content) if len(content) <= _MOST_BYTES else None
    except ValueError:  # no JSON, or no text
        config = None
    if not isinstance(config, dict):
        raise WeightsRefused(
            f"The file {name} of {place!r} ({file.origin}) is no JSON object of at most {_MOST_BYTES} bytes; nothing "
            "was made of it, look whether its publisher has changed it."
        )
    commit = _COMMIT.search(file.origin)
    return config, commit[1] if commit else ""


def _preprocess(place: str, config: Mapping[str, Any], *, asked: str) -> Facts:
    """From image to input, as the image processor of the repository makes it."""
    files: dict[str, Mapping[str, Any]] = {"config.json": config}
    for name in _PROCESSORS:
        try:
            files[name] = _read(place, name)[0]
        except WeightsUnavailable as error:
            if error.unreached:
                raise
            unavailable = error
    if len(files) == 1:
        raise unavailable
    from .image_processors import derive_preprocess

    try:
        return derive_preprocess(files)
    except ValueError as error:
        raise WeightsRefused(
            f"{asked!r} does not say how images are made ready in a way that the zoo can follow: {error}; run "
            "'zoo register' with --like on its file."
        ) from error
