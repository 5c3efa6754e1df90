"""What the paper says of single encoders and of how many there are; each statement stands above what decides it."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from zoo.analysis.columns import COMPONENTS
from zoo.analysis.table import StudyTable
from zoo.errors import QueryError
from zoo.studies.findings import NOT_AVAILABLE, Answer, Claim, Claims, number_claim

from .profiles import Profiles

SWAV, MSN = "swav_rn50w4", "msn_vitl16_ep600"  # of Figure 1; the text names no third one
FULL_SHOT, THREE_SHOT = "train_test", "train-nperclass-3_test"
PUBLISHED = 169  # encoders of the paper
ACCURACIES = (  # printed in Section 1, in percent
    ("Full-shot", FULL_SHOT, SWAV, "76"),
    ("Full-shot", FULL_SHOT, MSN, "74"),
    ("3-shot", THREE_SHOT, SWAV, "37"),
    ("3-shot", THREE_SHOT, MSN, "63"),
)
MISSING = "the table lacks one of the two encoders, or a number of it"


@dataclass(frozen=True, slots=True)
class Found:
    """What the claims are held against."""

    table: StudyTable
    profiles: Profiles

    @property
    def parts(self) -> pd.DataFrame:
        """Places in the four components of the encoders that have all axes; 1 is the best."""
        return self.profiles.places.loc[list(self.profiles.reference), [outcome.column for outcome in COMPONENTS]]

    @property
    def published(self) -> pd.DataFrame:
        """The rows of encoders that are not the user's."""
        return self.table.frame.drop(index=list(self.table.mine))


def claims_of(found: Found) -> list[Claim]:
    """All claims, in the order of the paper's figures and sections."""
    return [
        *of_figure_1.judged(found),
        *counts_of_figures(found),
        *counts_of_encoders(found),
        *of_two_encoders.judged(found),
        *(accuracy(found.table, *printed) for printed in ACCURACIES),
    ]


# All encoders

of_figure_1 = Claims(source="Figure 1")


@of_figure_1("No model is uniformly better over the risk components", paper="no model")
def no_encoder_is_best_in_all(found: Found) -> Answer:
    parts = found.parts
    best_in_all = [str(encoder) for encoder in parts.index[(parts >= 1).all(axis=1)]]
    return Answer(
        ours=f"{len(best_in_all)} of {len(parts)} are best in all four; for {undominated(parts)} no "
        "other is as good in all four",
        holds=not best_in_all,
        reason=f"{' and '.join(best_in_all)} is best in all",
    )


def undominated(parts: pd.DataFrame) -> int:
    """How many encoders no other equals or beats in every component and beats in one."""
    values = parts.to_numpy()
    return sum(not any((other >= one).all() and (other > one).any() for other in values) for one in values)


def counts_of_figures(found: Found) -> list[Claim]:
    """How many encoders Figures 1 and 26 are of."""
    complete, n_published = len(found.parts), len(found.published)
    incomplete = n_published - complete
    return [
        count(
            "Encoders that the average of Figure 1 is over",
            str(PUBLISHED),
            complete,
            source="caption of Figure 1",
            reason=f"{incomplete} of {n_published} have no approximation and usability",
        ),
        count(
            "Encoders without a supervised twin, which Figure 26 leaves out",
            "2",
            incomplete,
            source="Appendix E.1",
            reason="the published table has no approximation and usability for so many",
        ),
    ]


def counts_of_encoders(found: Found) -> list[Claim]:
    """What Section 5 says the encoders are of; the paper's architectures are those of another width or patch size."""
    rows = found.published
    coarse, exact = rows["architecture"].nunique(), rows["architecture_exact"].nunique()
    with_patch_size = len(rows.dropna(subset="architecture").drop_duplicates(["architecture", "patch_size"]))
    return [
        count("Encoders that were analysed", str(PUBLISHED), len(rows)),
        count("Objectives of the encoders", "28", rows["objective"].nunique()),
        count(
            "Architectures of the encoders (those of another patch size counted apart)",
            "20",
            with_patch_size,
            reason=f"{coarse} with patch sizes together, {exact} with the layer that is read counted apart",
        ),
        count("Years in which the encoders were published", "7", rows["year"].nunique()),
    ]


def count(
    claim: str,
    printed: str,
    ours: int,
    *,
    source: str = "Section 5",
    reason: str = "another number of different values is in the table",
) -> Claim:
    """A printed count beside ours, which settles it."""
    return number_claim(
        claim, source=source, printed=printed, ours=float(ours), shown=str(ours), settled=True, reason=reason
    )


# The two encoders that the text compares

of_two_encoders = Claims(source="Section 1")


@of_two_encoders("SwAV RN50w4 is more usable than MSN ViT-L/16", paper="stated in words")
def swav_is_more_usable(found: Found) -> Answer:
    return is_lower(found.table, "usability", better=SWAV, worse=MSN)


@of_two_encoders("SwAV RN50w4 has a worse probe generalization than MSN ViT-L/16", paper="stated in words")
def msn_has_the_better_probe_generalization(found: Found) -> Answer:
    return is_lower(found.table, "probe_gen", better=MSN, worse=SWAV)


def is_lower(table: StudyTable, column: str, *, better: str, worse: str) -> Answer:
    """Whether a risk of one encoder is lower than that of another."""
    low, high = cell(table, better, column), cell(table, worse, column)
    if low is None or high is None:
        raise QueryError(MISSING)
    return Answer(
        ours=f"{low:.1f} points of {better}, {high:.1f} of {worse}",
        holds=low < high,
        reason="it is the other way round",
    )


def accuracy(table: StudyTable, words: str, column: str, encoder: str, printed: str) -> Claim:
    """A printed accuracy beside ours."""
    error = cell(table, encoder, column)
    return number_claim(
        f"{words} accuracy of {encoder} [%]",
        source="Section 1",
        printed=printed,
        ours=None if error is None else 100 - error,
        shown=NOT_AVAILABLE if error is None else None,
        reason=MISSING if error is None else "",
    )


def cell(table: StudyTable, encoder: str, column: str) -> float | None:
    value = float(table.frame[column].get(encoder, float("nan")))
    return None if value != value else value
