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

from typing import TYPE_CHECKING

from ..optional import lazy

if TYPE_CHECKING:
    from .computing import featurise as featurise
    from .origin import Origin as Origin
    from .origin import code_version as code_version
    from .origin import require_comparable as require_comparable
    from .progress import Bar as Bar
    from .progress import Progress as Progress
    from .progress import Silent as Silent
    from .rows import Rows as Rows
    from .store import Features as Features
    from .store import Skipped as Skipped
    from .store import load_features as load_features
    from .store import verify as verify
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "computing": ["featurise"],
            "origin": ["Origin", "code_version", "require_comparable"],
            "progress": ["Bar", "Progress", "Silent"],
            "rows": ["Rows"],
            "store": ["Features", "Skipped", "load_features", "verify"],
        },
    )
