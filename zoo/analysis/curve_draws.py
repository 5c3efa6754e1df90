"""What is uncertain about recorded risks: joint draws of mean risks, from the intervals of rows and from their seeds.

Rows have no single images any more, so draws are made of what they tell. Images: each half of a row's interval is half
a normal distribution about its value, and the seeds of one mean, which were tested on the same images, go up and down
together; they are taken to do so entirely, which never makes an interval too short.

Seeds: their variance is that of all networks of a task with the same number of labels, each about its own mean, for
two or three seeds of one network alone know next to nothing of it (with two, a 95 % interval has 13 standard errors on
either side). It is drawn from its own distribution: the sum of squares over the true variance is chi squared. That
networks of a task scatter alike with the same labels, and each by itself, is an assumption: a seed draws the labels of
all of them, and what it does to all alike is less well known than that. In the limit where nothing else matters, an
interval of a risk that says 95 % holds it in 76 % of cases with two seeds of five networks, 84 % with three and 90 %
with five; it cancels in differences, whose intervals are too wide then.

Equal rows give equal draws: of a control that several encoders share, and of scratch with all labels, which is maximal
supervision. All else is drawn independently, though the images are the same in truth. Intervals of differences between
encoders are too wide by that, and the more so the better their errors agree. In a cumulative improvement what a
network shares with scratch makes the interval too wide, and what it shares with itself in other regimes too narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

from ..evaluation.curves.curve import Drawn
from ..evaluation.curves.draws import share_beyond
from ..evaluation.intervals import N_DRAWS
from ..optional import requires_extra
from .curve_rows import Run
from .estimates import Estimate

with requires_extra("study", needed_for="A study of learning curves"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_Z = 1.959963984540054  # of a normal distribution, 95 % lie so many deviations about its mean


def seed_variances(
    groups: Iterable[Sequence[Run]], *, whose: Sequence[str], seed: int = 0, n_draws: int = N_DRAWS
) -> Floats | None:
    """Draws of how much networks vary that differ in their seed alone.

    Parameters
    ----------
    groups : iterable of sequences of Run
        The runs of one network each, such as differ in their seed; the same ones count once.
    whose : sequence of str
        What tells these groups from others with the same numbers.
    seed : int
        Of the draws.
    n_draws : int

    Returns
    -------
    float array, shape (n_draws,), at least 0, or None
        In the unit of the runs squared; None where every network has one seed.
    """
    several = sorted({tuple(runs) for runs in groups if len(runs) > 1}, key=repr)
    n_free = sum(len(runs) - 1 for runs in several)
    if not n_free:
        return None
    squares = sum(float(np.var([run.value for run in runs])) * len(runs) for runs in several)
    random = np.random.default_rng([seed, *_key([run for runs in several for run in runs], whose)])
    return np.asarray(squares / random.chisquare(n_free, size=n_draws))


def drawn_mean(
    runs: Sequence[Run], *, whose: Sequence[str], variances: Floats | None = None, seed: int = 0,
    n_draws: int = N_DRAWS,
) -> Drawn:  # fmt: skip
    """The mean of runs that differ in their seed, with draws of what it might have been.

    Parameters
    ----------
    runs : sequence of Run
        At least one.
    whose : sequence of str
        What tells these runs from others with the same numbers: data set and metric, and the encoder if it is one's.
    variances : float array, shape (n_draws,), optional
        Of the seeds, from :func:`seed_variances`; without them intervals are of test images alone.
    seed : int
        Of the draws.
    n_draws : int

    Returns
    -------
    Drawn
        Draws are all the value itself if a single run has neither interval nor seed, as a recorded risk; there are none
        if a run has a seed and no interval, for then nothing is known.
    """
    values = np.array([run.value for run in runs])  # (n_seeds,)
    mean = float(values.mean())
    if any(run.seed is not None and (run.ci_low is None or run.ci_high is None) for run in runs):
        return Drawn(value=mean)
    random = np.random.default_rng([seed, *_key(runs, whose)])
    normal = random.standard_normal(n_draws)
    down, up = (float(np.mean([_deviation(run, end) for run in runs])) for end in ("ci_low", "ci_high"))
    draws = mean + np.where(normal < 0, normal * down, normal * up)
    if variances is not None and runs[0].seed is not None:
        draws = draws + np.sqrt(variances / len(runs)) * random.standard_normal(n_draws)
    return Drawn(value=mean, draws=draws)


def mean_of(several: Sequence[Drawn]) -> Drawn:
    """Mean of several quantities, draw by draw; without draws if one of them has none."""
    return _combined(several, lambda values: values.mean(axis=-1))


def difference_of(one: Drawn, other: Drawn) -> Drawn:
    """The first less the second."""
    return _combined([one, other], lambda values: values[..., 0] - values[..., 1])


def spread_of(several: Sequence[Drawn]) -> Drawn:
    """Standard deviation of at least two quantities over each other, not over draws."""
    return _combined(several, lambda values: values.std(axis=-1, ddof=1))


def largest_of(several: Sequence[Drawn]) -> Drawn:
    """The largest of several quantities."""
    return _combined(several, lambda values: values.max(axis=-1))


def estimate_of(
    drawn: Drawn, *, term: str, outcome: str, n: int, unit: str, method: str, is_pulled: bool = False
) -> Estimate:
    """A quantity as a record, with its 95 % interval where at least 95 % of its draws are defined.

    Parameters
    ----------
    drawn : Drawn
        NaN among the draws: not defined there.
    term, outcome, n, unit, method
        As of :class:`Estimate`.
    is_pulled : bool
        Of a spread or a largest value, which noise alone makes larger: in the draws, which have the noise of the
        measurement twice, more than in the value. The interval is then that of the basic bootstrap, 2 value - draws,
        in which this cancels.

    Returns
    -------
    Estimate
        Its interval holds the value.
    """
    draws = drawn.draws[np.isfinite(drawn.draws)]
    beyond = share_beyond(len(draws), len(drawn.draws))
    if beyond is None:
        note = "undefined in too many draws" if len(drawn.draws) else "a run has no interval"
        return Estimate(term=term, value=drawn.value, n=n, unit=unit, outcome=outcome, method=method, note=note)
    placed = 2 * drawn.value - draws if is_pulled else draws
    low, high = (float(end) for end in np.percentile(placed, [100 * beyond, 100 * (1 - beyond)]))
    if is_pulled and draws.min() >= 0:
        low = max(low, 0.0)  # as of a deviation, which is never below
    return Estimate(
        term=term, value=drawn.value, ci_low=min(low, drawn.value), ci_high=max(high, drawn.value), n=n, unit=unit,
        outcome=outcome, method=method,
    )  # fmt: skip


def _combined(several: Sequence[Drawn], of: Callable[[Floats], Floats]) -> Drawn:
    value = float(of(np.array([one.value for one in several])))
    if not all(len(one.draws) for one in several):
        return Drawn(value=value)
    return Drawn(value=value, draws=of(np.stack([one.draws for one in several], axis=-1)))


def _deviation(run: Run, end: str) -> float:
    """Standard deviation on one side of the value; 0 without an interval."""
    limit = getattr(run, end)
    return 0.0 if limit is None else abs(float(limit) - run.value) / _Z


def _key(runs: Sequence[Run], whose: Sequence[str]) -> list[int]:
    """Numbers that are the same for the same rows, whatever was asked for when they were measured."""
    told = [(run.n_actual, run.seed, run.value, run.ci_low, run.ci_high) for run in runs]
    digest = blake2b(repr((list(whose), told)).encode(), digest_size=16).digest()
    return [int.from_bytes(digest[start : start + 4], "little") for start in range(0, 16, 4)]
