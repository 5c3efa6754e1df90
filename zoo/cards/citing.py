"""Entries of BibTeX: for the paper behind an encoder, and for the study that measured it."""

from __future__ import annotations

import re
from collections.abc import Callable

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


def paper_entry(
    card: EncoderCard, *, address: Callable[[str], str] = str, text: Callable[[str], str] = str
) -> str | None:
    """The entry of the paper of a card, with its identifier and year where the address is arXiv's; None without title.

    ``address`` and ``text`` make of an address and a title what may be shown.

    >>> from .catalogue import catalogue
    >>> print(paper_entry(catalogue()["dino_vitS16"]))
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
