"""Features of an image set: computed once, stored with their origin, read back and checked.

A features folder holds shards of so many images each and ``index.json``, which names them with their sizes and hashes,
and is written last: a folder without it is an unfinished run, which continues from its shards. Nothing in it is ever
changed, so that readers and several writers need no lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..optional import make_lazy_exports

if TYPE_CHECKING:
    from ..evaluation.retrieval import nearest as nearest
    from .exporting import export_features as export_features
    from .exporting import extract_features as extract_features
    from .featurising import featurise as featurise
    from .maps import MapGrid as MapGrid
    from .maps import featurise_maps as featurise_maps
    from .maps import iterate_maps as iterate_maps
    from .maps import parse_map_grid as parse_map_grid
    from .origin import Origin as Origin
    from .origin import get_code_version as get_code_version
    from .origin import require_comparable as require_comparable
    from .shards import Rows as Rows
    from .shards import Skipped as Skipped
    from .store import Features as Features
    from .store import load_features as load_features
    from .store import verify as verify
else:
    __getattr__, __dir__, __all__ = make_lazy_exports(
        __name__,
        {
            ".evaluation.retrieval": ["nearest"],  # on first use: this package needs nothing of what uses it
            "featurising": ["featurise"],
            "exporting": ["export_features", "extract_features"],
            "maps": ["MapGrid", "featurise_maps", "iterate_maps", "parse_map_grid"],
            "origin": ["Origin", "get_code_version", "require_comparable"],
            "shards": ["Rows", "Skipped"],
            "store": ["Features", "load_features", "verify"],
        },
    )
