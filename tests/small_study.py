"""A study that takes no time, as a user would write one, for the tests of running and reporting."""

from __future__ import annotations

from pathlib import Path

SMALL = '''"""Is usability small?

Claim: the mean usability error is below 20 points.
Expected: 8.6.
Command: zoo study small.py
"""

from zoo.analysis.columns import Estimate
from zoo.evaluation.drawing import make_figure
from zoo.studies.findings import Figure, Findings, RowsUsed, FindingsTable, number_claim, answer_statement


def study(table, options):
    found = table.complete("usability")
    mean = float(found["usability"].mean())

    def draw():
        drawing, axes = make_figure()
        axes[0].hist(found["usability"])
        return drawing

    def data():
        return [["encoder", "usability"], *found["usability"].items()]

    options.progress("mean", 1, 1)
    return Findings(
        answer=f"Usability error is {mean:.1f} points on average, over the encoders & more.",
        claims=[
            number_claim("mean usability", source="nowhere", printed="8.6", ours=mean, reason="other rows"),
            answer_statement(
                "<b>usability</b> | is small", source="here", paper="small", ours="small", holds=mean < 20
            ),
        ],
        estimates=[Estimate(term="mean", outcome="usability", method="mean", value=mean, n=len(found), unit="points")],
        tables=[
            FindingsTable(title="All & more", headers=["encoder", "usability"], rows=[["a", "1.0"]], note="a note")
        ],
        figures=[
            Figure(name="histogram", title="A histogram", caption="Usability of all encoders.", draw=draw, data=data)
        ],
        rows=[RowsUsed(part="mean", used=len(found), left_out=table.n_left_out("usability"))],
        notes=["a note of the study"],
    )


if __name__ == "__main__":
    from zoo.cli import main

    main("study", __file__)
'''


def small_study(folder: Path, *changes: tuple[str, str]) -> Path:
    """Writes the study, with texts replaced."""
    text = SMALL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "small.py"
    path.write_text(text)
    return path
