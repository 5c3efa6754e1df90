"""The page of every encoder: what it is, what was measured and reported of it, how to load and cite it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..cards.schema import NOT_APPLICABLE, NOT_PUBLISHED, NOT_RECORDED, Missing
from ..cards.wording import STUDY, paper_entry
from ..results.values import PUBLISHED_SOURCE
from ..weights.places import portable, shown, without_keys
from . import encoder_facts, encoder_results
from .badges import badge_of, badge_path
from .contents import Contents, Entry
from .encoder_facts import Code, linked
from .encoder_results import Records, SetResults
from .label_curves import LabelCurves
from .neighbours import Neighbours
from .rendering import File, Renderer, encoder_page

if TYPE_CHECKING:
    from markupsafe import Markup


_UNREPORTED = {
    NOT_APPLICABLE: "Nobody reports numbers of such an encoder: not applicable.",
    NOT_PUBLISHED: "Not published: somebody has looked, and its authors print none.",
    NOT_RECORDED: "Not recorded: nobody has looked for numbers that its authors or others print.",
}


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all pages need, made once."""

    records: Records
    curves: LabelCurves
    neighbours: Neighbours


def files(contents: Contents, renderer: Renderer) -> Iterator[File]:
    """The pages of all encoders of the site."""
    with contents.reading():
        curves = LabelCurves()
        curves.prepare()
        shared = _Shared(Records(contents.entries), curves, Neighbours(contents))
        pages = [_page(entry, contents, renderer, shared) for entry in contents.entries.values()]
    yield from pages


def _page(entry: Entry, contents: Contents, renderer: Renderer, shared: _Shared) -> File:
    card = entry.card
    sets = encoder_results.others(entry, shared.records)
    imagenet = encoder_results.imagenet(entry, shared.records, shared.curves)
    card_errata = encoder_results.card_errata(card)
    badge = badge_of(entry, shared.records)
    path = badge_path(entry)
    stated = card.reported.top1_percent
    return renderer.page(
        "encoder.html.jinja",
        encoder_page(entry),
        title=entry.id,
        kind="encoder",
        entry=entry,
        opening=encoder_facts.opening(card),
        relations=encoder_facts.relation(entry, contents),
        result_errata=encoder_results.result_errata(entry, shared.records),
        main_facts=encoder_facts.main_facts(entry),
        anchors=_anchors(sets, has_errata=card_errata is not None),
        imagenet=imagenet,
        sets=sets,
        reported=encoder_results.reported(entry.reported),
        why_unreported=_UNREPORTED[stated if isinstance(stated, Missing) else NOT_RECORDED],
        notes=encoder_facts.before_loading(entry, contents),
        loading=encoder_facts.loading(card),
        preprocessing=encoder_facts.preprocessing(card),
        sections=encoder_facts.sections(entry, contents),
        card_errata=card_errata,
        origin=_origin(entry),
        provenance=encoder_results.provenance(entry, shared.records),
        neighbours=shared.neighbours.of(entry),
        citing=_citing(entry, shared.records),
        badge=path,
        badge_words=badge.words,
        badge_code=Code(
            "Badge, in Markdown (put the address of this site in)",
            f"[![{badge.words}](https://SITE/{path})](https://SITE/{encoder_page(entry)})",
        ),
    )


def _anchors(sets: list[SetResults], *, has_errata: bool) -> list[tuple[str, str]]:
    return [
        ("error", "Error"),
        *((f"set-{number}", f"On {one.dataset}") for number, one in enumerate(sets, 1)),
        ("reported", "Reported"),
        ("load", "Load"),
        ("preprocessing", "Preprocessing"),
        ("facts", "All facts"),
        *([("errata", "Errata")] if has_errata else []),
        ("provenance", "Provenance"),
        ("near", "Neighbours"),
        ("cite", "Cite"),
    ]


def _origin(entry: Entry) -> Markup:
    about = entry.card.provenance
    by = {True: " by the method's authors", False: " by others than the method's authors"}
    who = "" if isinstance(about.official, Missing) else by[about.official]
    released = "Its weights are random; the network is of" if entry.card.is_untrained else f"Weights released{who}:"
    text = (
        f"{released} {shown(portable(about.url))}. Facts are those of the card; where something else was published, "
        "errata say why it is wrong. Operations were computed from the network."
    )
    if entry.means:
        text += f" What each measured number was made from is in results/measured/{entry.id}.provenance.jsonl."
    return linked(text)


def _citing(entry: Entry, records: Records) -> list[Code]:
    entries = [paper_entry(entry.card, address=shown, text=without_keys)]
    if any(row.source == PUBLISHED_SOURCE for row in records.rows(entry.id)):
        entries.append(STUDY)
    known = [one for one in entries if one]
    return [Code("BibTeX", "\n\n".join(known))] if known else []
