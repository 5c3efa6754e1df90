"""A static site of everything the zoo knows: pages that open from the disk and from any server, without network.

:func:`gather` reads cards and results once, :func:`site_files` has every kind of page made, and :func:`write_site`
writes what changed::

    write_site(site_files(gather()), Path("site"))
"""

from typing import TYPE_CHECKING

from ..optional import make_lazy_exports

if TYPE_CHECKING:
    from .building import Written as Written
    from .building import site_files as site_files
    from .building import write_site as write_site
    from .contents import Contents as Contents
    from .contents import gather as gather
    from .rendering import File as File
else:
    __getattr__, __dir__, __all__ = make_lazy_exports(
        __name__,
        {
            "building": ["Written", "site_files", "write_site"],
            "contents": ["Contents", "gather"],
            "rendering": ["File"],
        },
    )
