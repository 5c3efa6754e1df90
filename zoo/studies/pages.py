"""The report as a page and as Markdown, from the plain document of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from ..errors import MissingExtra
from .findings import shown_verdict

try:
    import jinja2
except ModuleNotFoundError as error:
    raise MissingExtra(str(error.name), extra="study", needed_for="A report") from error

_PLURAL = {"agrees": "agree"}
TITLE = "What the published results mean"
_OPEN_HEADERS = ("study", "claim", "source", "paper", "ours", "why")


def html_page(
    document: Mapping[str, Any], *, images: Mapping[str, str] | None = None, texts: Mapping[str, str] | None = None
) -> str:
    """The report as a page.

    Parameters
    ----------
    images : mapping, optional
        File of a figure, as the document names it, -> address of its picture. The page then stands alone, without
        links to other files; by default it needs the folder ``figures/`` beside it.
    texts : mapping, optional
        Further files, by name, that a page which stands alone shows at its end.
    """
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = number
    template = environment.from_string(files(__package__).joinpath("report.html.jinja").read_text(encoding="utf-8"))
    return template.render(title=TITLE, images=images, texts=texts or {}, **_shown(document)) + "\n"


def markdown_page(document: Mapping[str, Any]) -> str:
    """The same content as Markdown, with the figures as PNG."""
    shown = _shown(document)
    lines = [f"# {TITLE}", "", shown["summary"], "", "## Verdicts by study", ""]
    lines += _markdown_table(shown["count_headers"], [[one["name"], *one["counts"]] for one in shown["studies"]])
    for verdict, rows in shown["open"].items():
        lines += [f"## {verdict.capitalize()}", "", *_markdown_table(_OPEN_HEADERS, rows)]
    for study in shown["studies"]:
        lines += [f"## {study['question']}", "", f"`zoo study {study['name']}`", ""]
        lines += _markdown_table(study["claim_headers"], study["claim_rows"])
        lines += [*(f"- {line}" for line in study["rows_lines"]), ""]
        for note in study["notes"]:
            lines += [f"*{note}*", ""]
        for figure in study["figures"]:
            lines += [f"![{figure['title']}]({figure['file']}.png)", ""]
            lines += [f"**{figure['title']}.** {figure['caption']}", ""]
        for table in study["tables"]:
            lines += [f"### {table['title']}", "", *_markdown_table(table["headers"], table["rows"])]
            lines += [table["note"], ""] if table["note"] else []
        if study["estimates"]:
            lines += ["### Estimates", "", *_markdown_table(ESTIMATE_HEADERS, study["estimate_rows"])]
    return "\n".join(lines).rstrip() + "\n"


ESTIMATE_HEADERS = (
    "method", "outcome", "term", "value", "95 % interval", "p", "p, HC3", "p, false discovery", "n", "unit", "note",
)  # fmt: skip


def number(value: float | int | None) -> str:
    """Four significant digits; a dash where there is no number.

    >>> number(-3.82314), number(2.2e-4), number(None), number(3e-17)
    ('-3.823', '0.00022', '–', '3e-17')
    """  # noqa: RUF002 (the dash is what is shown)
    return "–" if value is None else f"{value:.4g}"  # noqa: RUF001


def _shown(document: Mapping[str, Any]) -> dict[str, Any]:
    verdicts = [*document["verdicts"]]
    return {
        "count_headers": ["study", *verdicts, "claims"],
        "open_headers": _OPEN_HEADERS,
        "open": {verdict: rows for verdict in verdicts[:0:-1] if (rows := _open_rows(document, verdict))},
        "table": document["table"],
        "version": document["version"],
        "verdicts": document["verdicts"],
        "summary": summary(document),
        "estimate_headers": ESTIMATE_HEADERS,
        "studies": [_study(study) for study in document["studies"]],
    }


def _open_rows(document: Mapping[str, Any], verdict: str) -> list[list[str]]:
    """All claims of one verdict, over the studies."""
    return [
        [study["name"], claim["claim"], claim["source"], claim["paper"], claim["ours"],
         f"{shown_verdict(verdict, claim['rests_on'])}: {claim['reason']}" if claim["rests_on"] else claim["reason"]]
        for study in document["studies"] for claim in study["claims"] if claim["verdict"] == verdict
    ]  # fmt: skip


def summary(document: Mapping[str, Any]) -> str:
    """One paragraph: which table, how many claims came out how, who was left out."""
    table, verdicts = document["table"], document["verdicts"]
    counts = ", ".join(f"{n} {_PLURAL.get(verdict, verdict)}" for verdict, n in verdicts.items())
    text = (
        f"{sum(verdicts.values())} claims of the paper, held against the table {table['name']} "
        f"({table['encoders']} encoders): {counts}."
    )
    for reason, encoders in table["left_out"].items():
        text += f" Left out: {', '.join(encoders)} ({reason})."
    return text


def _study(study: Mapping[str, Any]) -> dict[str, Any]:
    other = study.get("other_table", {}).get("name")
    differs = other is not None and any("ours_on_other_table" in claim for claim in study["claims"])
    headers = ["claim", "source", "paper", "ours", *([f"ours, {other}"] if differs else []), "verdict", "why"]
    rows = [
        [
            claim["claim"], claim["source"], claim["paper"], claim["ours"],
            *([claim.get("ours_on_other_table", "the same")] if differs else []),
            shown_verdict(claim["verdict"], claim["rests_on"]), claim["reason"],
        ]
        for claim in study["claims"]
    ]  # fmt: skip
    verdict_column = len(headers) - 2
    return {
        **study,
        "claim_headers": headers,
        "claim_rows": rows,
        "verdict_column": verdict_column,
        "claim_classes": [claim["verdict"].replace(" ", "-") for claim in study["claims"]],
        "counts": [*map(str, study["verdicts"].values()), str(len(study["claims"]))],
        "rows_lines": [rows_used(row) for row in study["rows"]],
        "estimate_rows": [estimate_cells(record) for record in study["estimates"]],
    }


def estimate_cells(record: Mapping[str, Any]) -> list[str]:
    """One row under :data:`ESTIMATE_HEADERS`, of a record of an estimate."""
    interval = "" if record["ci_low"] is None else f"{number(record['ci_low'])} to {number(record['ci_high'])}"
    return [
        record["method"], record["outcome"], record["term"],
        "not identified" if record["value"] is None else number(record["value"]), interval,
        *("" if record[name] is None else number(record[name]) for name in ("p", "p_robust", "p_adjusted")),
        str(record["n"]), record["unit"], record["note"],
    ]  # fmt: skip


def rows_used(row: Mapping[str, Any]) -> str:
    """One line: how many rows a part used, and why it left the others out.

    >>> rows_used({"part": "Figure 4", "used": 5, "unit": "encoders", "left_out": {"usability not published": 2}})
    'Figure 4: 5 encoders used; left out: 2 (usability not published)'
    """
    left = ", ".join(f"{number} ({reason})" for reason, number in row["left_out"].items())
    return f"{row['part']}: {row['used']} {row['unit']} used; left out: {left or 'none'}"


def _markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return [line(headers), "|" + "---|" * len(headers), *map(line, rows), ""]
