"""``zoo results``: the errors of encoders in every label setting, and the components of the full-shot error."""

from __future__ import annotations

import click

from ..cards import catalogue
from ..results import SETTINGS, Summary, summaries
from .facts import WRONG, points
from .options import encoder_names, exclude_wrong_option
from .output import NothingFound, json_option, print_json, print_notes, print_table
from .risks import COMPONENT_HEADERS, component_cells, distrust, legend, risk_record

_EPILOG = """\b
Examples:
  zoo results dino_vitS16 mae_vitB16
  zoo results --exclude-wrong --json
  zoo results --dataset shapes
"""


@click.command("results", epilog=_EPILOG)
@click.argument("names", nargs=-1, shell_complete=encoder_names)
@exclude_wrong_option
@click.option("--dataset", metavar="NAME", help="Rows of this data set, such as 'zoo evaluate' has added.")
@json_option
def command(names: tuple[str, ...], exclude_wrong: bool, dataset: str | None, as_json: bool) -> None:
    """Show the measured errors and their components.

    Errors of linear probes on ImageNet-1K, in percent, by the labels the probe had. The components are in percentage
    points, signed, and sum to the error with 100%. NAMES are ids of encoders; without any, all that were measured.
    """
    cards = catalogue()
    wanted = list(dict.fromkeys(cards.id_of(name) for name in names))
    if dataset is not None:
        from .other_results import print_rows

        print_rows(dataset, wanted, as_json=as_json, exclude_wrong=exclude_wrong)
        return
    known = summaries(exclude_wrong=exclude_wrong)
    found = [known[encoder] for encoder in wanted or known if encoder in known]
    without = [encoder for encoder in wanted if encoder not in known]
    if as_json:
        records = [{"encoder": summary.encoder, **risk_record(summary)} for summary in found]
        print_json({"encoders": records, "not_measured": without})
    elif found:
        print_risks(found, one_by_one=bool(names))
    if without and found:
        print_notes([f"not measured: {', '.join(without)}"])
    if not found:
        left = " once the wrong measurements are left out" if exclude_wrong else ""
        raise NothingFound(
            f"Nothing was measured of {', '.join(without)} on ImageNet-1K{left}; name another data set by --dataset."
            if without
            else "There are no results."
        )


def print_risks(found: list[Summary], *, one_by_one: bool) -> None:
    """One row an encoder, then what the marks mean and how many rows, or one by one why, are to be distrusted."""
    headers = ["encoder", *(setting.name for setting in SETTINGS), *COMPONENT_HEADERS]
    rows = []
    for summary in found:
        known = [summary.errors.get(setting.name) for setting in SETTINGS]
        errors = ["?" if error is None else points(error) for error in known]
        mark = WRONG if summary.errata else ""
        rows.append([summary.encoder + mark, *errors, *component_cells(summary.decomposition)])
    print_table(headers, rows, right=range(1, len(headers)))
    marked = [summary for summary in found if summary.errata]
    reasons = [line for summary in marked for line in distrust(summary.encoder, summary.errata)]
    if marked and not one_by_one:
        encoders = "1 encoder has" if len(marked) == 1 else f"{len(marked)} encoders have"
        reasons = [f"{WRONG}  {encoders} errata; zoo show NAME says which"]
    print_notes(["errors in percent by labels, components in percentage points", *legend(found), *reasons])
