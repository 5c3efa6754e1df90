"""Executors by the names that the command line has for them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ..errors import QueryError
from .executor import Executor, Resources, count_cores, select_part
from .processes import Processes

_MOST_PROCESSES = 1024


def open_executor(
    on: str | None, *, resources: Resources, part: tuple[int, int] | None = None, mixed_versions: bool = False
) -> Executor:
    """The executor of a name; closes with :meth:`Executor.close`.

    Parameters
    ----------
    on : str or None
        None: this process, one piece after the other. ``"local"``: processes of this machine, as many as its cores
        allow, or its GPUs where ``resources`` takes some. ``"local:N"``: N of them. ``"ray"``: a cluster that is
        started on this machine, and listens on loopback alone. ``"ray:ADDRESS"``: one that runs, at ``HOST:PORT`` or
        ``auto``.
    resources : Resources
        What a piece of work takes.
    part : (int, int), optional
        k and n: only every n-th piece, from the k-th on.
    mixed_versions : bool
        Uses workers that have other versions of what may change numbers; there are such on a cluster alone.

    Raises
    ------
    QueryError
        If there is no executor like that, or not as many GPUs as are asked for.
    MissingExtra
        If it is Ray and Ray is not installed.
    """
    executor = _opened(on, resources, mixed_versions)
    return executor if part is None else select_part(executor, *part)


def _opened(on: str | None, resources: Resources, mixed_versions: bool) -> Executor:
    if on is None:
        return Processes(0)
    kind, colon, rest = on.partition(":")
    if kind == "local" and bool(colon) == bool(rest):
        if rest and (not re.fullmatch(r"\d{1,6}", rest, re.ASCII) or not 1 <= int(rest) <= _MOST_PROCESSES):
            raise QueryError(f"Got --on {on}, expected local:N with a number of processes from 1 to {_MOST_PROCESSES}.")
        n = int(rest) if rest else None
        if resources.n_gpus > 0:
            gpus = _gpus(resources.n_gpus, wanted=n)
            return Processes(len(gpus), gpus=gpus)
        return Processes(max(1, count_cores() // resources.n_cpus) if n is None else n)
    if kind == "ray" and bool(colon) == bool(rest):
        from .ray_cluster import Ray

        return Ray(rest or None, resources, mixed_versions=mixed_versions)
    raise QueryError(
        f"Got --on {on}, expected local, local:N for N processes, ray, or ray:HOST:PORT or ray:auto for a cluster that "
        "runs."
    )


def _gpus(each: float, *, wanted: int | None) -> Sequence[str]:
    """Names of the GPUs that the processes see, of one after the other; refuses more than there is room for."""
    import torch

    n_here = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if n_here else []
    names = visible[:n_here] if len(visible) >= n_here and all(visible) else [str(number) for number in range(n_here)]
    if each >= 1:
        n_each = round(each)
        room = [",".join(names[first : first + n_each]) for first in range(0, n_here - n_each + 1, n_each)]
    else:
        room = names * int(1 / each + 1e-6)
    if not room or (wanted or 0) > len(room):
        raise QueryError(
            f"Got {wanted or 1} process{'es' if (wanted or 1) > 1 else ''} with {each:g} GPUs each, expected at most "
            f"{len(room)} with the {n_here} GPUs of this machine; give another number of GPUs by --gpus-each."
        )
    return room[:wanted]
