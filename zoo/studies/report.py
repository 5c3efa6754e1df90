"""Writes the report of a run: a page, the same as Markdown, figures, and the numbers as JSON and CSV.

A run is first made a plain document, which ``--json`` prints and the pages are made of. The folder, or the one file
that stands alone, appears whole or not at all. An earlier report is replaced if it was not touched since.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from ..analysis.columns import estimates_frame, list_estimates
from ..analysis.table import StudyTable
from ..errors import QueryError, StoreError, format_count
from ..evaluation.drawing import save, use_style
from ..files import escape_csv_cell, replace_file, replace_folder
from ..optional import require_extra
from ..version import __version__
from .findings import Findings, Verdict, format_verdict
from .running import Progress, StudyRun, ignore_progress

VERDICTS: tuple[str, ...] = get_args(Verdict)
"""From the best to the worst."""
FORMAT = "zoo-study-1"


def build_report_document(runs: Sequence[StudyRun]) -> dict[str, Any]:
    """Everything but the drawings, as JSON can hold it; a missing number is None."""
    table = runs[0].table
    return {
        "format": FORMAT,
        "version": __version__,
        "table": {
            "name": describe_table(table),
            "encoders": len(table),
            "corrected": table.corrected,
            "mine": list(table.mine),
            "left_out": {reason: list(encoders) for reason, encoders in table.left_out.items()},
        },
        "verdicts": count_verdicts(claim for run in runs for claim in run.findings.claims),
        "studies": [_study(run) for run in runs],
    }


def describe_table(table: StudyTable) -> str:
    """How to speak of a table: as published, or corrected; and with whose encoders."""
    name = "corrected" if table.corrected else "as published"
    n_mine, protocols = len(table.mine), " and ".join(table.protocols_of_mine)
    by = f" by {protocols}, the others by the paper's" if protocols else ""
    return f"{name}, with {n_mine} encoder{'s' * (n_mine != 1)} of yours{by}" if n_mine else name


def describe_other_table(run: StudyRun) -> str:
    """How to speak of the second table of a run."""
    return "as published" if run.table.corrected or run.table.mine else "corrected"


def count_verdicts(claims: Any) -> dict[str, int]:
    """Number of claims by verdict, in the order of :data:`VERDICTS`."""
    counts = Counter(claim.verdict for claim in claims)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def summarise_other_table(findings: Findings) -> dict[str, Any]:
    """What a second table has to say, as JSON can hold it: what is ours of each claim, and the numbers."""
    return {"claims": {claim.claim: claim.ours for claim in findings.claims}, **_numbers(findings)}


def add_other_table(study: Mapping[str, Any], name: str, other: Mapping[str, Any]) -> dict[str, Any]:
    """A study of a document with what a second table says (:func:`summarise_other_table`), where it differs."""
    claims = []
    for claim in study["claims"]:
        ours = other["claims"].get(claim["claim"], "not available")
        claims.append(claim if ours == claim["ours"] else claim | {"ours_on_other_table": ours})
    numbers = {key: value for key, value in other.items() if key != "claims"}
    return {**study, "claims": claims, "other_table": {"name": name, **numbers}}


def get_figure_path(study: str, figure: str) -> str:
    """Where a report has a figure, without suffix: as .png and .svg, and its data, if it has some, as .csv."""
    return f"figures/{study}-{figure}"


def _study(run: StudyRun) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": run.study.name,
        "question": run.study.question,
        "answer": run.findings.answer,
        "verdicts": count_verdicts(run.findings.claims),
        "claims": [asdict(claim) for claim in run.findings.claims],
        **_numbers(run.findings),
        "notes": list(run.findings.notes),
        "figures": [
            {
                "name": figure.name,
                "title": figure.title,
                "caption": figure.caption,
                "file": get_figure_path(run.study.name, figure.name),
                "has_data": figure.data is not None,
            }
            for figure in run.findings.figures
        ],
    }
    return (
        document
        if run.other is None
        else add_other_table(document, describe_other_table(run), summarise_other_table(run.other))
    )


def _numbers(findings: Findings) -> dict[str, Any]:
    return {
        "estimates": list_estimates(findings.estimates),
        "tables": [
            {
                "title": table.title,
                "headers": list(table.headers),
                "rows": [list(row) for row in table.rows],
                "note": table.note,
            }
            for table in findings.tables
        ],
        "rows": [
            {
                "part": rows.part,
                "used": int(rows.used),
                "unit": rows.unit,
                "left_out": {reason: int(number) for reason, number in rows.left_out.items()},
            }
            for rows in findings.rows
        ],
    }


_PLURAL = {"agrees": "agree"}
TITLE = "What the published results mean"
_OPEN_HEADERS = ("study", "claim", "source", "paper", "ours", "why")


def render_html_report(
    document: Mapping[str, Any], *, images: Mapping[str, str] | None = None, texts: Mapping[str, str] | None = None
) -> str:
    """The report as a page.

    With ``images`` (file of a figure -> address of its picture) the page stands alone, with the further files ``texts``
    at its end; by default it needs the folder ``figures/`` next to it.
    """
    with require_extra("study", needed_for="A report"):
        import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = number
    template = environment.from_string(files(__package__).joinpath("report.html.jinja").read_text(encoding="utf-8"))
    return template.render(title=TITLE, images=images, texts=texts or {}, **format_report(document)) + "\n"


def render_markdown_report(document: Mapping[str, Any]) -> str:
    """The same content as Markdown, with the figures as PNG."""
    content = format_report(document)
    lines = [f"# {TITLE}", "", content["summary"], "", "## Verdicts by study", ""]
    lines += _markdown_table(content["count_headers"], [[one["name"], *one["counts"]] for one in content["studies"]])
    for verdict, rows in content["open"].items():
        lines += [f"## {verdict.capitalize()}", "", *_markdown_table(_OPEN_HEADERS, rows)]
    for study in content["studies"]:
        lines += [f"## {study['question']}", "", *([study["answer"], ""] if study["answer"] else [])]
        lines += [f"`zoo study {study['name']}`", ""]
        lines += _markdown_table(study["claim_headers"], study["claim_rows"])
        lines += [*(f"- {line}" for line in study["rows_lines"]), ""]
        for note in study["notes"]:
            lines += [f"*{note}*", ""]
        for figure in study["figures"]:
            lines += [f"![{figure['title']}]({figure['file']}.png)", ""]
            data = f" [Data]({figure['file']}.csv)" if figure["has_data"] else ""
            lines += [f"**{figure['title']}.** {figure['caption']}{data}", ""]
        for table in study["tables"]:
            lines += [f"### {table['title']}", "", *_markdown_table(table["headers"], table["rows"])]
            lines += [table["note"], ""] if table["note"] else []
        if study["estimates"]:
            lines += ["### Estimates", "", *_markdown_table(ESTIMATE_HEADERS, study["estimate_rows"])]
    return "\n".join(lines).rstrip() + "\n"


ESTIMATE_HEADERS = (
    "method", "outcome", "term", "value", "95 % interval", "p", "p, HC3 and t", "p, false discovery", "n", "unit",
    "note",
)  # fmt: skip


def number(value: float | int | None) -> str:
    """Four significant digits; a dash where there is no number.

    >>> number(-3.82314), number(2.2e-4), number(None), number(3e-17)
    ('-3.823', '0.00022', '–', '3e-17')
    """  # noqa: RUF002 (the dash is what is shown)
    return "–" if value is None else f"{value:.4g}"  # noqa: RUF001


def format_report(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document as pages show it: everything as text, in tables."""
    verdicts = [*document["verdicts"]]
    return {
        "count_headers": ["study", *verdicts, "claims"],
        "open_headers": _OPEN_HEADERS,
        "open": {verdict: rows for verdict in verdicts[:0:-1] if (rows := _open_rows(document, verdict))},
        "table": document["table"],
        "version": document["version"],
        "verdicts": document["verdicts"],
        "summary": summarise_report(document),
        "estimate_headers": ESTIMATE_HEADERS,
        "studies": [_shown_study(study) for study in document["studies"]],
    }


