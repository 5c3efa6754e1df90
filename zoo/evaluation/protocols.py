"""Protocols: every setting that defines a measured number, under the name that the rows of ``results/`` carry.

A protocol never changes, for an old number must keep its meaning. Another default, or another way of computing that
moves a number by more than its tolerance explains, is a new protocol with the next number behind its name, next to the
old one while the code still computes that; a test pins the digest of each. A user's options give a name by rule:
:func:`build_protocol`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

from ..errors import QueryError, UnknownName

_LONGEST_OPTION = 32  # characters in a name; a longer option is replaced by its hash

_ROWS = {  # what a probe is trained, tuned and evaluated on, and what becomes of several seeds: Appendix C.3
    "labels": "balanced or stratified by class, drawn by seed",
    "tuned_on": "training rows outside the setting, as many as the test set; too few of them: its own, held out",
    "held_out_share": 0.2,
    "refitted": "on all labels of the setting where some were held out",
    "n_seeds": 5,
    "interval": "95 % by bootstrap over images and seeds",
    "n_bootstrap": 4000,
}
_BY_ITSELF = {name: rule for name, rule in _ROWS.items() if name not in ("held_out_share", "refitted")} | {
    "tuned_on": "training rows outside the setting, as many as the test set; too few of them: as the probe does itself",
}
_TAGS = {
    "labels": "all",
    "tuned_on": "training images at random, as many as the test set, a fifth at most; copies and groups on one side",
    "held_out_share": 0.2,
    "refitted": "on all training images",
    "fewest_images": 2,
    "interval": "95 % by bootstrap over images, or over groups where they are known",
    "n_bootstrap": 1000,
}
_NUMBERS = {
    "features": "each over its standard deviation; the target less its mean",
    "labels": "all, or a share of them at random, drawn by seed",
    "tuned_on": "no other rows: each training image, or whole group and its copies, predicted from all others",
    "penalties": "17 from 1 to 1e-8 times the sum of squares of the features; the least squared error",
    "n_seeds": 5,
    "interval": "95 % by bootstrap over images, or over groups where they are known, and seeds",
    "n_bootstrap": 4000,
}
_PARTS = {
    "n_subsets": 3,
    "order": "standard",
    "subset": "of the training set, as large as the test set; another one is what the probe is tuned on",
    "own_training_set": "tuned, trained and evaluated on the same images",
}
_LOGISTIC = {
    "Cs": 24,
    "select": "error",
    "C": None,
    "tol": 1e-4,
    "stop": "convergence",
    "max_iter": 1000,
    "precision": "float32",
}
_WALK = {  # the best C of few images lies where it happens to: between which fits, by what steps they were reached
    "walk": "powers of ten, each to a gap of 3e-3 by steps as long as the last one tells, then between the best three",
}
_PREPARED = _LOGISTIC | {
    "preparations": ("as they are", "standardised", "whitened 1", "whitened 0.1", "whitened 0.001"),
    "folds": 5,
}
_FOLDS = {  # few rows choose badly: where they are fewer than this, and than the labels of the setting
    "fewest_tuning": 150,
    "fewer": "cross-validation on the labels of the setting, in stratified folds; copies and groups in one fold",
}
_STREAMED = {
    "n_trials": 30,
    "epochs": 100,
    "tuning_share": 0.1,
    "learning_rate_per_256": (1e-3, 1.0),
    "weight_decay": (1e-8, 2e-4),
    "batch_size": (512, 1024, 2048, 4096),
    "batch_norm": (True, False),
    "optimizer": ("adam", "sgd"),
    "schedule": ("multistep", "cosine", "warmcosine"),
    "standard_first": True,
    "n_startup_trials": 20,
    "candidates_per_pass": 10,
    "validation_share": 0.1,
    "window_bytes": 1 << 30,
    "block_rows": 8,
}
_ATTENTIVE = {
    "n_queries": 12,
    "value_dim": 4,
    "n_components": 128,
    "n_starts": 4,
    "penalties": (1e-2, 3e-3, 1e-3, 3e-4),
    "epochs": 12,
    "n_steps": 1000,
    "batch_size": 32,
    "learning_rate": 0.03,
    "quick": False,
}
_NEIGHBOURS = {"k": (10, 20, 100, 200), "temperature": 0.07, "n_left_out": 10_000}
_PENALTIES = (1.0, 1e-1, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)
_ON_MAPS = {
    "features": "maps of one or several layers, the coarser ones upsampled to the finest",
    "labels": "all",
    "tuned_on": "a fifth of the training images, whole groups and copies on one side; then trained on all",
    "ridge": "on channels standardised over places",
    "evaluated": "all valid pixels of the test images together, at the size of the mask, or of the crop of the input",
    "interval": "95 % by bootstrap over images, or over groups where they are known, widened where few images decide",
    "n_bootstrap": 4000,
}
_MASKS = {
    "cells": 2,
    "balanced": False,
    "select": "miou",
    "penalties": _PENALTIES[1:],
    "tol": 1e-4,
    "max_iter": 200,
    "tuning_share": 0.2,
}
_DEPTH = {"penalties": _PENALTIES, "tuning_share": 0.2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """One way of measuring."""

    name: str  # in the rows of results/
    meaning: str  # a sentence
    probe: str  # class in zoo.evaluation
    settings: Mapping[str, Any] = field(hash=False)  # options of that class
    rules: Mapping[str, Any] = field(hash=False)  # everything else that defines the number

    @property
    def digest(self) -> str:
        """Hash of what defines the number; the name and the wording of the meaning are free."""
        return _digest({"probe": self.probe, "settings": dict(self.settings), "rules": dict(self.rules)})

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "probe": self.probe, "settings": dict(self.settings), "rules": dict(self.rules)}


def _protocol(name: str, meaning: str, probe: str, settings: dict[str, Any], rules: dict[str, Any]) -> Protocol:
    return Protocol(
        name=name,
        meaning=meaning,
        probe=probe,
        settings=MappingProxyType(settings),
        rules=MappingProxyType(rules),
    )


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        _protocol(
            "zoo-logistic-2",
            "multinomial logistic regression on frozen features, solved to convergence along its whole regularisation "
            "path; its C has the smallest error on training images that are like those of the evaluation",
            "LogisticProbe",
            _LOGISTIC,
            _ROWS | _WALK,
        ),
        _protocol(
            "zoo-logistic-3",
            "multinomial logistic regression on frozen features, unscaled, standardised or whitened with shrinkage, "
            "solved to convergence along the whole regularisation path of each; preparation and C have the smallest "
            "error on training images that are like those of the evaluation, or in cross-validation where these are "
            "few",
            "LogisticProbe",
            _PREPARED,
            _ROWS | _WALK | _FOLDS,
        ),
        _protocol(
            "zoo-streamed-2",
            "linear probe trained by gradient descent for 100 epochs, for features that do not fit in memory; its "
            "settings are tuned in 30 trials on a tenth of the labels, by the error on training images that are like "
            "those of the evaluation",
            "StreamedProbe",
            _STREAMED,
            _BY_ITSELF,
        ),
        _protocol(
            "zoo-nearest-neighbours-1",
            "vote of the k training images whose features have the largest cosine, weighted by its exponential at the "
            "temperature 0.07; k of 10, 20, 100 and 200 has the smallest error on training images that are like those "
            "of the evaluation",
            "NeighbourProbe",
            _NEIGHBOURS,
            _BY_ITSELF,
        ),
        _protocol(
            "zoo-attentive-2",
            "12 queries that attend to the patches of frozen maps, with a linear classifier of what they read and of "
            "the average, the mean of four starts, each trained by one cycle of Adam; or the converged linear probe of "
            "the average alone, where its error on training images that are like those of the evaluation is no higher",
            "AttentiveProbe",
            _ATTENTIVE,
            _ROWS | {"average": "the probe of zoo-logistic-3 without folds, on the mean of the patches"},
        ),
        _protocol(
            "zoo-logistic-multilabel-1",
            "one binary logistic regression a tag on frozen features, each solved to convergence along its whole "
            "regularisation path; its C has the smallest log loss on held-out training images",
            "LogisticProbe",
            _LOGISTIC | {"select": "log_loss"},
            _TAGS | _WALK,
        ),
        _protocol(
            "zoo-ridge-1",
            "ridge regression to a number on standardised frozen features, in closed form; its penalty has the least "
            "squared error on training images that are each left out, with their group and copies",
            "RidgeProbe",
            {},
            _NUMBERS,
        ),
        _protocol(
            "zoo-segment-2",
            "multinomial logistic regression of the class of each pixel on standardised maps of an encoder, on the "
            "shares of classes in 2 x 2 cells per place, solved along a path of penalties, of which one has the best "
            "mean intersection over union on held-out training images; logits are upsampled bilinearly to the mask",
            "SegmentationProbe",
            _MASKS,
            _ON_MAPS,
        ),
        _protocol(
            "zoo-depth-2",
            "ridge regression of the mean depth of each place on standardised maps of an encoder, in closed form; its "
            "penalty has the least squared error on held-out training images; predictions are upsampled bilinearly",
            "DepthProbe",
            _DEPTH,
            _ON_MAPS,
        ),
        _protocol(
            "zoo-risk-logistic-2",
            "signed parts of the full-shot error, from errors by `zoo-logistic-2`, with three held-out subsets as "
            "large as the test set",
            "LogisticProbe",
            _LOGISTIC,
            _ROWS | _WALK | _PARTS,
        ),
        _protocol(
            "zoo-risk-logistic-3",
            "signed parts of the full-shot error, from errors by `zoo-logistic-3`, with three held-out subsets as "
            "large as the test set",
            "LogisticProbe",
            _PREPARED,
            _ROWS | _WALK | _FOLDS | _PARTS,
        ),
        _protocol(
            "zoo-risk-attentive-2",
            "signed parts of the full-shot error, from errors by `zoo-attentive-2`, with three held-out subsets as "
            "large as the test set",
            "AttentiveProbe",
            _ATTENTIVE,
            _ROWS | {"average": "the probe of zoo-logistic-3 without folds, on the mean of the patches"} | _PARTS,
        ),
        _protocol(
            "zoo-risk-streamed-2",
            "signed parts of the full-shot error, from errors by `zoo-streamed-2`, with three held-out subsets as "
            "large as the test set",
            "StreamedProbe",
            _STREAMED,
            _BY_ITSELF | _PARTS,
        ),
    )
}


def build_protocol(base: str, **changed: Any) -> Protocol:
    """A protocol with other settings or rules, which are part of its name, in alphabetical order; ``base`` if none
    differs.

    >>> build_protocol("zoo-nearest-neighbours-1", k=(20,), temperature=0.07).name
    'zoo-nearest-neighbours-1 (k=[20])'
    """
    if base not in PROTOCOLS:
        raise UnknownName("protocol", base, PROTOCOLS, hint="results/README.md explains them all.")
    protocol = PROTOCOLS[base]
    known = {**protocol.rules, **protocol.settings}
    unknown = sorted(changed.keys() - known.keys())
    if unknown:
        raise QueryError(f"{base!r} has no option {unknown[0]!r}, expected one of {', '.join(sorted(known))}.")
    others = {name: value for name, value in sorted(changed.items()) if not _are_equal(value, known[name])}
    if not others:
        return protocol
    settings, rules = (
        {name: others.get(name, value) for name, value in one.items()} for one in (protocol.settings, protocol.rules)
    )
    options = ", ".join(f"{name}={_short(value)}" for name, value in others.items())
    return _protocol(f"{base} ({options})", f"{protocol.meaning}; but with {options}", protocol.probe, settings, rules)


def restore_protocol(described: Mapping[str, Any]) -> Protocol:
    """The protocol that a provenance describes, by what :meth:`Protocol.as_dict` wrote, also through JSON.

    QueryError if its name stands for other options, or for none that are known.
    """
    name, parts = described.get("name"), [described.get(part) for part in ("settings", "rules")]
    if not isinstance(name, str) or not all(isinstance(part, Mapping) for part in parts):
        raise QueryError(f"A protocol is described by {sorted(described)}, expected name, probe, settings and rules.")
    settings, rules = ({**part} for part in parts if isinstance(part, Mapping))
    found = _protocol(name, "", str(described.get("probe")), settings, rules)
    given, base = settings | rules, PROTOCOLS.get(name.partition(" (")[0])
    usual = {} if base is None else {**base.settings, **base.rules}
    known = build_protocol(
        name.partition(" (")[0],
        **{
            option: value
            for option, value in given.items()
            if option not in usual or not _are_equal(value, usual[option])
        },
    )
    if known.name != name:
        raise QueryError(f"The protocol {name!r} has the options of {known.name!r}, expected those of its name.")
    if known.digest != found.digest:
        raise QueryError(f"The protocol {name!r} has the hash {found.digest[:12]}, expected {known.digest[:12]}.")
    return known


def format_protocols_table() -> str:
    """Markdown table of the protocols, for ``results/README.md``."""
    rows = ["| protocol | meaning | options |", "|---|---|---|"]
    for protocol in PROTOCOLS.values():
        options = "; ".join(f"{name} {_text(value)}" for name, value in protocol.settings.items())
        rows.append(f"| `{protocol.name}` | {protocol.meaning} | {protocol.probe}: {options} |")
    return "\n".join(rows)


def _text(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise QueryError(
            f"An option of a protocol is {value!r}, expected a text, a finite number, a truth value, None or a list."
        ) from error


def _are_equal(one: Any, other: Any) -> bool:
    return _text(one) == _text(other) or bool(one == other)  # JSON has one list where Python has two, and two ones


def _short(value: Any) -> str:
    """An option as part of a name, unambiguously."""
    if isinstance(value, str):
        is_plain = value.isidentifier() and value not in ("null", "true", "false")
        text = value if is_plain else _text(value)
    else:
        text = _text(value)
    return text if len(text) <= _LONGEST_OPTION else f"hash {_digest(value)[:8]}"


def _digest(value: Any) -> str:
    return blake2b(_text(value).encode(), digest_size=16).hexdigest()
