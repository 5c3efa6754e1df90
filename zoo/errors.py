"""Every error the zoo raises, as one tree.

::

    ZooError                    base: catching it catches everything the zoo refuses
    ├── ContentError            the folders metadata/ and results/ cannot be found or read
    ├── CardError               a card file is unreadable or a card in it is wrong
    ├── ResultsError            a results file is unreadable or a row in it is wrong
    ├── UnknownName             no encoder, column or other name like that; lists the nearest ones
    ├── QueryError              a --where expression or another request cannot be understood
    ├── WeightsUnavailable      the trained weights of an encoder are not available
    ├── WeightsRefused          a file of weights is not exactly what it must be, or is not safe to read
    ├── StoreError              the cache of weights, the lock file or a mirror cannot be read or written
    │   └── PlaceError          files of a folder or an address cannot be read or written; says why
    ├── BuildError              an architecture cannot be built from its card
    ├── DataError               images, labels or features are not what a function needs
    │   ├── CorruptImage        a file of an image set cannot be read as an image; names it
    │   └── OtherFeatures       a place holds other features than those asked for; says in what they differ
    └── MissingExtra            an optional library is not installed; names the extra to install

A message is one sentence that says what we got, what we expected, where, and what to do.

A wrong entry in the user's cards and results stops nothing else: it is left out with a :class:`ContentWarning`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from functools import partial

# Patterns are compiled when they are first needed, which listing needs not.
_MISLEADING = (  # what moves, colours, turns or hides what a terminal shows; an emoji may have joiners
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]|(?<![\u0250-\U0010ffff])[\u200c\u200d]"
)


_LONGEST_NAME = 120  # characters of what was asked for, in a message
_LONG = r"\S{1000,}"  # no path, and no address


def escape_unprintable(text: str) -> str:
    r"""A text as people may see it: characters are escaped that would act on a terminal, or hide; lines stay.

    >>> print(escape_unprintable("a\x1b[31mb\u202egnp.exe c\u200bat, Fu\xdf \U0001f469\u200d\U0001f52c"))
    a\x1b[31mb\u202egnp.exe c\u200bat, Fuß 👩‍🔬
    """
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return re.sub(_MISLEADING, lambda found: found[0].encode("unicode_escape").decode(), text)


class ContentWarning(UserWarning):
    """Something in the user's cards or results is wrong and was left out; names it."""


def warn(sentences: Iterable[str]) -> None:
    """Warns of content that was left out, once in a process for each."""
    for sentence in sentences:
        warnings.warn(sentence, ContentWarning, stacklevel=1)


class NameNote(UserWarning):
    """Something was asked for by a name that stands for another one; says which."""


class ComputingNote(UserWarning):
    """How something is computed, where that is chosen here; moves numbers by rounding alone."""


warnings.simplefilter("ignore", ComputingNote, append=True)  # of a library; the command line shows it


def warn_name_note(sentence: str) -> None:
    """Says what a name stands for, once in a process."""
    warnings.warn(sentence, NameNote, stacklevel=1)


class ZooError(Exception):
    """Base of all errors that the zoo raises on purpose."""

    def __str__(self) -> str:
        """One line of readable length, whatever the names in it hold."""
        text = escape_unprintable(super().__str__()).replace("\n", "\\n")
        return re.sub(_LONG, lambda found: f"{found[0][:_LONGEST_NAME]}...", text)


class ContentError(ZooError):
    """The content folders cannot be found or read."""


class CardError(ZooError, ValueError):
    """A card file is unreadable, or a card in it breaks the schema."""


class ResultsError(ZooError, ValueError):
    """A results file is unreadable, or a row in it breaks the schema."""


class UnknownName(ZooError, LookupError):
    """An unknown name; the message lists the nearest known ones.

    Attributes
    ----------
    name : object
        What was asked for.
    nearest : tuple of str
        Known names that look like it, best first; may be empty.
    """

    def __init__(
        self, kind: str, name: object, known: Iterable[str], *, hint: str = "", nearest: tuple[str, ...] | None = None
    ) -> None:
        self.name = name
        if nearest is None:
            nearest = find_nearest_names(name, known) if isinstance(name, str) else ()
        self.nearest = nearest
        listed = f"; did you mean {_join_or(self.nearest)}?" if self.nearest else "."
        asked = repr(name) if len(repr(name)) <= _LONGEST_NAME else f"{repr(name)[:_LONGEST_NAME]}..."
        super().__init__(f"There is no {kind} named {asked}{listed}{' ' + hint if hint else ''}")


class QueryError(ZooError, ValueError):
    """A request that cannot be understood or answered as it stands."""


class WeightsUnavailable(ZooError):
    """The trained weights of an encoder are not available.

    Attributes
    ----------
    unreached : tuple of str
        Why each host that has them cannot be reached; empty if that is not the only reason.
    way_in : str
        What to do to be admitted, where their host gives them to some alone; otherwise empty.
    """

    def __init__(self, message: str, *, unreached: Iterable[str] = (), way_in: str = "") -> None:
        self.unreached = tuple(unreached)
        self.way_in = way_in
        super().__init__(message)


class WeightsRefused(ZooError, ValueError):
    """A file of weights is not exactly what it must be, or cannot be read without running what is in it."""


class StoreError(ZooError):
    """The cache of weights, the lock file, a mirror or the disk below them cannot be read or written."""


class PlaceError(StoreError):
    """Files of a folder or an address cannot be read or written.

    Attributes
    ----------
    reason : str
        What the system or the library below says, without the password of an address.
    """

    def __init__(self, sentence: str, *, reason: str) -> None:
        self.reason = reason
        super().__init__(sentence)

    def __reduce__(self) -> tuple[Callable[..., PlaceError], tuple[str]]:
        """Pickles both arguments, for workers send it to their process."""
        return partial(type(self), reason=self.reason), (str(self),)


class BuildError(ZooError):
    """An architecture cannot be built from what its card says."""


class DataError(ZooError, ValueError):
    """Images, labels or features are not what a function needs, or a file of them is damaged."""


class CorruptImage(DataError):
    """A file of an image set cannot be read as an image.

    Attributes
    ----------
    image : str
        Its name in the image set.
    """

    def __init__(self, image: str, sentence: str) -> None:
        self.image = image
        super().__init__(sentence)

    @classmethod
    def of(cls, image: str, *, image_set: str, reason: object) -> CorruptImage:
        """The error of an image of an image set, with its sentence."""
        return cls(
            image,
            f"The image {image!r} of {image_set!r} cannot be read ({reason}); restore or remove it, or go on without "
            "it with --skip-corrupt.",
        )

    def __reduce__(self) -> tuple[type[CorruptImage], tuple[str, str]]:
        """Pickles both arguments, for workers of a loader send it to their process."""
        return type(self), (self.image, str(self))


class OtherFeatures(DataError):
    """A place holds other features than those asked for."""


_PIP_NAMES = {"PIL": "pillow", "packaging": "packaging>=24.2", "pydicom": "pydicom>=3.0", "sklearn": "scikit-learn"}
"""Names that pip takes where they are not the module's, and versions that have what is imported."""


class MissingExtra(ZooError, ImportError):
    """An optional library is not installed."""

    def __init__(self, library: str, *, extra: str, needed_for: str) -> None:
        module = library.partition(".")[0]
        library = _PIP_NAMES.get(module, module)
        super().__init__(
            f"{needed_for} needs the library {library!r}, which is not installed; "
            f"run: pip install '{library}', or install ssl-zoo with its extra [{extra}]",
            name=library,
        )


def find_nearest_names(name: str, known: Iterable[str], *, n: int = 5, cutoff: float = 0.5) -> tuple[str, ...]:
    """Known names that look like ``name``, best first, compared without case.

    >>> find_nearest_names("dino_vits", ["dino_vitS16", "dino_rn50", "mae_vitB16"])[0]
    'dino_vitS16'
    """
    import difflib  # takes 10 ms, which only a misspelling costs

    by_folded = {candidate.casefold(): candidate for candidate in known}
    folded = name.casefold()
    close = difflib.get_close_matches(folded, by_folded, n=n, cutoff=cutoff)
    if folded:
        close += [key for key in by_folded if folded in key and key not in close]
    return tuple(by_folded[key] for key in close[:n])


def format_list(names: Iterable[object], most: int = 5) -> str:
    """Names by comma; of many the first, and how many more.

    >>> format_list(["a", "b", "c", "d"], most=3)
    'a, b, c and 1 more'
    """
    shown = list(map(str, names))
    more = f" and {len(shown) - most:,} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def format_count(n: int, noun: str, plural: str = "") -> str:
    """A number of things; ``plural`` is by default the noun with an s.

    >>> format_count(1, "encoder"), format_count(2048, "image"), format_count(1, "image was", "images were")
    ('1 encoder', '2,048 images', '1 image was')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def format_range(low: object, high: object) -> str:
    """Two ends as a range; one of them where they are equal.

    >>> format_range(3, 5), format_range(801, 801)
    ('3 to 5', '801')
    """
    return f"{low}" if low == high else f"{low} to {high}"


def _join_or(names: tuple[str, ...]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} or {names[-1]}"