def _open_rows(document: Mapping[str, Any], verdict: str) -> list[list[str]]:
    """All claims of one verdict, over the studies."""
    return [
        [
            study["name"],
            claim["claim"],
            claim["source"],
            claim["paper"],
            claim["ours"],
            f"{format_verdict(verdict, claim['rests_on'])}: {claim['reason']}"
            if claim["rests_on"]
            else claim["reason"],
        ]
        for study in document["studies"]
        for claim in study["claims"]
        if claim["verdict"] == verdict
    ]


def summarise_report(document: Mapping[str, Any]) -> str:
    """One paragraph: which table, how many claims came out how, who was left out."""
    table, verdicts = document["table"], document["verdicts"]
    counts = ", ".join(f"{n} {_PLURAL.get(verdict, verdict)}" for verdict, n in verdicts.items())
    text = (
        f"{sum(verdicts.values())} claims; studies of the published encoders take the table {table['name']} "
        f"({format_count(table['encoders'], 'encoder')}): {counts}."
    )
    for reason, encoders in table["left_out"].items():
        text += f" Left out: {', '.join(encoders)} ({reason})."
    return text


def _shown_study(study: Mapping[str, Any]) -> dict[str, Any]:
    other = study.get("other_table", {}).get("name")
    differs = other is not None and any("ours_on_other_table" in claim for claim in study["claims"])
    headers = ["claim", "source", "paper", "ours", *([f"ours, {other}"] if differs else []), "verdict", "why"]
    rows = [
        [
            claim["claim"],
            claim["source"],
            claim["paper"],
            claim["ours"],
            *([claim.get("ours_on_other_table", "the same")] if differs else []),
            format_verdict(claim["verdict"], claim["rests_on"]),
            claim["reason"],
        ]
        for claim in study["claims"]
    ]
    verdict_column = len(headers) - 2
    return {
        **study,
        "claim_headers": headers,
        "claim_rows": rows,
        "verdict_column": verdict_column,
        "claim_classes": [claim["verdict"].replace(" ", "-") for claim in study["claims"]],
        "agreeing": f"{study['verdicts']['agrees']} of {len(study['claims'])} claims agree",
        "counts": [*map(str, study["verdicts"].values()), str(len(study["claims"]))],
        "rows_lines": [describe_rows_used(row) for row in study["rows"]],
        "estimate_rows": [estimate_cells(record) for record in study["estimates"]],
    }


