"""Which encoder for one's own images: constraints, a diverse shortlist, a race on the images, and its page.

Everything is imported, with the libraries that it needs, on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..optional import lazy

if TYPE_CHECKING:
    from .choosing import Choice as Choice
    from .choosing import ChoicePlan as ChoicePlan
    from .choosing import choose as choose
    from .choosing import plan_choice as plan_choice
    from .constraints import Constraints as Constraints
    from .judging import Task as Task
    from .racing import Contender as Contender
    from .racing import Plan as Plan
    from .racing import Race as Race
    from .racing import race as race
    from .ranking import Ranking as Ranking
    from .ranking import recommend as recommend
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "choosing": ["Choice", "ChoicePlan", "choose", "plan_choice"],
            "constraints": ["Constraints"],
            "racing": ["Contender", "Plan", "Race", "race"],
            "judging": ["Task"],
            "ranking": ["Ranking", "recommend"],
        },
    )
