"""Label-free metrics of features in a file."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import QueryError
from ..labelfree import metric
from .metric_table import BETTER, Record, options_of, print_metrics, refuse_nothing
from .output import print_json


def metrics_of_file(wanted: Sequence[str], path: Path, options: Record, as_json: bool, *, everything: bool) -> None:
    """Computes what the file allows, and prints it."""
    from ..errors import DataError
    from ..evaluation.label_free.catalogue import compute
    from ..evaluation.label_free.files import arguments_for, arrays_of
    from ..evaluation.label_free.measuring import check_options
    from ..evaluation.label_free.spectrum import spectrum_of

    chosen = options_of(options["changed"])
    check_options(wanted, chosen)
    arrays = arrays_of(path, beside=options["beside"])
    spectra: Record = {}

    def spectrum_of_z(z: Any) -> Any:
        """One for all metrics that read it, so that the features are passed over once."""
        if "z" not in spectra:
            spectra["z"] = spectrum_of(z)
        return spectra["z"]

    records: list[Record] = []
    for one in map(metric, wanted):
        begun_s = time.perf_counter()
        record: Record = {
            "metric": one.name,
            "title": one.title,
            "unit": one.unit,
            "better": BETTER[one.higher_is_better],
        }
        arguments: Record = {}
        try:
            arguments = arguments_for(one, arrays)
            if one.streams:
                arguments = {"z": spectrum_of_z(arguments["z"])}
            seeded = {"seed": options["seed"]} if one.seeded else {}
            value = compute(one.name, **arguments, **(seeded | chosen.get(one.name, {})))
        except (DataError, QueryError) as error:
            if len(wanted) == 1:
                raise
            records.append(record | {"value": None, "reason": str(error), "lacks": not arguments})
            continue
        records.append(record | {
            "value": value.value, "reason": "", "n_images": _n_images(arrays), "n_views": _n_views(value.details),
            "seconds_featurising": 0.0, "seconds_computing": time.perf_counter() - begun_s,
            "details": dict(value.details), "notes": list(value.notes),
        })  # fmt: skip
    if as_json:
        print_json({"features": str(path), "metrics": records})
    else:
        print_metrics(records, [], condensed=everything)
    refuse_nothing(records)


def _n_images(arrays: Record) -> int:
    ids = arrays.get("ids")
    return len(arrays["z"]) if ids is None else len(set(ids.tolist()))


def _n_views(details: Mapping[str, Any]) -> int | None:
    """The same for all images, or none to be told."""
    found = details.get("n_views")
    return found[0] if isinstance(found, tuple) and found[0] == found[1] else None
