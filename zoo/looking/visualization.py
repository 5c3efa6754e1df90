"""What encoders see in images: maps of the images that are shown, features of all, and what is shown of them.

What an encoder sees of an image is the square that its preprocessing cuts out; images are shown as the first encoder
sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from ..cards.catalogue import load_catalogue
from ..datasets import ImageSet
from ..datasets.subsets import draw_raw
from ..encoders.preprocess import build_geometry_steps
from ..encoders.processor import use_fast_forward
from ..encoders.sizes import preprocess_at
from ..errors import DataError, QueryError, UnknownName, format_count
from ..evaluation.arrays import Array
from ..features.computing import choose_device, use_memory_format
from ..features.featurising import featurise
from ..loading import load as load_encoder
from ..optional import require_extra
from ..progress import Progress
from ..regression_check import use_full_precision
from .components import component_colours, patch_similarity
from .neighbourhood import laid_out, nearest_images
from .pages import make_thumbnail

with require_extra("models", needed_for="Looking at what encoders see"):
    import numpy as np
    import torch

if TYPE_CHECKING:
    from PIL import Image

_SAMPLE_STREAM = 7_301  # keeps the draws apart from all others of a seed
_MOST_SHOWN, _FEW = 48, 12  # images whose maps are shown: at most, and if nobody says how many
_MAPS_AT_A_TIME = 16
_LONGEST_NAME = 18  # letters below a picture


def draw_image_sample(images: ImageSet, n: int, *, seed: int, also: Sequence[int] = ()) -> ImageSet:
    """About the same number of images of each class, as far as there are, ``n`` in all; and those at ``also``.

    >>> from zoo.datasets import open_images
    >>> draw_image_sample(open_images("digits").val, 25, seed=0).n_per_class().tolist()
    [3, 3, 3, 3, 3, 2, 2, 2, 2, 2]
    """
    if len(images) <= n:
        return images
    order = np.lexsort((draw_raw((seed, _SAMPLE_STREAM), len(images)), images.labels))
    chosen = order[np.lexsort((images.labels[order], _turns(images.labels[order])))[:n]]
    return images.subset(np.union1d(chosen, np.array(also, np.int64)), split=f"{images.split} sample")


def _turns(labels: Array) -> Array:
    """The number of each image within its class, of ascending labels."""
    found: Array = np.arange(len(labels)) - np.searchsorted(labels, labels)
    return found


def find_images(images: ImageSet, names: Sequence[str]) -> list[int]:
    """Positions of images by their names, or the last parts of these; UnknownName if there is none like that."""
    found = []
    for name in names:
        ends = [at for at, one in enumerate(images.names) if f"/{one}".endswith(f"/{name}")]
        if not ends:
            raise UnknownName("image", name, images.names, hint=f"It is to be one of {images.name!r}.")
        found.append(min(ends, key=lambda at: len(images.names[at])))
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Patches:
    """Maps of the m images that are shown."""

    colours: Array  # uint8 (m, rows, columns, 3)
    explained: Array  # (3,)
    similarity: Array  # (m, rows, columns)
    at: tuple[int, int]  # the patch of the first query that it is to

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.colours.shape[1]), int(self.colours.shape[2])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Among:
    """All n images among each other."""

    distances: Array  # (n, k)
    rows: Array  # (n, k)
    places: Array  # (n, 2)
    explained: float | None  # by the layout pca


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """What one encoder sees; None where there is nothing to show."""

    encoder: str
    px: int
    dim: int
    patches: Patches | None
    among: Among | None
    agreement: float | None  # percent of the images whose nearest neighbour has their class


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Look:
    """What some encoders see in images."""

    images: ImageSet  # that were looked at
    is_labelled: bool
    shown: list[int]  # positions of the images with maps, the first query first
    queries: list[int]  # positions of the images whose neighbours are shown
    layout: str
    views: list[View]
    image: Callable[[int], Image.Image]  # what the first encoder sees of an image, 512 pixels at most
    skipped: list[str]  # images that could not be read
    notes: list[str]

    @property
    def chance(self) -> float:
        """Percent of the pairs of images that are of one class: what neighbours share by chance."""
        counts, n = np.unique(self.images.labels, return_counts=True)[1], len(self.images)
        return 100 * float((counts * (counts - 1)).sum()) / max(n * (n - 1), 1)

    def label(self, at: int) -> str:
        """The class of an image, or where there are no labels the end of its name, by which files mostly differ."""
        name = str(self.images.names[at]).rpartition("/")[2]
        short = name if len(name) <= _LONGEST_NAME else f"\N{HORIZONTAL ELLIPSIS}{name[1 - _LONGEST_NAME :]}"
        return self.class_name(self.images.labels[at]) if self.is_labelled else short

    def class_name(self, label: int) -> str:
        """The name of a class, which tags need not have."""
        return self.images.classes[label] or "(no tag)"

    def near(self, among: Among, query: int) -> list[tuple[int, float, str]]:
        """Position, distance, and "same" or "other" for the label ("" if not known) of the neighbours of an image."""
        y = self.images.labels
        pairs = zip(among.rows[query].tolist(), among.distances[query].tolist(), strict=True)
        words = ("other", "same") if self.is_labelled else ("", "")
        return [(at, far, words[int(y[at] == y[query])]) for at, far in pairs if at >= 0]

    def as_dict(self) -> dict[str, Any]:
        """What was found, for JSON."""
        names, encoders = self.images.names, []
        for view in self.views:
            patches, among = view.patches, view.among
            found = {one: getattr(view, one) for one in ("encoder", "px", "dim", "agreement")}
            found["agreement_by_chance"] = None if view.agreement is None else self.chance
            found["grid"] = list(patches.grid) if patches else None
            found["patch"] = list(patches.at) if patches else None
            found["explained"] = patches.explained.tolist() if patches else None
            found["layout_explained"] = among.explained if among else None
            found["neighbours"] = {
                names[query]: [
                    {"image": names[at], "distance": far, "label": word or None}
                    for at, far, word in self.near(among, query)
                ]
                for query in self.queries
                if among
            }
            encoders.append(found)
        about = {"images": self.images.name, "split": self.images.split, "n_images": len(self.images)}
        return about | {"shown": [names[one] for one in self.shown], "encoders": encoders, "skipped": self.skipped}


def look(
    names: Sequence[str],
    images: ImageSet,
    load: Callable[[str], tuple[Any, Any]] | None = None,
    *,
    is_labelled: bool = True,
    per_class: int | None = None,
    queries: Sequence[str] | int = 4,
    k: int = 6,
    at: tuple[int, int] | None = None,
    layer: int | None = None,
    layout: str = "pca",
    seed: int = 0,
    tell: Callable[[str], None] = lambda text: None,
    progress: Callable[[], Progress | None] = lambda: None,
    **how: Any,
) -> Look:
    """What encoders see in images: colours of patches, similarity to one of them, nearest neighbours, and a layout.

    Parameters
    ----------
    names : sequence of str
        Ids of the encoders.
    images : ImageSet
        All of them are looked at: give a sample of many (:func:`draw_image_sample`).
    load : callable, optional
        From an id to encoder and preprocessing; :func:`zoo.load` by default.
    is_labelled : bool
        False if the labels mean nothing.
    per_class : int, optional
        Images of each class whose maps are shown, 48 in all at most; by default as many as make about 12.
    queries : int or sequence of str
        How many images, or which ones by name, have their neighbours shown; their maps are shown, too.
    k : int
        Neighbours of each, as far as there are.
    at : (int, int), optional
        Row and column of a patch of the first query, of the grid of the first encoder with maps; by default the middle.
        Of other encoders the patch is taken that has the middle of this one.
    layer : int, optional
        Block whose maps are shown, as for ``encoder.maps``; by default what the features are made of.
    layout, seed
        As for :func:`~zoo.looking.neighbourhood.laid_out`.
    tell, progress : callable
        Is called with what is done; makes the progress of an encoder.
    **how
        ``batch_size``, ``n_workers``, ``device`` and ``skip_corrupt`` of :func:`zoo.features.featurise`.

    Raises
    ------
    QueryError
        If there is nothing to show, as of one image by an encoder without maps; no encoder has the maps that ``at`` or
        ``layer`` asks for; or ``at`` is outside of the grid.
    UnknownName
        If no image has the name of a query.
    CorruptImage, DataError
        As :func:`zoo.features.featurise`.
    """
    loaded: Callable[[str], tuple[Any, Any]] = load or load_encoder
    views: list[View] = []
    notes: list[str] = []
    place: tuple[float, float] | None = None  # of the marked patch, from the middle, in shorter sides of the image
    for name in names:
        encoder, preprocess = loaded(name)
        tell(f"{name}: features of {format_count(len(images), 'image')}")
        found = featurise(encoder, preprocess, images, name=name, progress=progress(), **how)
        x = np.asarray(found.x)
        card = load_catalogue()[name].preprocess
        cut = preprocess_at(card, encoder.px or card.crop_px)
        share = cut.crop_px / cut.resize_px  # of the shorter side of an image that the encoder sees
        if not views:
            gone, steps, of_first = [one.position for one in found.skipped], build_geometry_steps(cut), share
            skipped = [images.names[one] for one in gone]
            images = images.subset(np.delete(np.arange(len(images)), gone), split=images.split)
            shown, asked = _shown(images, queries, per_class, notes)
        tell(f"{name}: maps of {format_count(len(shown), 'image')}")
        patches = among = None
        try:
            maps = _maps(encoder, preprocess, images, shown, layer, how.get("device"))
            grid = maps.shape[2:]
            if place is None:
                marked = at or (grid[0] // 2, grid[1] // 2)
            else:
                row, column = (int((0.5 + one / share) * n + 1e-9) for one, n in zip(place, grid, strict=True))
                marked = min(max(row, 0), grid[0] - 1), min(max(column, 0), grid[1] - 1)  # if it sees less
            colours, explained = component_colours(maps)
        except (QueryError, DataError) as error:
            notes.append(f"{name} has no maps to show: {error}")
        else:
            similarity = patch_similarity(maps, 0, marked)
            patches = Patches(colours=colours, explained=explained, similarity=similarity, at=marked)
            row, column = ((one + 0.5) / n - 0.5 for one, n in zip(marked, grid, strict=True))
            place = place or (row * share, column * share)
        agreement = None
        try:
            if len(images) > 1:
                distances, rows = nearest_images(x, k, contents=images.contents)
                places, of_layout = laid_out(x, layout=layout, seed=seed)
                among = Among(distances=distances, rows=rows, places=places, explained=of_layout)
                has = np.flatnonzero(rows[:, 0] >= 0)
                if is_labelled and len(has):
                    agreement = 100 * float((images.labels[rows[has, 0]] == images.labels[has]).mean())
        except DataError as error:
            notes.append(f"{name} has no neighbours and no layout to show: {error}")
        seen = {"encoder": name, "px": cut.crop_px, "dim": x.shape[1]}
        views.append(View(**seen, patches=patches, among=among, agreement=agreement))
        if abs(share - of_first) > 0.01:
            times = f"{share / of_first:.2f} times as much of an image's shorter side as {names[0]}"
            notes.append(f"{name} sees {times}, whose view is shown")
    asks_for_maps = at is not None or layer is not None
    if (asks_for_maps and place is None) or not any(view.patches or view.among for view in views):
        raise QueryError(f"There is nothing to show: {'; '.join(note.removesuffix('.') for note in notes)}.")
    if len(images) == 1:
        notes.append("one image has no neighbours and no layout")

    @cache
    def image(at: int) -> Image.Image:
        made: Any = images.images[at]
        for step in steps:
            made = step(made)
        return make_thumbnail(made, 512 if len(shown) <= 4 else 256)

    told: dict[str, Any] = {"layout": layout, "skipped": skipped, "notes": notes, "is_labelled": is_labelled}
    return Look(images=images, shown=shown, queries=asked, views=views, image=image, **told)


def _shown(
    images: ImageSet, queries: Sequence[str] | int, per_class: int | None, notes: list[str]
) -> tuple[list[int], list[int]]:
    """Positions of the images to show, the first query before the others, and of the queries."""
    order = np.argsort(images.labels, kind="stable")
    turns = _turns(images.labels[order])
    by_turn = order[np.argsort(turns, kind="stable")].tolist()  # one of each class before the second of one
    of_each = max(1, _FEW // len(np.unique(images.labels))) if per_class is None else per_class
    chosen = order[turns < of_each]
    most = _FEW if per_class is None else _MOST_SHOWN
    if len(chosen) > most:
        if per_class is not None:
            notes.append(f"{most} of {len(chosen):,} images are shown with their maps")
        chosen = chosen[np.linspace(0, len(chosen) - 1, most).round().astype(int)]
    own = sorted(by_turn, key=lambda one: one not in chosen)
    asked = own[: max(1, queries)] if isinstance(queries, int) else find_images(images, queries)
    return list(dict.fromkeys([asked[0], *chosen.tolist(), *asked])), asked


def _maps(encoder: Any, preprocess: Any, images: ImageSet, shown: Sequence[int], layer: int | None, on: Any) -> Array:
    """Maps, float32 (n, dim, rows, columns); QueryError if there are none, or they have a single patch."""
    device, parts = choose_device(encoder, on), []
    with (
        torch.inference_mode(),
        use_full_precision(),
        use_fast_forward(encoder, device),
        use_memory_format(encoder.to(device), None) as layout,
    ):
        for start in range(0, len(shown), _MAPS_AT_A_TIME):
            pixels = torch.stack([preprocess(images.images[one]) for one in shown[start : start + _MAPS_AT_A_TIME]])
            pixels = pixels.to(device, next(encoder.parameters()).dtype, memory_format=layout)
            parts.append(encoder.maps(pixels, layer=layer).float().cpu().numpy())
    maps: Array = np.concatenate(parts)
    if maps.shape[2] * maps.shape[3] == 1:
        raise QueryError("An image is a single patch; ask for more pixels (--px) or an earlier block (--layer).")
    return maps
