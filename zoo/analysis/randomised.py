"""The encoders whose design choices were drawn at random.

``docs/randomised.md`` is the design; rows and cards of the user take no part. A contrast is a number per encoder, NaN
where the choice does not apply.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..cards.catalogue import load_catalogue
from ..cards.schema import EncoderCard, Missing
from ..errors import ContentError, QueryError
from ..files import get_content_folder, use_shipped_only
from ..optional import require_extra
from ..results.derived import summaries

with require_extra("study", needed_for="A randomised experiment"):
    import numpy as np
    import pandas as pd

FAMILY, DATASET = "randomised", "fashion-mnist"
RECIPE_RATE = 0.002  # of AdamW; a rate is the recipe's, a third of it or three times it
OBJECTIVES = ("simclr", "vicreg", "byol", "swav", "dino", "context_encoder", "rotnet", "supervised")
JOINT_EMBEDDING = OBJECTIVES[:5]
SWITCHES = ("crop", "flip", "intensity", "blur", "cutout")
LEVELS: Mapping[str, Sequence[float]] = {  # of numbers with three levels, whose contrast is the position: -1, 0, 1
    "dim": (16, 64, 256), "epochs": (1, 2, 4), "batch_size": (64, 128, 256), "rate_factor": (0.33, 1.0, 3.0),
}  # fmt: skip
OF_OBJECTIVE = tuple(f"objective {name}" for name in OBJECTIVES)
UNITS: Mapping[str, str] = {
    **{f"objective {name}": f"{name} against the mean of the other objectives" for name in OBJECTIVES},
    "projector linear": "linear projector against none",
    "projector mlp": "MLP projector against none",
    "projector_width": "width 256 against 64, where there is a projector",
    "dim": "4 times the dimensions",
    "vit": "ViT against ResNet",
    "large": "large against small network",
    "epochs": "doubling of the epochs",
    **{name: f"{name} against none" for name in SWITCHES},
    "batch_size": "doubling of the batch",
    "rate_factor": "3 times the learning rate",
    "n_views": "four against two views",
}
OUTCOMES: Mapping[str, str] = {
    "usability": "Usability",
    "probe_gen": "Probe generalization",
    "enc_gen": "Encoder generalization",
    "full": "Error with all labels",
    "3-shot": "3-shot error",
}
_NEEDED = {"100%", "3-shot"}  # errors


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomisedPopulation:
    """The encoders that were drawn and measured; every frame has their ids as its index, in the order of the draw."""

    choices: pd.DataFrame  # one column per choice, as drawn
    contrasts: pd.DataFrame  # float64, columns of UNITS; NaN where a choice does not apply
    outcomes: pd.DataFrame  # percentage points: columns of OUTCOMES, and "approx"
    log: pd.DataFrame  # of the runs: "state", "seconds", "rankme", ...
    unmeasured: tuple[str, ...]  # ids of encoders that were trained and have no decomposition yet

    def __len__(self) -> int:
        return len(self.choices)

    def only(self, encoders: pd.Series[bool]) -> RandomisedPopulation:
        """Those of the encoders for which it is true."""
        return RandomisedPopulation(
            choices=self.choices[encoders],
            contrasts=self.contrasts[encoders],
            outcomes=self.outcomes[encoders],
            log=self.log[encoders],
            unmeasured=self.unmeasured,
        )


@use_shipped_only()
def find_randomised_cards() -> dict[str, EncoderCard]:
    """The cards of the encoders that were drawn, without the supervised twins of their architectures."""
    found = {card.id: card for card in load_catalogue().with_unlisted.values() if card.family == FAMILY}
    return {name: card for name, card in found.items() if "_twin_" not in name}


@use_shipped_only()
def load_randomised_population() -> RandomisedPopulation:
    """Choices, contrasts, outcomes and log of every encoder that was drawn and measured."""
    cards = find_randomised_cards()
    measured = summaries(dataset=DATASET, encoders=cards)
    rows: dict[str, dict[str, Any]] = {}
    for name in cards:
        found = measured.get(name)
        if found is not None and found.decomposition is not None and found.errors.keys() >= _NEEDED:
            parts = found.decomposition
            rows[name] = {
                "approx": parts.approximation,
                "usability": parts.usability,
                "probe_gen": parts.probe_generalization,
                "enc_gen": parts.encoder_generalization,
                "full": found.errors["100%"],
                "3-shot": found.errors["3-shot"],
            }
    if not rows:
        raise QueryError(
            f"No encoder of the family {FAMILY!r} has a decomposition on {DATASET}; run scripts/measure_randomised.py."
        )
    log = read_runs_log()
    if lost := [name for name in rows if name not in log.index]:
        raise ContentError(
            f"The log of the runs has no line of {', '.join(lost)}, which was measured; reinstall ssl-zoo or clone the "
            "repository again."
        )
    choices = pd.DataFrame({name: read_choices(cards[name]) for name in rows}).T.rename_axis("enc")
    return RandomisedPopulation(
        choices=choices,
        contrasts=compute_contrasts(choices),
        outcomes=pd.DataFrame(rows).T.rename_axis("enc"),
        log=log.loc[list(rows)],
        unmeasured=tuple(name for name in cards if name not in rows),
    )


def read_choices(card: EncoderCard) -> dict[str, Any]:
    """What was drawn for an encoder, as its card says it."""
    about, head = card.pretraining, card.projector
    kind = "none" if head.first_arch == "identity" else head.first_arch
    words: Any = about.augmentations
    rate: Any = about.learning_rate
    return {
        "objective": card.objective.name,
        "projector": kind,
        "projector_width": float("nan") if isinstance(head.output_dim, Missing) else head.output_dim,
        "dim": card.representation.dim,
        "network": card.architecture.family,
        "size": card.architecture.exact.split()[1],
        "epochs": about.epochs,
        **{name: name in words for name in SWITCHES},
        "batch_size": about.batch_size,
        "rate_factor": round(rate / RECIPE_RATE, 2),
        "n_views": int(str(about.views).partition("x")[0]),
    }


def compute_contrasts(choices: pd.DataFrame) -> pd.DataFrame:
    """The contrasts of :data:`UNITS`: 1 or 0 of levels and switches, -1, 0 or 1 of numbers with three levels."""
    columns: dict[str, Any] = {f"objective {name}": choices["objective"] == name for name in OBJECTIVES}
    columns["projector linear"] = (choices["projector"] == "linear").where(choices["projector"] != "mlp")
    columns["projector mlp"] = (choices["projector"] == "mlp").where(choices["projector"] != "linear")
    width = choices["projector_width"].astype("float64")
    columns["projector_width"] = ((width == 256) - 0.5).where(width.notna())  # about 0, where it does not apply
    columns["vit"], columns["large"] = choices["network"] == "vit", choices["size"] == "large"
    columns |= {name: choices[name] for name in SWITCHES}
    columns["n_views"] = choices["n_views"] == 4
    for name, levels in LEVELS.items():
        found = choices[name].astype("float64").to_numpy()
        columns[name] = np.abs(found[:, None] - np.asarray(levels)).argmin(axis=1) - 1
    frame = pd.DataFrame(columns, index=choices.index).astype("float64")
    return frame[list(UNITS)]


def read_runs_log() -> pd.DataFrame:
    """Result of each run, by encoder: ``state`` (trained, collapsed, failed), ``seconds``, ``rankme``, ..."""
    path = get_content_folder("metadata") / FAMILY / "log.csv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = {row.pop("encoder"): row for row in csv.DictReader(file)}
        frame = pd.DataFrame(rows).T.rename_axis("enc")
        numbers = ["seconds", "n_steps", "loss", "rankme", "spread", "accuracy_percent", "size_bytes"]
        return frame.astype(dict.fromkeys(numbers, "float64"))
    except (OSError, KeyError, ValueError) as error:
        raise ContentError(
            f"The log of the runs {path} cannot be read ({error}); reinstall ssl-zoo or clone the repository again."
        ) from error
