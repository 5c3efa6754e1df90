"""Addresses in what is written for everybody: without what may be somebody's key."""

from __future__ import annotations

import re

from ..weights.places import shown

# to the end of the word or of a link in Markdown; punctuation at its end belongs to the sentence
_ADDRESS = re.compile(r"https?://(?:(?!\]\()[^\s<>\"'`])*[^\s<>\"'`.,;:!?)\]}]", re.IGNORECASE)


def without_keys(text: str) -> str:
    """A text in which every address is as :func:`zoo.weights.places.shown` gives it.

    >>> without_keys("From https://me:word@host/run.pth?dl=1&token=secret, converted.")
    'From https://host/run.pth?dl=1, converted.'
    """
    return _ADDRESS.sub(lambda found: shown(found[0]), text)