def estimate_cells(record: Mapping[str, Any]) -> list[str]:
    """One row under :data:`ESTIMATE_HEADERS`, of a record of an estimate."""
    interval = "" if record["ci_low"] is None else f"{number(record['ci_low'])} to {number(record['ci_high'])}"
    return [
        record["method"],
        record["outcome"],
        record["term"],
        "not identified" if record["value"] is None else number(record["value"]),
        interval,
        *("" if record[name] is None else number(record[name]) for name in ("p", "p_robust", "p_adjusted")),
        str(record["n"]),
        record["unit"],
        record["note"],
    ]


def describe_rows_used(row: Mapping[str, Any]) -> str:
    """One line: how many rows a part used, and why it left the others out.

    >>> left_out = {"usability not published": 2}
    >>> describe_rows_used({"part": "Figure 4", "used": 5, "unit": "encoders", "left_out": left_out})
    'Figure 4: 5 encoders used; left out: 2 (usability not published)'
    """
    left = ", ".join(f"{number} ({reason})" for reason, number in row["left_out"].items())
    return f"{row['part']}: {row['used']} {row['unit']} used; left out: {left or 'none'}"


def _markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return [line(headers), "|" + "---|" * len(headers), *map(line, rows), ""]


CONTENTS = "files.json"  # every file of the report and its SHA-256
_SEAL = re.compile(rb"<!-- (\S+) sha256 ([0-9a-f]{64}) -->\n\Z")  # last line of a file, about all before it


def get_report_page(target: Path) -> Path:
    """The file that a report which stands alone is written to: ``report.html`` for ``report``.

    >>> get_report_page(Path("report")).name, get_report_page(Path("mine.html")).name
    ('report.html', 'mine.html')
    """
    return target if target.suffix.lower() in (".html", ".htm") else target.with_name(f"{target.name}.html")


def require_reportable(folder: Path, *, single_file: bool = False) -> None:
    """Refuse, before any work, a place where something would be lost: anything but an untouched earlier report.

    With ``single_file`` the report is one file, :func:`get_report_page` the folder's name.
    """
    if single_file:
        _require_page(Path(os.path.realpath(get_report_page(folder))))
        return
    target = Path(os.path.realpath(folder))
    if target == Path.cwd():
        raise QueryError(f"{folder} is the current folder, which cannot be replaced; name a folder below it.")
    try:
        if os.path.lexists(folder):
            if not target.is_dir():
                raise QueryError(f"{folder} is no folder, expected one for the report; choose another name.")
            obstacle = _difference(target)
            if obstacle:
                raise QueryError(
                    f"{folder} is no untouched earlier report ({obstacle}), and nothing is overwritten; "
                    "name a new folder, or remove this one."
                )
        _require_writable(target)
    except OSError as error:
        raise StoreError(f"The folder {folder} cannot be read ({error.strerror}); choose another name.") from error


