"""Where on the regularisation path the best penalty lies, and the fit under it.

The search walks by powers of ten from the penalty that hides all but the first direction of the data towards none, as
far as the validation data want it. Between the best and its two neighbours the path is smooth in the
logarithm of the penalty: validation logits interpolated between the three fits, at the price of no fit at all, say
which penalty is best, and that one is solved to the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..optional import requires_extra
from .logistic_path import STEP, Fit, Path
from .logistic_solver import Point
from .logistic_steps import interpolated, lowest_from

with requires_extra("evaluate", needed_for="A probe"):
    import torch

_CLEARLY = 0.005  # of the validation log loss
_BETWEEN = 8  # interpolated penalties between two neighbours of the best
_FITTED = 1e-5  # objective per image, in nats, at which the walk has reached its weak end
_PATIENCE = {"log_loss": 1, "error": 2}  # fits without a better one that end the walk


def searched(path: Path, most: int) -> Fit:
    """Looks for the best penalty with at most so many fits (three at least); returns the fit under it."""
    if path.problem.z.shape[1] == 1:  # features that tell nothing: every penalty gives the same
        return path.along([1.0])
    fits = _walked(path, most)
    best = min(range(len(fits)), key=lambda place: path.key(fits[place]))
    penalty, start = _between(path, fits, best)
    final = path.fitted(start, penalty, path.tol)
    if _promised_more(path, fits[best], final):
        again = path.fitted(fits[best].point, fits[best].point.penalty, path.tol)
        final = min(again, final, key=path.key)
    return final


def _walked(path: Path, most: int) -> list[Fit]:
    """Fits from strong to weak, of which the best is not at an end unless there are no more."""
    spectrum = path.problem.spectrum[:-1]
    largest = float(spectrum.max())
    penalty = largest / path.problem.n_classes
    half_seen = float(spectrum.median()) / path.problem.n_classes
    fits: list[Fit] = []
    best, since_best = 0, 0
    while len(fits) < max(most - 2, 1):
        may_end = not fits or (penalty * STEP <= half_seen and _beats_guessing(path, fits[best]))
        if may_end and since_best >= _PATIENCE[path.select]:
            break
        fits.append(path.continued(fits[-2:], penalty, path.loose))
        if path.key(fits[-1]) < path.key(fits[best]) or len(fits) == 1:
            best, since_best = len(fits) - 1, 0
        else:
            since_best += 1
        for place, fit in enumerate(fits[:-2]):  # logits are large: only the best, its neighbours and the last two
            if abs(place - best) > 1:
                fit.logits, fit.point.logits = None, fit.point.logits[:0]
        if fits[-1].point.objective < _FITTED * path.problem.n:
            break
        penalty /= STEP
    while best == 0 and len(fits) < max(most - 1, 1):
        fit = path.fitted(fits[0].point, fits[0].point.penalty * STEP, path.loose)
        fits.insert(0, fit)
        best = 0 if path.key(fit) < path.key(fits[1]) else 1
    return fits


def _beats_guessing(path: Path, fit: Fit) -> bool:
    """Whether it errs less on the validation images than the most frequent of their classes would."""
    if path.validation is None:
        return True
    known = path.validation.y[path.validation.y >= 0]
    most = int(torch.bincount(known).max()) if len(known) else 0
    return fit.record.validation_error_percent < 100.0 * (1.0 - most / len(path.validation.y))


def _between(path: Path, fits: Sequence[Fit], best: int) -> tuple[float, Point]:
    """The best penalty between the best fit and its neighbours by interpolation, and the point to begin with."""
    if path.validation is None or not 0 < best < len(fits) - 1:
        return fits[best].point.penalty, fits[best].point
    three = fits[best - 1 : best + 2]
    places = [math.log(fit.point.penalty) for fit in three]
    between = [
        left + (right - left) * step / (_BETWEEN + 1)
        for left, right in ((places[0], places[1]), (places[1], places[2]))
        for step in range(1, _BETWEEN + 1)
    ]
    between.insert(_BETWEEN, places[1])

    def key(number: int) -> tuple[float, ...]:
        judged = [fit.logits for fit in three if fit.logits is not None]
        error, loss = path.validation.judged(interpolated(judged, places, between[number]))  # type: ignore[union-attr]
        return path.ordered(error, loss, math.exp(between[number]))

    if path.select == "log_loss":  # smooth along the path
        chosen = between[lowest_from(_BETWEEN, len(between), key)]
    else:
        chosen = between[min(range(len(between)), key=key)]
    parameters = interpolated([fit.point.parameters for fit in three], places, chosen)
    logits = interpolated([fit.point.logits for fit in three], places, chosen)
    return math.exp(chosen), Point(penalty=math.exp(chosen), parameters=parameters, logits=logits)


def _promised_more(path: Path, loose: Fit, final: Fit) -> bool:
    """Whether a fit that stopped early was so much better than the final one that it deserves an end, too."""
    if loose.point.penalty == final.point.penalty:
        return False
    if path.select == "error":
        return loose.record.validation_error_percent < final.record.validation_error_percent
    return loose.record.validation_log_loss < final.record.validation_log_loss * (1.0 - _CLEARLY)
