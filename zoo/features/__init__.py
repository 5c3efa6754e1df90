"""Features of an image set: computed once, kept with where they came from, read back and checked.

=============  =======================================================================================================
``origin``     ``Origin``: which encoder, weights, preprocessing, images, precision and code features came from; who may
               be compared with whom
``hashes``     hashes of weights and of a preprocessing
``decoding``   from images to batches of an encoder's input, ahead of the forward pass
``computing``  ``featurise``: an image set through an encoder, in memory or shard by shard into a folder
``shards``     one shard: a safetensors file that is written whole, named by its content, and mapped into memory
``rows``       the rows of many shards behind the manners of one array
``index``      the file that makes a folder of shards complete, and the one that says whose an unfinished one is
``store``      ``Features``, and how they are saved, loaded and verified
``progress``   how far it is
=============  =======================================================================================================

A features folder holds shards of so many images each and ``index.json``, which names them with their sizes and hashes,
and is written last: a folder without it is a run that did not end, and goes on from its shards. Nothing in it is ever
changed, so that readers and several writers need no lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .origin import Origin, code_version, require_comparable
from .progress import Bar, Progress, Silent
from .rows import Rows
from .store import Features, Skipped, load_features, verify

if TYPE_CHECKING:
    from .computing import featurise

__all__ = [
    "Bar",
    "Features",
    "Origin",
    "Progress",
    "Rows",
    "Silent",
    "Skipped",
    "code_version",
    "featurise",
    "load_features",
    "require_comparable",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "featurise":  # the one that imports torch
        from .computing import featurise

        return featurise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