def _require_writable(target: Path) -> None:
    parent = next(parent for parent in target.parents if parent.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise StoreError(f"Nothing can be written in {parent}, expected to make {target} there; choose another name.")


def _require_page(target: Path) -> None:
    try:
        if os.path.lexists(target):
            if not target.is_file():
                raise QueryError(f"{target} is no file, expected one for the report; choose another name.")
            content = target.read_bytes()
            seal = _SEAL.search(content)
            if seal is None or seal[2].decode() != hashlib.sha256(content[: seal.start()]).hexdigest():
                raise QueryError(
                    f"{target} is no untouched earlier report, and nothing is overwritten; name a new file, or remove "
                    "this one."
                )
        _require_writable(target)
    except OSError as error:
        raise StoreError(f"The file {target} cannot be read ({error.strerror}); choose another name.") from error


def write_page(runs: Sequence[StudyRun], target: Path, *, progress: Progress = ignore_progress) -> Path:
    """Draws the figures and writes the report as one page that stands alone; see :func:`get_report_page`.

    ``progress`` is called with the figure that is drawn. A refused place is left as it was.
    """
    page = Path(os.path.realpath(get_report_page(target)))
    _require_page(page)
    document = build_report_document(runs)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            _draw(runs, folder, progress)
            images = {
                file: f"data:image/svg+xml;base64,{base64.b64encode((folder / f'{file}.svg').read_bytes()).decode()}"
                for study in document["studies"]
                for file in (figure["file"] for figure in study["figures"])
            }
        texts = {name: text for run in runs for name, text in run.findings.files.items()}
        content = render_html_report(document, images=images, texts=texts).encode()
        seal = f"<!-- {FORMAT} sha256 {hashlib.sha256(content).hexdigest()} -->\n"
        with replace_file(page) as file:
            file.write(content + seal.encode())
    except OSError as error:
        raise StoreError(
            f"The report cannot be written to {page} ({error.strerror or error}); nothing was changed there."
        ) from error
    return page


def write_report(runs: Sequence[StudyRun], folder: Path, *, progress: Progress = ignore_progress) -> list[Path]:
    """Draws the figures and writes everything into a folder that is absent, empty, or an untouched earlier report.

    The files are ``index.html``, ``report.md``, ``report.json``, ``estimates.csv`` and ``figures/``. A refused folder
    is left as it was.
    """
    require_reportable(folder)
    target = Path(os.path.realpath(folder))
    temporary = target.parent / f".{target.name}-{secrets.token_hex(4)}.tmp"
    document = build_report_document(runs)
    try:
        temporary.mkdir(parents=True)
        _draw(runs, temporary, progress)
        texts = {
            "index.html": render_html_report(document),
            "report.md": render_markdown_report(document),
            "report.json": json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
            "estimates.csv": _estimates_csv(runs),
            **{name: text for run in runs for name, text in run.findings.files.items()},
        }
        for name, text in texts.items():
            (temporary / name).write_text(text, encoding="utf-8")
        _list_contents(temporary)
        replace_folder(temporary, target)
    except OSError as error:
        raise StoreError(
            f"The report cannot be written to {target} ({error.strerror or error}); nothing was changed there."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return sorted(path for path in target.rglob("*") if path.is_file())


def _draw(runs: Sequence[StudyRun], folder: Path, progress: Progress) -> None:
    (folder / "figures").mkdir()
    figures = [(run.study.name, figure) for run in runs for figure in run.findings.figures]
    with use_style():
        for position, (study, figure) in enumerate(figures):
            progress(f"drawing {figure.name}", position, len(figures))
            save(figure.draw(), folder / get_figure_path(study, figure.name))
            if figure.data is not None:
                data = folder / f"{get_figure_path(study, figure.name)}.csv"
                data.write_text(format_csv(figure.data()), encoding="utf-8", newline="")
    progress("drawn", len(figures), len(figures))


def format_csv(rows: Sequence[Sequence[object]]) -> str:
    """Rows, headers first, as the text of a CSV file."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(map(escape_csv_cell, row) for row in rows)
    return file.getvalue()


def _estimates_csv(runs: Sequence[StudyRun]) -> str:

    frames = []
    for run in runs:
        frame = estimates_frame(run.findings.estimates)
        frame.insert(0, "study", run.study.name)
        frames.append(frame)
    rows = [record for frame in frames for record in frame.to_dict("records")]
    text = type(frames[0])(rows, columns=list(frames[0].columns)).to_csv(index=False, lineterminator="\n")
    return str(text)


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != CONTENTS:
            yield path.relative_to(folder).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()


def _list_contents(folder: Path) -> None:
    listed = {"format": FORMAT, "files": dict(_files(folder))}
    (folder / CONTENTS).write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")


def _difference(folder: Path) -> str | None:
    """How a folder differs from what a report left there; None if it does not, or is empty."""
    present = dict(_files(folder))
    listing = folder / CONTENTS
    if not listing.is_file():
        return f"it holds {next(iter(present))!r}" if present else None
    try:
        listed: Any = json.loads(listing.read_text(encoding="utf-8"))
        known = dict(listed["files"]) if listed["format"] == FORMAT else {}
    except (ValueError, KeyError, TypeError):
        return f"{CONTENTS} cannot be read"
    changed = [name for name in sorted({*present, *known}) if present.get(name) != known.get(name)]
    return f"{changed[0]} was added, changed or removed since" if changed else None
