"""Features in files as the arguments of label-free metrics: folders of features, npy and npz files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import DataError, QueryError
from ...features import load_features
from ...labelfree import LabelFreeMetric
from ...optional import requires_extra

with requires_extra("models", needed_for="A label-free metric"):
    import numpy as np

ARGUMENTS = {
    "features": ("z",),
    "views": ("z",),
    "rotations": ("z", "z_val"),
    "labelled": ("z", "y", "z_val", "y_val"),
    "source and target": ("z", "y", "z_target"),
    "pixels": ("images", "z", "images_val", "z_val"),
}
"""The arrays that each need takes, by the names of an npz file."""
_VIEWS = "augmented"  # how the splits of views end


def arrays_of(path: Path, *, beside: Path | None = None) -> dict[str, Any]:
    """The arrays of a folder of features, an npy file or an npz file, by the names in :data:`ARGUMENTS`.

    Parameters
    ----------
    path : Path
        A folder that ``zoo features`` or ``zoo metric`` wrote: z stays on the disk, and is that of views, with ``ids``,
        where the folder is one of views. An npy file holds z, (n, dim) or (n_images, n_views, dim). An npz file holds
        the arrays under their names, and may hold ``ids``.
    beside : Path, optional
        A folder or npy file with the features of validation images: z_val, and y_val.

    Raises
    ------
    DataError
        If a file cannot be read, or holds no z.
    """
    found = _read(path)
    if beside is not None:
        other = _read(beside)
        found |= {f"{name}_val": other[name] for name in ("z", "y") if name in other}
    return found


def arguments_for(one: LabelFreeMetric, arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays that a metric takes.

    Raises
    ------
    QueryError
        If they are not all there; says which are missing.
    """
    wanted = ARGUMENTS[one.needs]
    missing = [name for name in wanted if name not in arrays]
    if missing:
        raise QueryError(
            f"{one.title} needs {', '.join(wanted)}, and the file holds {', '.join(arrays)}: {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing; pass an npz file with all of them, or an encoder and "
            "images."
        )
    views = arrays.get("ids") is not None or np.ndim(arrays["z"]) == 3
    if one.needs == "views":
        if not views:
            raise QueryError(
                f"{one.title} needs several views of each image, and the file holds one row an image; pass z of shape "
                "(n_images, n_views, dim), ids beside it, or an encoder and images."
            )
        return {"z": arrays["z"]} if arrays.get("ids") is None else {"z": arrays["z"], "ids": arrays["ids"]}
    if one.needs == "features" and np.ndim(arrays["z"]) == 3:
        raise QueryError(
            f"{one.title} needs one row an image, and it holds views of shape {tuple(arrays['z'].shape)}; reshape "
            "them to (n, dim) if that is what is meant."
        )
    return {name: arrays[name] for name in wanted}


def _read(path: Path) -> dict[str, Any]:
    if path.is_dir():
        features = load_features(path)
        if features.origin.split.endswith(_VIEWS):
            return {"z": features.x, "ids": features.y}
        return {"z": features.x, "y": features.y}
    try:
        found = np.load(path, allow_pickle=False, mmap_mode="r" if path.suffix == ".npy" else None)
        arrays = {"z": found} if isinstance(found, np.ndarray) else {name: found[name] for name in found.files}
    except FileNotFoundError as error:
        raise DataError(
            f"There is no {path}; expected a folder of features, an .npy or an .npz file, or the id of an encoder "
            "followed by images."
        ) from error
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} cannot be read as features ({error}); expected a folder of features, an .npy or an .npz file."
        ) from error
    if "z" not in arrays:
        raise DataError(f"{path} holds {', '.join(arrays) or 'nothing'}, expected features under the name z.")
    return arrays
