"""Pictures of what encoders make of images, and of the mistakes of probes; single-file pages that hold them.

Everything is imported, with the libraries that it needs, on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..optional import make_lazy_exports

if TYPE_CHECKING:
    from .components import component_colours as component_colours
    from .components import patch_similarity as patch_similarity
    from .components import principal_components as principal_components
    from .mistakes import Mistakes as Mistakes
    from .mistakes import find_near_duplicates as find_near_duplicates
    from .mistakes import find_wrong_labels as find_wrong_labels
    from .mistakes import mistakes_of as mistakes_of
    from .neighbourhood import laid_out as laid_out
    from .neighbourhood import nearest_images as nearest_images
    from .showing import figures_of as figures_of
    from .showing import write_look as write_look
    from .visualization import Look as Look
    from .visualization import look as look
else:
    __getattr__, __dir__, __all__ = make_lazy_exports(
        __name__,
        {
            "components": ["component_colours", "patch_similarity", "principal_components"],
            "visualization": ["Look", "look"],
            "mistakes": ["Mistakes", "find_near_duplicates", "find_wrong_labels", "mistakes_of"],
            "neighbourhood": ["laid_out", "nearest_images"],
            "showing": ["figures_of", "write_look"],
        },
    )
