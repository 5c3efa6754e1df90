"""The page and the badge of every encoder: what it is, what was measured and reported of it, what is near it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..cards.catalogue import load_catalogue
from ..cards.descriptions import STUDY, format_paper_entry
from ..cards.representations import get_base_id
from ..cards.schema import NOT_APPLICABLE, NOT_PUBLISHED, NOT_RECORDED, Missing, describe_encoder
from ..cards.search import group_networks
from ..results.evidence import build_measured_numbers, describe_disagreements, find_origin
from ..results.facts import format_points, format_short_number, mark_reported
from ..results.reported_values import PROTOCOLS
from ..results.values import PUBLISHED_SOURCE
from ..weights.locations import format_location, format_portable_location, strip_url_keys
from . import encoder_facts, encoder_header, encoder_results
from .contents import Contents, SiteEntry
from .dataset_pages import tabulate_by_others
from .drawing import build_element
from .encoder_facts import Code, link_addresses
from .encoder_figures import LabelCurves
from .encoder_results import Records
from .rendering import File, SiteRenderer, get_encoder_page

if TYPE_CHECKING:
    from markupsafe import Markup


_UNREPORTED = {
    NOT_APPLICABLE: "Not applicable: no numbers are reported for such encoders.",
    NOT_PUBLISHED: "Not published: looked up, and none is reported by its authors.",
    NOT_RECORDED: "Not recorded: reported numbers have not been looked up.",
}


def build_files(contents: Contents, renderer: SiteRenderer) -> Iterator[File]:
    """The page and the badge of every encoder of the site."""
    with contents.reading():
        standings = encoder_header.Standings(contents, renderer)
        shared = Records(contents.entries), LabelCurves(), Neighbours(contents), standings
        pages = [_page(entry, contents, renderer, *shared) for entry in contents.entries.values()]
    yield from pages
    for entry in contents.entries.values():
        kind, text = choose_badge(entry)
        yield File(get_badge_path(entry), draw_badge(kind, text, entry.id).encode() + b"\n")


def _page(
    entry: SiteEntry,
    contents: Contents,
    renderer: SiteRenderer,
    records: Records,
    curves: LabelCurves,
    neighbours: Neighbours,
    standings: encoder_header.Standings,
) -> File:
    card = entry.card
    sets = encoder_results.build_other_sections(entry, records)
    card_errata = encoder_results.tabulate_card_errata(card)
    badge_words = f"{NAME}: {choose_badge(entry)[1]}"
    path = get_badge_path(entry)
    stated = card.reported.top1_percent
    measured_by_others = tabulate_by_others(entry)
    return renderer.page(
        "encoder.html.jinja",
        get_encoder_page(entry),
        title=entry.id,
        kind="encoder",
        entry=entry,
        sentence=f"{strip_url_keys(describe_encoder(card)).partition('. It turns ')[0]}.",
        answer=standings.of(entry),
        terms=encoder_header.describe_terms(card),
        load_lines=encoder_header.load_lines(card),
        relations=encoder_facts.list_relations(entry, contents),
        result_errata=encoder_results.list_result_errata(entry, records),
        main_facts=encoder_facts.list_main_facts(entry),
        anchors=_anchors(sets, measured_by_others, has_errata=card_errata is not None),
        imagenet=encoder_results.build_imagenet_section(entry, records, curves),
        sets=sets,
        by_others=measured_by_others,
        disagreements=describe_disagreements([*entry.reported, *build_measured_numbers(card, entry.right)]),
        reported=encoder_results.tabulate_reported([one for one in entry.reported if not find_origin(one)]),
        why_unreported=_UNREPORTED[stated if isinstance(stated, Missing) else NOT_RECORDED],
        notes=encoder_facts.list_loading_notes(entry, contents),
        loading=encoder_facts.list_loading_code(card),
        preprocessing=encoder_facts.describe_preprocessing(card),
        sections=encoder_facts.list_fact_sections(entry, contents),
        card_errata=card_errata,
        origin=_origin(entry),
        provenance=encoder_results.tabulate_provenance(entry, records),
        neighbours=neighbours.of(entry),
        citing=_citing(entry, records),
        badge=path,
        badge_words=badge_words,
        badge_code=Code(
            "Badge, in Markdown; SITE is the address of this site",
            f"[![{badge_words}](https://SITE/{path})](https://SITE/{get_encoder_page(entry)})",
        ),
    )


def _anchors(sets: list[dict[str, Any]], others: dict[str, Any] | None, *, has_errata: bool) -> list[tuple[str, str]]:
    return [
        ("error", "Error"),
        *((f"set-{number}", f"On {one['dataset']}") for number, one in enumerate(sets, 1)),
        *([("others", "Measured by others")] if others else []),
        ("reported", "Reported"),
        ("load", "Load"),
        ("preprocessing", "Preprocessing"),
        ("facts", "All facts"),
        *([("errata", "Errata")] if has_errata else []),
        ("provenance", "Provenance"),
        ("near", "Neighbours"),
        ("cite", "Cite"),
    ]


def _origin(entry: SiteEntry) -> Markup:
    about = entry.card.provenance
    by = {True: " by the method's authors", False: " by others than the method's authors"}
    who = "" if isinstance(about.official, Missing) else by[about.official]
    released = "Its weights are random; the network is of" if entry.card.is_untrained else f"Weights released{who}:"
    text = f"{released} {format_location(format_portable_location(about.url))}."
    if entry.means:
        text += f" What each measured number was made from is in results/measured/{entry.id}.provenance.jsonl."
    return link_addresses(text)


def _citing(entry: SiteEntry, records: Records) -> list[Code]:
    entries = [format_paper_entry(entry.card, address=format_location, text=strip_url_keys)]
    if any(row.source == PUBLISHED_SOURCE for row in records.rows[entry.id]):
        entries.append(STUDY)
    known = [one for one in entries if one]
    return [Code("BibTeX", "\n\n".join(known))] if known else []


# --- neighbours ---

MOST = 4
"""Of each kind that are named."""


class Neighbours:
    """Which encoders of a site are near another: of its network, of its method, and in error."""

    def __init__(self, contents: Contents) -> None:
        self._entries = contents.entries
        self._variants: dict[str, list[str]] = {}
        of_own: dict[str, list[str]] = {}  # other features are of the network of the encoder itself
        for one in contents.entries:
            of_own.setdefault(get_base_id(one), []).append(one)
        for group in group_networks(load_catalogue(), list(of_own)):
            variants = [one for own in group for one in of_own[own]]
            self._variants.update(dict.fromkeys(variants, variants))

    def of(self, entry: SiteEntry) -> list[tuple[str, list[tuple[SiteEntry, str]], int]]:
        """Kinds of neighbours that there are: title, the nearest with how each differs, how many more there are."""
        architecture, method = entry.card.architecture, entry.card.objective.name
        variants = [self._entries[one] for one in self._variants[entry.id] if one != entry.id]
        among = {entry.id, *(one.id for one in variants)}
        others = [one for one in self._entries.values() if one.id not in among]
        network = _network(entry)
        same_network = [one for one in others if _network(one) == network]
        same_network.sort(key=lambda one: (_gap(one, entry), one.id))
        same_method = [one for one in others if one.card.objective.name == method and not isinstance(method, Missing)]
        same_method.sort(key=lambda one: (_size_gap(one, entry), _gap(one, entry), one.id))
        kinds: list[tuple[str, list[SiteEntry], Callable[[SiteEntry], list[object]]]] = [
            ("Variants of it: another input, training or features", variants, lambda one: _variant(one, entry)),
            (
                f"Same network ({architecture.name}), trained otherwise",
                same_network,
                lambda one: [one.card.objective.name, one.card.pretraining.dataset],
            ),
            (
                f"Same method ({method}), other networks or data",
                same_method,
                lambda one: [f"{format_short_number(one.card.architecture.n_parameters)} parameters"],
            ),
        ]
        found = []
        for title, some, how in kinds:
            named = []
            for one in some[:MOST]:
                errors = [
                    f"{format_points(known)} % error" for known in [get_full_shot_error(one)] if known is not None
                ]
                named.append((one, ", ".join(str(it) for it in (*how(one), *errors) if not isinstance(it, Missing))))
            found += [(title, named, len(some) - len(named))] * bool(named)
        error = get_full_shot_error(entry)
        if error is not None:
            measured = [
                (other, one) for one in self._entries.values() if (other := get_full_shot_error(one)) is not None
            ]
            near = sorted((abs(other - error), one.id, other) for other, one in measured if one is not entry)[:MOST]
            nearest = [(self._entries[one], f"{_signed(other - error)} points") for _, one, other in near]
            found += [("Nearest in measured error (ImageNet-1K, all labels)", nearest, 0)] * bool(nearest)
        return found


def get_full_shot_error(entry: SiteEntry) -> float | None:
    """The error of a linear probe on ImageNet-1K with all labels, in percent; None without a valid one."""
    return entry.right.errors.get("100%") if entry.right else None


def _network(entry: SiteEntry) -> tuple[Any, ...]:
    architecture = entry.card.architecture
    return architecture.family, architecture.name, architecture.patch_size_px


def _gap(one: SiteEntry, other: SiteEntry) -> float:
    """Difference of errors; where one is not known, more than any."""
    errors = get_full_shot_error(one), get_full_shot_error(other)
    if errors[0] is None:
        return math.inf
    return errors[0] if errors[1] is None else abs(errors[0] - errors[1])


def _size_gap(one: SiteEntry, other: SiteEntry) -> float:
    return abs(math.log(one.card.architecture.n_parameters / other.card.architecture.n_parameters))


def _variant(one: SiteEntry, entry: SiteEntry) -> list[object]:
    """What differs, of facts that are known."""
    ours, theirs = entry.card, one.card
    words = {
        "preprocess.crop_px": "{} px", "representation.layer": "{}", "representation.dim": "{} features",
        "pretraining.epochs": "{} epochs", "pretraining.finetuning_dataset": "then {}",
    }  # fmt: skip
    differs = {name: theirs.fact(name) for name in words if theirs.fact(name) != ours.fact(name)}
    return [words[name].format(value) for name, value in differs.items() if not isinstance(value, Missing)]


def _signed(difference: float) -> str:
    text = format_points(difference)
    return text if text.startswith("-") else f"+{text}"


# --- badges ---

NAME = "SSL Zoo"
_HEIGHT, _MARGIN = 20, 7
_COLOURS = {"measured": "#0b5cad", "reported": "#57606a", "wrong": "#b42318", "unknown": "#57606a"}
_NARROW, _WIDE = "fijlrt.,:;|!'()[] ", "mwMW%@"


def get_badge_path(entry: SiteEntry) -> str:
    """Path of the badge of an encoder."""
    return f"badges/{entry.file}.svg"


def choose_badge(entry: SiteEntry) -> tuple[str, str]:
    """Kind and text of a badge: the error on ImageNet-1K or elsewhere, else a reported accuracy as such."""
    if entry.summary is not None and "100%" in entry.summary.errors:
        error = get_full_shot_error(entry)
        if error is None:
            return "wrong", "measured wrongly, see its errata"
        return "measured", f"linear probe {format_points(error)} % error"
    if found := encoder_header.find_error_elsewhere(entry):
        return "measured", f"linear probe {format_points(found[1])} % error on {found[0]}"
    preferred = entry.subject.reported
    for name, protocol in PROTOCOLS.items():
        if name in preferred:
            doubt = ", doubtful" if mark_reported(preferred[name]).endswith("!") else ""
            return "reported", f"reported {preferred[name].printed} % {protocol.short}{doubt}"
    return "unknown", "not measured"


def draw_badge(kind: str, text: str, encoder: str) -> str:
    """The picture, with its own colours and a title for screen readers; it needs nothing other than itself."""
    left, right = _width(NAME), _width(text)
    whole, title = left + right, f"{encoder}, {NAME}: {text}"
    size = {"width": whole, "height": _HEIGHT}
    svg = {"xmlns": "http://www.w3.org/2000/svg", **size, "viewBox": f"0 0 {whole} {_HEIGHT}", "role": "img"}
    texts = []
    for start, width, half in ((0, left, NAME), (left, right, text)):
        at = {"x": start + _MARGIN, "y": 14, "textLength": width - 2 * _MARGIN}
        texts.append(build_element("text", at, half))
    letters = {"fill": "#ffffff", "font-family": "Verdana, DejaVu Sans, Geneva, sans-serif", "font-size": 11}
    drawn = build_element(
        "svg",
        svg,
        build_element("title", {}, title),
        build_element("rect", {**size, "rx": 3, "fill": _COLOURS[kind]}),
        build_element("path", {"d": f"M3 0H{left}V{_HEIGHT}H3Q0 20 0 17V3Q0 0 3 0Z", "fill": "#24292f"}),
        build_element("g", letters, *texts),
    )
    return str(drawn)


def _width(text: str) -> int:
    """Pixels of a half with its margins; the text is stretched to fit, so that another font does no harm."""
    units = sum(3.9 if one in _NARROW else 10.5 if one in _WIDE else 6.9 for one in text)
    return round(units) + 2 * _MARGIN
