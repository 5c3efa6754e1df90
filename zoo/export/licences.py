"""Licences of weights, as the Hub names them and as whoever publishes them has to know them."""

from __future__ import annotations

from ..metadata import EncoderCard, Missing
from ..weights.places import shown

# https://huggingface.co/docs/hub/repositories-licenses: those whose identifier is the SPDX id in lower case
_AS_SPDX = """
afl-3.0 agpl-3.0 apache-2.0 artistic-2.0 bsd-2-clause bsd-3-clause bsd-3-clause-clear bsl-1.0 cc-by-2.0 cc-by-2.5
cc-by-3.0 cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0 cdla-permissive-2.0
cdla-sharing-1.0 ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 eupl-1.2 gpl-2.0 gpl-3.0 isc lgpl-2.1 lgpl-3.0 lppl-1.3c
mit mpl-2.0 ms-pl ncsa ofl-1.1 osl-3.0 postgresql unlicense wtfpl zlib
"""
_ON_THE_HUB = {identifier: identifier for identifier in _AS_SPDX.split()} | {
    "gfdl-1.3": "gfdl",
    "lgpllr": "lgpl-lr",
    "odbl-1.0": "odbl",
    "odc-by-1.0": "odc-by",
    "pddl-1.0": "pddl",
}
_FREE_TO_PUBLISH = ("apache-2.0", "bsd-2-clause", "bsd-3-clause", "bsl-1.0", "cc0-1.0", "cc-by-4.0", "isc", "mit")


def hub_licence(card: EncoderCard) -> dict[str, str]:
    """The fields of a model card that name the licence of the weights.

    ``other`` and a name where the Hub has no identifier, or nobody has published a licence.
    """
    licence = card.licence.weights
    if isinstance(licence, Missing):
        fields = {"license": "other", "license_name": "not-published"}
    else:
        known = _ON_THE_HUB.get(_folded(licence))
        if known:
            return {"license": known}
        fields = {"license": "other", "license_name": "-".join(licence.casefold().split())}
    link = card.provenance.url
    return {**fields, "license_link": shown(link)} if link.startswith(("http://", "https://")) else fields


def conditions(card: EncoderCard) -> str | None:
    """What whoever uses the weights has to know of their licence; None if it asks for no more than its text.

    >>> from zoo.cards import catalogue
    >>> conditions(catalogue()["mae_vitB16"])
    'The licence of these weights, CC-BY-NC-4.0, forbids commercial use.'
    """
    licence = card.licence.weights
    if isinstance(licence, Missing):
        return "No licence of these weights was published, and without one they may not be passed on."
    folded = _folded(licence)
    if folded in _FREE_TO_PUBLISH:
        return None
    marks = {"-nc": "forbids commercial use", "-nd": "forbids altered copies", "-sa": "asks for the same licence"}
    said = [words for mark, words in marks.items() if f"{mark}-" in folded and folded.startswith("cc-")]
    return f"The licence of these weights, {licence}, {' and '.join(said) or 'has conditions of its own'}."


def redistribution_note(card: EncoderCard) -> str | None:
    """What to know before publishing these weights once more; None if there is nothing to beware of."""
    known = conditions(card)
    if known is None:
        return None
    if isinstance(card.licence.weights, Missing):
        return f"{known} Ask their authors before you publish this folder."
    return f"{known} Read it before you publish this folder."


def _folded(licence: str) -> str:
    return licence.casefold().removesuffix("-only").removesuffix("-or-later")
