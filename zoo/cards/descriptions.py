"""A card in words: its facts by part, what each means, and how to cite it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_type_hints

from .schema import EncoderCard, Missing

STUDY = """\
@inproceedings{dubois2023evaluating,
  title = {Evaluating Self-Supervised Learning via Risk Decomposition},
  author = {Dubois, Yann and Hashimoto, Tatsunori and Liang, Percy},
  booktitle = {International Conference on Machine Learning},
  year = {2023},
  url = {https://arxiv.org/abs/2302.03068}
}"""
"""Entry of the study that measured the published risks."""
_ARXIV = re.compile(r"arxiv\.org/abs/((\d\d)\d\d\.\d+)")
_LAST_PARTS = ("weights", "licence")
_UNITS = {"_px": " px", "_bytes": " bytes", "_hours": " hours"}
_LABELS = {
    "top1_percent": ("top-1 accuracy", " %"),
    "top1_percent_with_1_percent_labels": ("top-1 accuracy, 1 % of the labels", " %"),
    "top1_percent_with_5_shot": ("top-1 accuracy, 5 labels per class", " %"),
    "ema": ("one branch a moving average", ""),
    "sha256": ("SHA-256", ""),
    "url": ("URL", ""),
}


def group_facts(card: EncoderCard) -> dict[str, dict[str, Any]]:
    """Facts by part of the card and by name; weights and licences last."""
    parts = {field.name: getattr(card, field.name) for field in fields(card)}
    nested = {
        name: {field.name: getattr(part, field.name) for field in fields(part)}
        for name, part in parts.items()
        if is_dataclass(part)
    }
    return {name: nested[name] for name in [*(name for name in nested if name not in _LAST_PARTS), *_LAST_PARTS]}


def format_fact_label(name: str) -> tuple[str, str]:
    """A fact's name in words, and its unit.

    >>> format_fact_label("patch_size_px"), format_fact_label("n_images")
    (('patch size', ' px'), ('n images', ''))
    """
    if name in _LABELS:
        return _LABELS[name]
    for suffix, unit in _UNITS.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix).replace("_", " "), unit
    return name.replace("_", " "), ""


@cache
def read_meanings() -> dict[str, str]:
    """What every fact means, by its dotted name, as the comment next to it in the schema says it once.

    >>> read_meanings()["representation.dim"]
    'dimensions of the features'
    """
    parts = {name: hint for name, hint in get_type_hints(EncoderCard).items() if isinstance(hint, type)}
    return {"released": "month of publication"} | {
        f"{part}.{name}": meaning
        for part, hint in parts.items()
        if is_dataclass(hint)
        for name, meaning in re.findall(r"^    (\w+): .*?  # (.+)$", inspect.getsource(hint), flags=re.MULTILINE)
    }


def format_paper_entry(
    card: EncoderCard, *, address: Callable[[str], str] = str, text: Callable[[str], str] = str
) -> str | None:
    """The entry of the paper of a card, with its identifier and year where the address is arXiv's; None without title.

    ``address`` and ``text`` make of an address and a title what may be shown.

    >>> from .catalogue import load_catalogue
    >>> print(format_paper_entry(load_catalogue()["dino_vitS16"]))
    @misc{dino_vitS16,
      title = {Emerging Properties in Self-Supervised Vision Transformers},
      eprint = {2104.14294},
      archivePrefix = {arXiv},
      year = {2021},
      url = {https://arxiv.org/abs/2104.14294}
    }
    """
    title, url = card.paper.title, card.paper.url
    if isinstance(title, Missing):
        return None
    url = url if isinstance(url, Missing) else address(url)
    lines = [f"  title = {{{text(' '.join(title.split()))}}}"]
    arxiv = None if isinstance(url, Missing) else _ARXIV.search(url)
    if arxiv:
        lines += [f"  eprint = {{{arxiv[1]}}}", "  archivePrefix = {arXiv}", f"  year = {{20{arxiv[2]}}}"]
    lines += [] if isinstance(url, Missing) else [f"  url = {{{url}}}"]
    return f"@misc{{{card.id},\n" + ",\n".join(lines) + "\n}"
