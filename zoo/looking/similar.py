"""Images near others to encoders: the nearest ones of queries in a gallery, or near duplicates, and their page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import QueryError, format_count
from ..evaluation.retrieval import nearest
from ..features import featurise
from ..loading import load as load_encoder
from ..optional import require_extra
from ..progress import Progress
from .mistakes import NearDuplicates, build_near_pairs, find_near_duplicates
from .mistakes_page import add_images, build_pair_tile, make_section, render_mistakes_page

with require_extra("models", needed_for="Looking at features"):
    import numpy as np

if TYPE_CHECKING:
    from ..datasets import ImageSet
    from ..features import Features

_MOST_PAIRS = 72  # on a page, which stays below 3 MB with 152 pictures


def find_similar(
    names: Sequence[str],
    gallery: ImageSet,
    queries: ImageSet | None = None,
    *,
    k: int = 6,
    load: Callable[[str], tuple[Any, Any]] | None = None,
    tell: Callable[[str], None] = lambda text: None,
    progress: Callable[[], Progress | None] = lambda: None,
    **how: Any,
) -> tuple[dict[str, NearDuplicates], list[str]]:
    """By encoder the k images of a gallery nearest to each query, or its near duplicates; and images not readable.

    Arguments are as for :func:`~zoo.looking.visualization.look`, errors as of :func:`zoo.features.featurise`, and
    QueryError if k is no number from 1 to that of the images, or duplicates are sought in one. Pairs with a query have
    it as ``test``, in the order of the queries, the nearest image first.
    """
    if queries is None and len(gallery) < 2:
        raise QueryError(
            f"Got {len(gallery)} image of {gallery.name!r}, expected two or more to find duplicates among."
        )
    if queries is not None and not 1 <= k <= len(gallery):
        raise QueryError(f"Got {k} neighbours, expected 1 to {len(gallery):,}, the images of {gallery.name!r}.")
    found, skipped = dict[str, NearDuplicates](), dict[str, None]()
    for name in names:
        encoder, preprocess = (load or load_encoder)(name)
        made: list[Features] = []
        how["n_planned"] = len(gallery) + len(queries or ())  # one backend for both
        for images in (gallery,) if queries is None else (gallery, queries):
            tell(f"{name}: features of {format_count(len(images), 'image')}")
            made.append(featurise(encoder, preprocess, images, name=name, progress=progress(), **how))
            skipped |= dict.fromkeys(one.image for one in made[-1].skipped)
        if queries is None:
            found[name] = find_near_duplicates(made[0], device=how.get("device"))
            continue
        rows, distances = nearest(made[1], made[0], k, device=how.get("device"))
        ends = np.stack([rows.ravel(), np.repeat(np.arange(len(rows)), k)], axis=1)
        pairs = build_near_pairs(made[0], made[1], ends, distances.ravel())
        found[name] = NearDuplicates(usual=float(np.median(distances[:, 0])), pairs=pairs)
    return found, [*skipped]


def render_similar_page(
    found: dict[str, NearDuplicates],
    gallery: ImageSet,
    queries: ImageSet | None,
    *,
    is_labelled: bool,
    notes: Sequence[str] = (),
    facts: str = "",
) -> str:
    """What :func:`find_similar` found as the text of a page, with pictures of the first pairs."""
    most, sections, part = max(1, _MOST_PAIRS // len(found)), [], "gallery" if queries is None else "query"
    for name, near in found.items():
        text = f"Distance: 1 - cosine of the features; usually the nearest image is at {near.usual or 0:.2g}."
        if queries is None:
            rule = "nearer than chance explains; at most about 5 % are false"
            text = f"{format_count(len(near.pairs), 'pair')} of near duplicates: {rule}. {text}"
        rows = dict[str, list[Any]]()
        for pair in (*near.pairs, *near.copies)[:most]:
            tile = build_pair_tile(pair, (part, "gallery"))
            tile["head"] = "" if not is_labelled else tile["head"] if queries is None else pair.train_label
            rows.setdefault("" if queries is None else pair.test, []).append(tile)
        sections.append(make_section(name, text, *rows.items()))
    images = {"gallery": gallery} | ({} if queries is None else {"query": queries})
    title = f"{'Near duplicates' if queries is None else 'Nearest images'} in {gallery.name}"
    answer = (
        f"{format_count(len(gallery), 'image')}, of which {len(next(iter(found.values())).copies):,} copies of others."
    )
    if queries is not None:
        answer = (
            f"{format_count(len(queries), 'query', 'queries')}, on the left, the nearest of {len(gallery):,} images."
        )
    return render_mistakes_page(title, [answer], add_images(sections, images), notes=notes, facts=facts)
