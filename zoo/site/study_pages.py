"""``studies/``: the questions with their verdicts, a page for each study, and its figures and numbers as files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..studies.report import ESTIMATE_HEADERS, VERDICTS, shown
from ..studies.running import Study, studies
from .contents import Contents
from .rendering import File, Renderer

FOLDER = "studies"
_FEW_ROWS = 200  # of a table of the page; longer ones are cut, and whole in their file
_ENLARGED = 1.25  # figures have text of 7 points, as in print, which is small on a screen
_COMMAND = re.compile(r"\n*Command: .*\Z", re.DOTALL)  # the end of an introduction, which a page shows by itself


def files(contents: Contents, renderer: Renderer) -> Iterator[File]:
    """The index, a page a study, figures as SVG, and data of figures, tables and estimates as CSV."""
    chosen = list(studies().values())
    if not contents.with_studies:
        yield _page_without(renderer, chosen)
        return
    from .study_cache import finished_studies  # imports the libraries of studies

    finished = finished_studies(chosen, tell=renderer.tell)
    document = _joined([one.document for one in finished])
    content = shown(document)
    pages = {one.study.name: f"{FOLDER}/{one.study.name}.html" for one in finished}
    values: dict[str, Any] = {
        "left_out": bool(contents.only or contents.with_mine),
        "with_mine": contents.with_mine,
    }
    yield renderer.page(
        "study_index.html.jinja",
        f"{FOLDER}/index.html",
        title="Studies",
        kind="studies",
        pages_of=pages,
        verdict_names=VERDICTS,
        classes=_classes(),
        **{name: value for name, value in content.items() if name != "version"},
        **values,
    )
    for one, study in zip(finished, content["studies"], strict=True):
        yield from _study(renderer, one, study, content, values)


def _study(
    renderer: Renderer, one: Any, study: Mapping[str, Any], content: Mapping[str, Any], values: Mapping[str, Any]
) -> Iterator[File]:
    from ..studies.figure_svg import size_of

    figures = []
    for figure in study["figures"]:
        drawn = one.figures[figure["file"]]
        width, height = (round(_ENLARGED * one) for one in size_of(drawn.svg))
        figures.append({**figure, "width": width, "height": height, "n_rows": drawn.csv.count("\n") - 1})
        yield File(f"{FOLDER}/{figure['file']}.svg", drawn.svg.encode())
        if drawn.csv:
            yield File(f"{FOLDER}/{figure['file']}.csv", drawn.csv.encode())
    tables = []
    for number, table in enumerate(study["tables"], start=1):
        file = f"data/{study['name']}-table{number}.csv"
        yield File(f"{FOLDER}/{file}", _csv(table["headers"], table["rows"]))
        tables.append({**table, "file": file, "n_rows": len(table["rows"]), "rows": table["rows"][:_FEW_ROWS]})
    file = f"data/{study['name']}-estimates.csv"
    if study["estimates"]:
        headers = list(study["estimates"][0])
        yield File(f"{FOLDER}/{file}", _csv(headers, [list(record.values()) for record in study["estimates"]]))
    yield renderer.page(
        "study.html.jinja",
        f"{FOLDER}/{study['name']}.html",
        title=study["question"],
        kind="study",
        study=study,
        introduction=_paragraphs(one.study.introduction),
        figures=figures,
        tables=tables,
        estimates={
            "file": file,
            "headers": ESTIMATE_HEADERS,
            "n_rows": len(study["estimate_rows"]),
            "rows": study["estimate_rows"][:_FEW_ROWS],
        },
        few=_FEW_ROWS,
        verdict_names=VERDICTS,
        classes=_classes(),
        table=content["table"],
        **values,
    )


def _page_without(renderer: Renderer, chosen: Sequence[Study]) -> File:
    """What stands in the place of studies that were left out: their questions and how to run them."""
    return renderer.page(
        "study_none.html.jinja", f"{FOLDER}/index.html", title="Studies", kind="studies", questions=chosen
    )


def _joined(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One document of many studies from one of each."""
    every = [study for document in documents for study in document["studies"]]
    counts = {verdict: sum(document["verdicts"][verdict] for document in documents) for verdict in VERDICTS}
    return {**documents[0], "verdicts": counts, "studies": every}


def _classes() -> dict[str, str]:
    return {verdict: f"verdict-{verdict.replace(' ', '-')}" for verdict in VERDICTS}


def _paragraphs(introduction: str) -> list[str]:
    """The paragraphs of a docstring, without the command at its end.

    >>> _paragraphs("Claim: one\\nthing.\\n\\nExpected: 3.\\n\\nCommand: zoo study it")
    ['Claim: one thing.', 'Expected: 3.']
    """
    text = _COMMAND.sub("", introduction)
    return [re.sub(r"\s+", " ", part).strip() for part in text.split("\n\n") if part.strip()]


def _csv(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(headers)
    writer.writerows(rows)
    return file.getvalue().encode()
