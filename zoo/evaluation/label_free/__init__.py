"""How good a representation is, told without labels: RankMe, LiDAR, CLID and what they are compared with.

>>> import numpy as np
>>> from zoo.evaluation.label_free import compute
>>> round(compute("rankme", z=np.eye(4)).value, 4)
4.0

:mod:`zoo.labelfree` is the table of contents, ``catalogue`` calls a metric by its name.

=======================  ===================================================================================
``rank``                 RankMe, ranks and alpha-ReQ, from the singular values of ``spectrum``
``lidar``                LiDAR
``monitor``              these, of a training while it runs
``pairs``                alignment, uniformity, contrast
``dimension``, ``local``  TwoNN, entropy from local dimension; ``nearest`` finds the neighbours
``learnability``         cluster learnability; ``clusters`` is k-means
``population``           CLID and W-CLID over several encoders, joint ranks
``coding``, ``collapse``  coding-rate reduction, NC1
``mine``                 mutual information by a trained critic
``rotation``, ``entropy``, ``one_shot``  what needs turned images or a labelled data set
``inputs``               featurises what the metrics need, once; ``measuring`` computes them and makes rows of results
``files``                features in files
=======================  ===================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...optional import lazy

if TYPE_CHECKING:
    from .catalogue import compute as compute
    from .monitor import Monitor as Monitor
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "catalogue": ["compute"],
            "monitor": ["Monitor"],
        },
    )
