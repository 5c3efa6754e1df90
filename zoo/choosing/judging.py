"""What judges contenders in a race: ridge regression with an outcome for each image, and the probe, cached on disk."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..datasets.subsets import held_out
from ..errors import DataError
from ..evaluation.transferability.components import Labelled
from ..evaluation.transferability.leave_one_out import ridge_of
from ..files import replaced
from ..optional import requires_extra

with requires_extra("evaluate", needed_for="Choosing an encoder"):
    import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .visiting import Task

    Floats = NDArray[np.float32]
    Rows = NDArray[np.int64]
    Truths = NDArray[np.bool_]

PROTOCOL = "zoo-logistic-2"  # of the probe
TUNING_SHARE = 0.2  # of the labels, for the choice of the probe's C, as the protocol has it
_FORMAT = "zoo-choice-probe-1"
_UNKNOWN = -1  # no label is below 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunk:
    """Labelled features of one rung."""

    x_train: Floats  # (n_train, dim), in the order of visits
    y_train: NDArray[np.int64]
    x_test: Floats
    y_test: NDArray[np.int64]
    groups: NDArray[np.int64] | None  # of the training images

    def quarter(self) -> Chunk:
        """The same with the first quarter of the labels."""
        n = max(len(self.y_train) // 4, 1)
        groups = None if self.groups is None else self.groups[:n]
        return replace(self, x_train=self.x_train[:n], y_train=self.y_train[:n], groups=groups)


def ridge_score(chunk: Chunk) -> tuple[Truths, Truths, float]:
    """Ridge regression to the classes, which judges before all labels are there.

    Returns whether it is wrong on each training image (n_train,) and on each test image (n_test,), and its mean squared
    error over both, by which contenders are ordered; lower is better. A training image is predicted from those of other
    groups, in closed form; of a single group there is none to predict it from, and the first array is empty. The
    penalty has the least squares on those. Squares order encoders better than errors do, and than scores of
    transferability (``zoo study do_transferability_scores_predict``).
    """
    classes, numbers = np.unique(chunk.y_train, return_inverse=True)
    mean, z = chunk.x_train.mean(axis=0, dtype=np.float64), chunk.x_train.astype(np.float64)
    data = Labelled(z=z - mean, y=numbers.reshape(-1), classes=classes)
    targets = data.targets
    groups = None if chunk.groups is None else np.unique(chunk.groups, return_inverse=True)[1].reshape(-1)
    is_one_group = groups is not None and int(groups.max()) == 0
    if len(classes) == 1 or not (z != z[0]).any():  # nothing to fit
        left_out = np.broadcast_to(targets.mean(axis=0), targets.shape)
        on_test = np.broadcast_to(targets.mean(axis=0), (len(chunk.y_test), len(classes)))
    else:
        others = None if is_one_group else groups
        fit = ridge_of(data, others, loss=lambda outputs: float(np.square(targets - outputs).sum()))
        left_out, on_test = fit.left_out, fit.outputs(chunk.x_test.astype(np.float64) - mean)
    y_test = (chunk.y_test[:, None] == classes).astype(np.float64)
    n_judged = 0 if is_one_group else len(targets)
    squares = np.square(targets - left_out).sum(axis=1)[:n_judged], np.square(y_test - on_test).sum(axis=1)
    return (
        classes[left_out.argmax(axis=1)][:n_judged] != chunk.y_train[:n_judged],
        classes[on_test.argmax(axis=1)] != chunk.y_test,
        float(np.concatenate(squares).mean()),
    )


Predict = Callable[[Any, Any], Any]
"""From features (n, dim) of test images, and their rows, to labels (n,)."""
Probe = Callable[[str, Any, Any, Any], Predict]
"""Trains a probe: name of the contender, rows of the training images (ascending), their features and labels."""


def logistic_probe(
    task: Task, *, contents: NDArray[np.uint64] | None = None, seed: int = 0, device: str | None = None
) -> Probe:
    """A maker of probes by the protocol zoo-logistic-2: C by a held-out fifth of the labels, then all labels.

    On all labels it is the probe of ``zoo evaluate`` in its setting "full": whole groups are held out, and copies (the
    same number in ``contents`` of the training images) together. Parts of the labels may have too few groups for that;
    then the images that are held out are of the same groups as the others, which may cost the best C and no more.
    """

    def fitted(name: str, rows: Rows, x: Floats, y: NDArray[np.int64]) -> Predict:
        from ..evaluation.evaluating import probe_maker
        from ..evaluation.protocols import PROTOCOLS

        probe: Any = probe_maker(PROTOCOLS[PROTOCOL], seed=seed, device=device)()
        n_free = len(y) - len(np.unique(y))  # each class keeps an image
        n = min(task.n_test, math.ceil(TUNING_SHARE * len(y)), n_free)
        some = None if contents is None else contents[rows]
        drawn = partial(held_out, y, n, seed=seed, classes=task.classes)
        groups = None if task.groups_train is None else task.groups_train[rows]
        try:
            held = drawn(contents=some, groups=groups).indices
        except DataError:
            held = drawn().indices
        rest = np.setdiff1d(np.arange(len(y)), held)
        probe.fit(x[rest], y[rest], x_val=x[held], y_val=y[held])
        again = type(probe)(**(probe.get_params() | {"C": probe.report_["C"]}))
        again.fit(x, y)

        def predict(x_test: Any, rows_test: Any = None) -> Any:
            return again.predict(x_test)

        return predict

    return fitted


def cached(probe: Probe, *, n_test: int, facts: Callable[[str], tuple[Path, dict[str, Any]]]) -> Probe:
    """The same probe, whose predictions are cached.

    ``facts`` gives, for the name of a contender, the folder and everything that decides a prediction beside the rows
    and labels of the training images: features, protocol, seed, test images.
    """

    def made(name: str, rows: Rows, x: Any, y: Any) -> Predict:
        folder, decisive = facts(name)
        text = json.dumps([_FORMAT, decisive, _hash(rows), _hash(y)], sort_keys=True)
        path = folder / f"choice-{blake2b(text.encode(), digest_size=16).hexdigest()}.npy"
        trained: list[Predict] = []

        def predict(x_test: Any, rows_test: Rows) -> Rows:
            known = _read(path, n_test)
            missing = known[rows_test] == _UNKNOWN
            if missing.any():
                if not trained:
                    trained.append(probe(name, rows, x, y))
                known[rows_test[missing]] = trained[0](x_test[missing], rows_test[missing])
                try:
                    with replaced(path) as file:
                        np.save(file, known)
                except OSError as error:
                    raise DataError(
                        f"The predictions of a probe could not be kept in {path} ({error.strerror or error}); make "
                        "room, or name another folder."
                    ) from error
            return np.asarray(known[rows_test])

        return predict

    return made


def _read(path: Path, n_test: int) -> Rows:
    """Predicted labels of all test images; a damaged file counts as none."""
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        found = np.empty(0)
    if found.dtype == np.int64 and found.shape == (n_test,):
        return np.asarray(found)
    return np.full(n_test, _UNKNOWN, np.int64)


def _hash(numbers: Rows) -> str:
    return blake2b(np.ascontiguousarray(numbers, dtype="<i8").tobytes(), digest_size=16).hexdigest()
