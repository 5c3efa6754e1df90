"""What was measured: rows of ``results/`` with their errata, and what is derived from them.

>>> from zoo.results import summaries
>>> round(summaries()["dino_vitS16"].errors["100%"], 1)
24.6
"""

from typing import TYPE_CHECKING

from ..optional import make_lazy_exports

if TYPE_CHECKING:
    from .derived import seed_means as seed_means
    from .derived import summaries as summaries
    from .reported import reported_numbers as reported_numbers
    from .reported_values import ReportedNumber as ReportedNumber
    from .rows import Measurement as Measurement
    from .rows import Measurements as Measurements
    from .rows import errata as errata
    from .rows import measurements as measurements
    from .values import PUBLISHED_SOURCE as PUBLISHED_SOURCE
    from .values import SETTINGS as SETTINGS
    from .values import ResultErratum as ResultErratum
    from .values import RiskDecomposition as RiskDecomposition
    from .values import SeedMean as SeedMean
    from .values import Setting as Setting
    from .values import Summary as Summary
    from .vocabulary import METRICS as METRICS
    from .vocabulary import SPLITS as SPLITS
else:
    __getattr__, __dir__, __all__ = make_lazy_exports(
        __name__,
        {
            "derived": ["seed_means", "summaries"],
            "reported": ["reported_numbers"],
            "reported_values": ["ReportedNumber"],
            "rows": ["Measurement", "Measurements", "errata", "measurements"],
            "values": [
                "PUBLISHED_SOURCE",
                "ResultErratum",
                "RiskDecomposition",
                "SETTINGS",
                "SeedMean",
                "Setting",
                "Summary",
            ],
            "vocabulary": ["METRICS", "SPLITS"],
        },
    )
