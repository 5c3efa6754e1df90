"""A static site of everything the zoo knows: pages that open from the disk and from any server, without network.

:func:`write_site` gathers cards and results once (:mod:`~zoo.site.contents`), has every kind of page made
(:mod:`~zoo.site.building`) and writes what changed (:mod:`~zoo.site.folder`).
"""

from typing import TYPE_CHECKING

from ..optional import lazy

if TYPE_CHECKING:
    from .building import site_files as site_files
    from .contents import Contents as Contents
    from .contents import gather as gather
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "building": ["site_files"],
            "contents": ["Contents", "gather"],
        },
    )
