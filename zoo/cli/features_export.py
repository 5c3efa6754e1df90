"""``zoo features export``: features as Parquet, for others."""

from __future__ import annotations

from pathlib import Path

import click

from .output import json_option, print_json, print_notes, print_table

_EPILOG = """\b
Examples:
  zoo features export features/dino_vitS16/features/birds-train-* --parquet birds.parquet
  zoo features export features/dino_vitS16/features/* --parquet birds
"""


@click.command("export", epilog=_EPILOG)
@click.argument("places", metavar="FOLDER...", nargs=-1, required=True)
@click.option(
    "--parquet",
    "out",
    metavar="OUT",
    required=True,
    type=click.Path(path_type=Path),
    help="The file, if it ends with .parquet, for one FOLDER; else a folder that gets a file for each.",
)
@json_option
def features_export_command(places: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Write features as Parquet, for others.

    FOLDER has complete features, as 'zoo features' prints it, and may be an address. Each becomes one file with the
    columns features, label and image; what they were computed from is in its metadata, under the key zoo. A file that
    is there is replaced.
    """
    from ..features.exporting import export_parquet
    from ..progress import Bar

    done = export_parquet(places, out, progress=Bar("images"))
    if as_json:
        print_json(
            {
                "files": [
                    {
                        "features": one.where,
                        "file": str(one.path),
                        "n_images": one.n_rows,
                        "dim": one.dim,
                        "row_groups": one.n_groups,
                        "bytes": one.size_bytes,
                    }
                    for one in done
                ]
            }
        )
        return
    rows = [[str(one.path), f"{one.n_rows:,}", f"{one.dim:,}", f"{one.size_bytes / 1e6:,.1f}"] for one in done]
    print_table(["file", "images", "dimensions", "MB"], rows, right=[1, 2, 3])
    print_notes(["read one with: pandas.read_parquet, datasets.load_dataset('parquet', data_files=...), or pyarrow"])
