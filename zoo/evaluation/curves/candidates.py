"""Whose learning curve is measured: an encoder of the zoo or of the user's, and its architecture at random weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

from ...cards import catalogue
from ...errors import QueryError
from ...features.hashes import code_hash, weights_hash
from ...metadata import EncoderCard, Preprocess

if TYPE_CHECKING:
    from ...encoders import Encoder


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An encoder that can be made again and again, in other processes too.

    Attributes
    ----------
    name : str
        Id of its card, or the user's name for it.
    preprocess : Preprocess
        From an image of the data to its input; ``preprocess.crop_px`` is the height and width of what it sees.
    weights_hash : str
    architecture_hash : str
        Candidates that share it, and the preprocessing, share their controls.
    pretrained : callable
        () -> Encoder on the CPU, with its weights.
    untrained : callable
        (seed) -> Encoder on the CPU, with random weights.
    """

    name: str
    preprocess: Preprocess
    weights_hash: str
    architecture_hash: str
    pretrained: Callable[[], Encoder]
    untrained: Callable[[int], Encoder]

    @property
    def control_hash(self) -> str:
        """Of all that a control depends on beside data, task and recipe."""
        return _hash([self.architecture_hash, asdict(self.preprocess)])


def candidate(name: str) -> Candidate:
    """An encoder of the catalogue, the user's own cards included; its weights are fetched, for their hash.

    Raises
    ------
    UnknownName, WeightsUnavailable, WeightsRefused, BuildError, StoreError, MissingExtra
        As :func:`zoo.load`.
    """
    card = catalogue()[name]
    about = card.architecture
    return Candidate(
        name=card.id,
        preprocess=card.preprocess,
        weights_hash=weights_hash(_loaded(card.id)),
        architecture_hash=_hash([about.backbone, about.options, card.representation.layer, card.representation.dim]),
        pretrained=partial(_loaded, card.id),
        untrained=partial(_untrained, card.id),
    )


def own_candidate(
    name: str,
    *,
    preprocess: Preprocess,
    pretrained: Callable[[], Encoder],
    untrained: Callable[[int], Encoder],
) -> Candidate:
    """An encoder that no card describes.

    Parameters
    ----------
    name : str
    preprocess : Preprocess
        ``zoo.card(...).preprocess`` of one that sees its images alike, or made anew.
    pretrained : callable
        () -> :class:`zoo.encoders.Encoder` on the CPU. A function of a module, if runs are to go to several processes.
    untrained : callable
        (seed) -> the same architecture with random weights.

    Raises
    ------
    QueryError
        If one of them gives no :class:`zoo.encoders.Encoder`, or the two are not of one architecture.
    """
    from ...encoders import Encoder

    one, other = pretrained(), untrained(0)
    given: tuple[object, ...] = (one, other)  # whatever the functions promise
    strange = next((each for each in given if not isinstance(each, Encoder)), None)
    if strange is not None:
        raise QueryError(
            f"What gives {name!r} gave a {type(strange).__name__}; expected a zoo.encoders.Encoder: put a network into "
            "Encoder(network, pooling, dim=...), where pooling makes features of network and images."
        )
    shapes, random = ({key: tuple(value.shape) for key, value in each.state_dict().items()} for each in (one, other))
    if shapes != random:
        odd = sorted(shapes.items() ^ random.items())[0][0]
        raise QueryError(
            f"The pretrained and the untrained encoder of {name!r} differ in {odd!r}; expected one architecture, with "
            "trained and with random weights."
        )
    return Candidate(
        name=name,
        preprocess=preprocess,
        weights_hash=weights_hash(one),
        architecture_hash=_hash([str(one), sorted(shapes.items()), code_hash(one)]),
        pretrained=pretrained,
        untrained=untrained,
    )


def _loaded(name: str) -> Encoder:
    from ...loading import load

    return load(name, device="cpu")[0]  # type: ignore[return-value]  # what load gives is an Encoder


def _untrained(name: str, seed: int) -> Encoder:
    from ...encoders import build_encoder

    card: EncoderCard = catalogue()[name]
    return build_encoder(card, seed=seed, device="cpu")


def _hash(value: object) -> str:
    return blake2b(json.dumps(value, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()
