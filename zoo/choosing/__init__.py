"""Which encoder for one's own images: constraints, a diverse shortlist, a race on the images, and its page.

Everything is imported, with the libraries that it needs, on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..optional import make_lazy_exports

if TYPE_CHECKING:
    from .choosing import Choice as Choice
    from .choosing import ChoicePlan as ChoicePlan
    from .choosing import choose as choose
    from .choosing import plan_choice as plan_choice
    from .constraints import Constraints as Constraints
    from .ranking import Ranking as Ranking
    from .ranking import recommend as recommend
    from .scoring import Task as Task
    from .successive_halving import Contender as Contender
    from .successive_halving import Plan as Plan
    from .successive_halving import Race as Race
    from .successive_halving import race as race
else:
    __getattr__, __dir__, __all__ = make_lazy_exports(
        __name__,
        {
            "choosing": ["Choice", "ChoicePlan", "choose", "plan_choice"],
            "constraints": ["Constraints"],
            "successive_halving": ["Contender", "Plan", "Race", "race"],
            "scoring": ["Task"],
            "ranking": ["Ranking", "recommend"],
        },
    )
