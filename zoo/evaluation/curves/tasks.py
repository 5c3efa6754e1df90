"""What an encoder is transferred to: how many numbers a pixel or an image, and how wrong they may be."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import UnknownName


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One kind of transfer task."""

    name: str
    is_dense: bool  # a map an image, by a U-Net decoder; else a class, by a linear head
    n_channels: int | None  # of a map; None: as many outputs as the data has classes
    metrics: tuple[str, ...]  # names in zoo.vocabulary.METRICS; curves are of the first unless another is asked for
    loss: str  # what is minimised
    decoder: str
    meaning: str


TASKS = {
    task.name: task
    for task in (
        Task(
            name="classification",
            is_dense=False,
            n_channels=None,
            metrics=("transfer_error",),
            loss="cross-entropy",
            decoder="linear head",
            meaning="the class of an image",
        ),
        Task(
            name="depth",
            is_dense=True,
            n_channels=1,
            metrics=("depth_l1_error",),
            loss="mean absolute error over valid pixels",
            decoder="U-Net",
            meaning="the depth at each pixel",
        ),
        Task(
            name="normals",
            is_dense=True,
            n_channels=3,
            metrics=("normals_l1_error", "normals_angular_error"),
            loss="mean absolute error over the three components of valid pixels",
            decoder="U-Net",
            meaning="the surface normal at each pixel: x to the right, y upwards, z towards the camera",
        ),
    )
}


def task_named(name: str) -> Task:
    """One of :data:`TASKS`.

    Raises
    ------
    UnknownName
        If there is no such task.

    >>> task_named("depth").metrics
    ('depth_l1_error',)
    """
    if name not in TASKS:
        raise UnknownName("task", name, TASKS, hint=f"Expected {', '.join(TASKS)}.")
    return TASKS[name]
