"""The runs that a report needs: which there are, in which order, and which of them are one and the same.

Candidates of one architecture that see their images alike share the scratch control; scratch with all labels is
maximal supervision; and the blind guess depends on no network at all. What tells runs apart is a hash of everything
that decides their result, by which they are kept and found again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b

from .candidates import Candidate
from .data import TransferData
from .nested import RegimeSubset, regime_subset
from .recipe import Recipe, recipe_digest
from .runs import Control

_FORMAT = "zoo-curve-run-1"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """One run, done or not.

    Attributes
    ----------
    control : str
        "encoder", or which control.
    candidate : Candidate
        Of a control, the first of those that share it.
    n : int
        Labelled images.
    seed : int or None
        None of the blind guess.
    n_steps : int
        Of the optimizer, at most; 0 where nothing is trained.
    key : str
        Hash of everything that decides the result.
    """

    control: Control
    candidate: Candidate
    n: int
    seed: int | None
    n_steps: int
    key: str

    @property
    def label(self) -> str:
        """In words."""
        if self.control == "blind":
            return "blind guess"
        who = {"encoder": self.candidate.name, "scratch": "scratch", "maximal": "maximal supervision"}[self.control]
        return f"{who}, {self.n:,} images, seed {self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """What all runs of a report have in common; makes their jobs."""

    data: TransferData
    recipe: Recipe
    has_maximal: bool = True  # it is measured; False: its risk was recorded
    _subsets: dict[tuple[int, int], RegimeSubset] = field(default_factory=dict)

    @property
    def n_all(self) -> int:
        """Training images."""
        return len(self.data.train)

    def subset(self, n: int, seed: int) -> RegimeSubset:
        """The images of a regime.

        Raises
        ------
        QueryError, DataError
            As :func:`~zoo.evaluation.curves.nested.regime_subset`.
        """
        if (n, seed) not in self._subsets:
            share = self.recipe.validation_share
            self._subsets[n, seed] = regime_subset(self.data.train, n, seed=seed, validation_share=share)
        return self._subsets[n, seed]

    def blind(self, candidate: Candidate) -> Job:
        """The constant guess; of maps it depends on how images are cropped."""
        about = asdict(candidate.preprocess) if self.data.task.is_dense else None
        key = self._hash("blind", about)
        return Job(control="blind", candidate=candidate, n=self.n_all, seed=None, n_steps=0, key=key)

    def scratch(self, candidate: Candidate, n: int, seed: int) -> Job:
        """The network from random weights; with all images it is maximal supervision."""
        control: Control = "maximal" if n == self.n_all and self.has_maximal else "scratch"
        return self._trained(control, candidate, n, seed, self.recipe.of_controls, candidate.architecture_hash)

    def encoder(self, candidate: Candidate, n: int, seed: int) -> Job:
        """The candidate itself."""
        about = [candidate.architecture_hash, candidate.weights_hash]
        return self._trained("encoder", candidate, n, seed, self.recipe, about)

    def _trained(
        self, control: Control, candidate: Candidate, n: int, seed: int, recipe: Recipe, network: object
    ) -> Job:
        subset = self.subset(n, seed)
        kind = "encoder" if control == "encoder" else "scratch"
        key = self._hash(kind, asdict(recipe), asdict(candidate.preprocess), network, subset.fingerprint, seed)
        n_steps = recipe.n_steps(len(subset.train))
        return Job(control=control, candidate=candidate, n=n, seed=seed, n_steps=n_steps, key=key)

    def _hash(self, *about: object) -> str:
        data = [self.data.train.fingerprint, self.data.test.fingerprint, self.data.n_outputs]
        text = json.dumps([_FORMAT, self.data.task.name, recipe_digest(self.data.task), data, *about], sort_keys=True)
        return blake2b(text.encode(), digest_size=16).hexdigest()


def ends_of_scale(work: Workload, candidates: Sequence[Candidate], seeds: Sequence[int]) -> tuple[Job, ...]:
    """The blind guess and maximal supervision, which every other risk is seen against."""
    jobs = [work.blind(candidate) for candidate in candidates]
    if work.has_maximal:
        jobs += [work.scratch(candidate, work.n_all, seed) for seed in seeds for candidate in candidates]
    return distinct(jobs)


def all_jobs(
    work: Workload, candidates: Sequence[Candidate], regimes: Sequence[int], seeds: Sequence[int]
) -> tuple[Job, ...]:
    """Every run, each once, in an order that soon gives something to look at.

    First the ends of the scale, then the regimes from small to large, and in each of them all candidates with one seed
    after the other.
    """
    jobs = list(ends_of_scale(work, candidates, seeds))
    for n in sorted(regimes):
        for seed in seeds:
            jobs += [work.scratch(candidate, n, seed) for candidate in candidates]
            jobs += [work.encoder(candidate, n, seed) for candidate in candidates]
    return distinct(jobs)


def distinct(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Each run once, at its first place."""
    found: dict[str, Job] = {}
    for job in jobs:
        found.setdefault(job.key, job)
    return tuple(found.values())
