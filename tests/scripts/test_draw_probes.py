"""The picture of docs/probes.md: directions that are known, and texts that are legible."""

from __future__ import annotations

import numpy as np

from scripts.draw_probes import PREPARATIONS, VALUES, Directions, directions, drawn, on_a_page
from tests.figure_checks import figure_faults


def test_directions_come_by_variance_with_what_they_tell_of_the_classes() -> None:
    y = np.repeat([0, 1], 4)
    inside = np.tile([1.0, 1.0, -1.0, -1.0], 2)  # the same in both classes
    other = np.tile([1.0, -1.0, 1.0, -1.0], 2)
    between = 2.0 * y - 1.0
    found = directions(np.column_stack([5.0 + between, 3.0 * inside, between + other]), y)
    assert np.all(np.diff(found.variance) <= 0)
    np.testing.assert_allclose(found.between[0], 0.0, atol=1e-9)
    np.testing.assert_allclose(found.variance[0], 100 * 9 / 12)


def test_the_picture_has_units_and_legible_texts() -> None:
    falling = 0.5 ** np.arange(60)
    of = Directions(variance=100 * falling / falling.sum(), between=60 * 0.95 ** np.arange(60))
    errors = {name: 20.0 + place + np.square(np.log10(VALUES) - 1) for place, name in enumerate(PREPARATIONS)}
    with on_a_page():
        assert figure_faults(drawn(of, errors, VALUES)) == []
