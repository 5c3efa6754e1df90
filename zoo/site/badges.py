"""A badge an encoder, to show elsewhere: what was measured of it, else what somebody reports, in a small picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..results.facts import points, reported_mark
from ..results.reported_values import PROTOCOLS
from ..results.wording import PROBE
from .contents import Contents, Entry
from .drawing import element
from .encoder_results import Records
from .rendering import File, Renderer

NAME = "SSL Zoo"
_HEIGHT, _MARGIN = 20, 7
Kind: TypeAlias = Literal["measured", "reported", "wrong", "unknown"]
_COLOURS: dict[Kind, str] = {"measured": "#0b5cad", "reported": "#57606a", "wrong": "#b42318", "unknown": "#57606a"}
_NARROW, _WIDE = "fijlrt.,:;|!'()[] ", "mwMW%@"


@dataclass(frozen=True, slots=True)
class Badge:
    """What a badge says."""

    kind: Kind
    text: str  # on its right half

    @property
    def words(self) -> str:
        """Both halves, as alternative text."""
        return f"{NAME}: {self.text}"


def files(contents: Contents, renderer: Renderer) -> Iterator[File]:
    """A badge of every encoder."""
    with contents.reading():
        records = Records(contents.entries)
    for entry in contents.entries.values():
        yield File(badge_path(entry), drawn(badge_of(entry, records), entry.id).encode() + b"\n")


def badge_path(entry: Entry) -> str:
    """Path of the badge of an encoder."""
    return f"badges/{entry.file}.svg"


def badge_of(entry: Entry, records: Records) -> Badge:
    """What the badge of an encoder says: its error on ImageNet-1K or elsewhere, else a reported accuracy as such."""
    if entry.summary is not None and "100%" in entry.summary.errors:
        if entry.right is None or "100%" not in entry.right.errors:
            return Badge("wrong", "measured wrongly, see its errata")
        return Badge("measured", f"linear probe {points(entry.right.errors['100%'])} % error")
    wrong = records.wrong(entry)
    for mean in entry.means:
        if mean not in wrong and mean.metric == PROBE and mean.split == "train -> val":
            return Badge("measured", f"linear probe {points(mean.value)} % error on {mean.dataset}")
    preferred = entry.subject.reported
    for name in PROTOCOLS:
        if name in preferred:
            one = preferred[name]
            doubt = ", doubtful" if reported_mark(one).endswith("!") else ""
            return Badge("reported", f"reported {one.printed} % {PROTOCOLS[name].short}{doubt}")
    return Badge("unknown", "not measured")


def drawn(badge: Badge, encoder: str) -> str:
    """The picture, with its own colours and a title for screen readers; it needs nothing beside itself."""
    left, right = _width(NAME), _width(badge.text)
    whole = left + right
    texts = [
        element(
            "text",
            {"x": start + _MARGIN, "y": 14, "textLength": width - 2 * _MARGIN, "lengthAdjust": "spacingAndGlyphs"},
            text,
        )
        for start, width, text in ((0, left, NAME), (left, right, badge.text))
    ]
    svg = {
        "xmlns": "http://www.w3.org/2000/svg",
        "width": whole,
        "height": _HEIGHT,
        "viewBox": f"0 0 {whole} {_HEIGHT}",
        "role": "img",
        "aria-label": f"{encoder}, {badge.words}",
    }
    letters = {"fill": "#ffffff", "font-family": "Verdana, DejaVu Sans, Geneva, sans-serif", "font-size": 11}
    return str(
        element(
            "svg",
            svg,
            element("title", {}, f"{encoder}, {badge.words}"),
            element("rect", {"width": whole, "height": _HEIGHT, "rx": 3, "fill": _COLOURS[badge.kind]}),
            element("path", {"d": f"M3 0H{left}V{_HEIGHT}H3Q0 20 0 17V3Q0 0 3 0Z", "fill": "#24292f"}),
            element("g", letters, *texts),
        )
    )


def _width(text: str) -> int:
    """Pixels of a half with its margins; the text is stretched to fit, so that another font does no harm."""
    units = sum(3.9 if one in _NARROW else 10.5 if one in _WIDE else 6.9 for one in text)
    return round(units) + 2 * _MARGIN
