"""How many cases tests of properties draw: few and always the same, or as many as ZOO_TEST_EXAMPLES says, anew."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_ASKED = os.environ.get("ZOO_TEST_EXAMPLES")
drawn = settings(
    max_examples=int(_ASKED or 25),
    derandomize=_ASKED is None,
    database=None,
    deadline=None,  # a busy machine is no failure
    suppress_health_check=[HealthCheck.too_slow],
)
"""The settings of every test of a property."""
