"""Cards and measurements as tables: columns, order and cells of the published study.

Scripts written for the hub of the study (Dubois et al. 2023) keep working: :func:`metadata_dict`, :func:`metadata_df`
and :func:`results_df` have its names, its columns and its order of arguments. Facts come corrected from the cards and
components signed from the raw risks; ``as_published=True`` gives what was published instead, faults included, to the
last digit.

Where only the sum of approximation and usability is known, as for 23 encoders, both columns are missing, because the
published layout has no column for the sum: the four components of such an encoder add up to less than its error.
``results_df(extended=True)`` has the column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ..cards.catalogue import load_catalogue
from ..cards.schema import COLUMNS, NOT_PUBLISHED, Column, EncoderCard, Missing
from ..errors import ContentError
from ..files import get_content_folder
from ..optional import require_extra
from .derived import summaries
from .rows import Measurement, measurements
from .values import IMAGENET, PUBLISHED_SOURCE, SETTINGS, Summary

if TYPE_CHECKING:
    import pandas as pd

COMPONENTS = {  # column -> metric and field of RiskDecomposition
    "approx": "approximation",
    "usability": "usability",
    "probe_gen": "probe_generalization",
    "enc_gen": "encoder_generalization",
}
_AUGMENTATIONS = {  # column -> word in the list of augmentations
    "is_aug_autoaug": "autoaugment",
    **{
        f"is_aug_{word}": word
        for word in (
            "blur", "color", "crop", "erasing", "flip", "gray", "jigsaw", "masking", "normalize", "photometric",
            "rotate", "solarize",
        )
    },
}  # fmt: skip
_GEOMETRIC = frozenset({"crop", "erasing", "flip", "jigsaw", "masking", "rotate"})
_COLOUR = frozenset({"autoaugment", "blur", "color", "gray", "photometric", "solarize"})
_FIRST_STRIDE_PX = {"resnet": 7, "convnext": 4}  # published as patch_size of encoders that have no patches
_HYPERPARAMETERS = (
    "objective", "ssl_mode", "version", "n_negatives", "n_classes", "is_stopgrad", "is_ema", "other", "pred_dim",
    "projection_hid_width", "projection_hid_depth", "architecture_exact", "architecture", "family", "patch_size",
    "projection1_arch", "projection2_arch", "projection_same", "n_parameters", "projection_nparameters",
    "pretraining_data", "finetuning_data", "img_size", "views", "is_aug_invariant", "augmentations", "z_dim", "z_layer",
    "epochs", "batch_size", "optimizer", "learning_rate", "weight_decay", "scheduler", *_AUGMENTATIONS,
    "is_aug_anygeometric", "is_aug_anycolor", "n_augmentations", "nviews", "projection_nparameters_hidden",
)  # fmt: skip
_METADATA = (
    "where", "month", "year", "license", "is_official", "is_industry", "is_our_extract", "n_pus", "pu_type",
    "time_hours", "top1acc_in1k_official", "top1acc_in1k-1%_official", "top1acc_in1k-c5_official", "date_published",
)  # fmt: skip
_PLAIN_STATISTICS = {
    "rank": "correlation_rank", "rank_Z": "feature_rank", "nc1": "nc1", "intra_var": "intra_class_variance",
    "inter_var": "inter_class_variance", "uniformity": "uniformity", "alignment": "alignment",
}  # fmt: skip
_AUGMENTED_STATISTICS = {key: _PLAIN_STATISTICS[key] for key in ("nc1", "intra_var", "inter_var", "alignment")}
_VIEWS = {
    "train": "train", "test": "val", "trainaug": "train augmented", "testaug": "val augmented",
    "trainrealaug": "train pretraining-augmented", "testrealaug": "val pretraining-augmented",
}  # fmt: skip
STATISTICS = {  # column -> metric and split
    **{
        f"{view}_{name}": (metric, split)
        for view, split in _VIEWS.items()
        for name, metric in (_PLAIN_STATISTICS if split in ("train", "val") else _AUGMENTED_STATISTICS).items()
    },
    **{f"{view}_vars": ("variance_ratio", split) for view, split in _VIEWS.items()},
    **{f"{view}_nc1norm": ("nc1_per_root_rank", split) for view, split in _VIEWS.items()},
}
LAYOUT = (
    *(("risk_decomposition", name) for name in COMPONENTS),
    *(("metrics", setting.column) for setting in SETTINGS),
    *(("hyperparameters", name) for name in _HYPERPARAMETERS),
    *(("metadata", name) for name in _METADATA),
    *(("statistics", name) for name in STATISTICS),
)
METADATA_ORDER = (  # of the columns of metadata_df; the published one had free text, notes, behind "where"
    "objective", "ssl_mode", "version", "is_stopgrad", "is_ema", "architecture_exact", "architecture", "family",
    "patch_size", "n_parameters", "z_dim", "z_layer", "epochs", "batch_size", "optimizer", "learning_rate",
    "weight_decay", "scheduler", "pretraining_data", "img_size", "views", "is_aug_invariant", "augmentations", "where",
    "month", "year", "license", "is_official", "is_industry", "is_our_extract", "n_pus", "pu_type", "time_hours",
    "n_classes", "pred_dim", "projection_hid_width", "projection_hid_depth", "projection1_arch", "projection2_arch",
    "projection_same", "projection_nparameters", "top1acc_in1k_official", "n_negatives", "top1acc_in1k-1%_official",
    "top1acc_in1k-c5_official", "other", "finetuning_data",
)  # fmt: skip
_EXTENSION = (("risk_decomposition", "approx_plus_usability"), ("risk_decomposition", "approx_is_assumed"))
EXTENDED_LAYOUT = (*LAYOUT[: len(COMPONENTS)], *_EXTENSION, *LAYOUT[len(COMPONENTS) :])


def list_published_ids() -> list[str]:
    """Ids of the 200 encoders whose facts were published, in the published order."""
    path = get_content_folder("metadata") / "published.txt"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ContentError(
            f"{path} cannot be read ({error}); reinstall ssl-zoo or clone the repository again."
        ) from error
    return [line for line in lines if line and not line.startswith("#")]


def list_card_facts(card: EncoderCard, as_published: bool) -> dict[str, Any]:
    """Facts of a card by the published name of their column."""
    facts = {column.name: column.of(card, as_published=as_published) for column in COLUMNS}
    if as_published:
        facts["license"] = card.licence.published
    if not isinstance(facts["augmentations"], Missing):
        facts["augmentations"] = list(facts["augmentations"])
    return facts


def format_published_blank(card: EncoderCard, column: Column, reason: Missing) -> str | None:
    """How the published file wrote a fact without a value: unknown facts of the compute as ???, others as null."""
    is_unknown = reason is NOT_PUBLISHED and column.section == "compute"
    was_null = card.family == "vicregl" and column.name == "time_hours"  # the only ones of these that were null
    return "???" if is_unknown and not was_null else None


def list_study_facts(card: EncoderCard, as_published: bool) -> dict[str, Any]:
    """Facts of a card as the study's table has them, with what the study derived from them."""
    facts = list_card_facts(card, as_published)
    words = facts["augmentations"]
    for name, word in _AUGMENTATIONS.items():
        facts[name] = _if_known(lambda known, word=word: int(word in known), words)
    facts["is_aug_anygeometric"] = _if_known(lambda known: int(not _GEOMETRIC.isdisjoint(known)), words)
    facts["is_aug_anycolor"] = _if_known(lambda known: int(not _COLOUR.isdisjoint(known)), words)
    facts["n_augmentations"] = _if_known(lambda known: float(len(known)), words)
    facts["nviews"] = _if_known(_n_views, facts["views"])
    facts["projection_nparameters_hidden"] = _if_known(
        lambda n, dim, width: float(n - dim * width),
        facts["projection_nparameters"],
        facts["z_dim"],
        facts["projection_hid_width"],
    )
    facts["date_published"] = _if_known(lambda year, month: f"{year}-{month:02d}-01", facts["year"], facts["month"])
    if isinstance(facts["patch_size"], Missing):
        facts["patch_size"] = _FIRST_STRIDE_PX.get(card.architecture.family, facts["patch_size"])
    facts["augmentations"] = _if_known(str, words)
    return facts


def _if_known(derive: Callable[..., Any], *facts: Any) -> Any:
    """What is derived from the facts, or why the first unknown one of them has no value."""
    return next((fact for fact in facts if isinstance(fact, Missing)), None) or derive(*facts)


def _n_views(views: str) -> int:
    """Crops an image: 12 for ``2x224+10x96``."""
    return sum(int(count) for count, times, _ in (crop.partition("x") for crop in views.split("+")) if times) or 1


RAW_RISKS = {  # column -> split of the probe
    "train_train": "train -> train",
    "train-cmplmnt-ntest_train-sbst-ntest": "train minus subset -> subset",
    "train-cmplmnt-ntest_test": "train minus subset -> val",
    "union_test": "train plus val -> val",
}
_PROBE = "linear_probe_error"
_FULL_SHOT = "train -> val"

Cells = dict[str, Any]


def build_published_rows(*, as_published: bool, exclude_wrong: bool) -> dict[str, Cells]:
    """Cells (by id, then column) of the encoders that were published, in the order of the risks.

    ``as_published`` has components clipped at 0 and facts as they were published, else components are signed and facts
    corrected; a missing cell is a :class:`zoo.cards.schema.Missing`. ``exclude_wrong`` leaves out the measurements that
    an erratum excludes, and encoders of which none is left.
    """
    values: dict[str, dict[tuple[str, str], float]] = {}
    for row in measurements(exclude_wrong=exclude_wrong):
        if row.source == PUBLISHED_SOURCE and row.dataset == IMAGENET:
            values.setdefault(row.encoder, {})[row.metric, row.split] = row.value
    derived = summaries(exclude_wrong=exclude_wrong, source=PUBLISHED_SOURCE)
    cards = load_catalogue()
    return {
        encoder: _cells(values[encoder], summary, cards[encoder], as_published=as_published, clipped=as_published)
        for encoder, summary in derived.items()
    }


def build_unpublished_rows(*, as_published: bool, exclude_wrong: bool) -> dict[str, Cells]:
    """:func:`build_published_rows` of the encoders that only others have measured, such as the user.

    Components are signed, and of several sources the newest counts.
    """
    known, published = summaries(exclude_wrong=exclude_wrong), _published_encoders()
    derived = {encoder: known[encoder] for encoder in known if encoder not in published}
    values = _newest(
        row for row in measurements(exclude_wrong=exclude_wrong) if row.dataset == IMAGENET and row.encoder in derived
    )
    cards = load_catalogue()
    return {
        encoder: _cells(values[encoder], summary, cards[encoder], as_published=as_published, clipped=False)
        for encoder, summary in derived.items()
    }


def find_measured_twice() -> list[str]:
    """Published encoders that the user has measured too; the published row counts."""
    rows = [row for row in measurements(metrics=_PROBE) if row.dataset == IMAGENET]
    others = {row.encoder for row in rows if row.source != PUBLISHED_SOURCE}
    return sorted(others & _published_encoders())


def _published_encoders() -> set[str]:
    return set(summaries(source=PUBLISHED_SOURCE))


def _newest(rows: Iterable[Measurement]) -> dict[str, dict[tuple[str, str], float]]:
    """Mean over the seeds of the newest source, of each encoder and (metric, split)."""
    by_quantity: dict[tuple[str, str, str], dict[tuple[str, str, str], list[float]]] = {}
    for row in rows:
        campaigns = by_quantity.setdefault((row.encoder, row.metric, row.split), {})
        campaigns.setdefault((row.date, row.source, row.protocol), []).append(row.value)
    values: dict[str, dict[tuple[str, str], float]] = {}
    for (encoder, metric, split), campaigns in by_quantity.items():
        values.setdefault(encoder, {})[metric, split] = fmean(campaigns[max(campaigns)])
    return values


def _cells(
    values: Mapping[tuple[str, str], float], summary: Summary, card: EncoderCard, *, as_published: bool, clipped: bool
) -> Cells:
    parts = summary.decomposition
    signed = {name: getattr(parts, metric, NOT_PUBLISHED) for name, metric in COMPONENTS.items()}
    published = {name: values.get((metric, _FULL_SHOT), NOT_PUBLISHED) for name, metric in COMPONENTS.items()}
    return {
        **(published if clipped else signed),
        "approx_plus_usability": getattr(parts, "approximation_plus_usability", NOT_PUBLISHED),
        "approx_is_assumed": getattr(parts, "approximation_assumed", False),
        **{setting.column: summary.errors.get(setting.name, NOT_PUBLISHED) for setting in SETTINGS},
        **{name: values.get((_PROBE, split), NOT_PUBLISHED) for name, split in RAW_RISKS.items()},
        **{name: values.get(key, NOT_PUBLISHED) for name, key in STATISTICS.items()},
        **list_study_facts(card, as_published),
    }


_DTYPES = {
    "text": "string",
    "whole number": "Int64",
    "number": "float64",
    "true or false": "boolean",
    "list": "object",
}


def metadata_dict(
    drop_missing: bool = True, *, is_lower: bool = False, as_published: bool = False
) -> dict[str, dict[str, dict[str, Any]]]:
    """Facts of every card, as encoder id -> section -> column -> value.

    Parameters
    ----------
    drop_missing : bool
        Without the facts that have no value; ``False`` keeps them as :class:`zoo.cards.schema.Missing`.
    is_lower : bool
        Ids in lower case.
    as_published : bool
        What was published and nothing else: its 200 encoders in its order, facts that are wrong included, ``views`` a
        number where it is one; facts without a value are None or, where they were written so, ``"???"``.
    """
    cards = load_catalogue()
    table: dict[str, dict[str, dict[str, Any]]] = {}
    for encoder, facts in _all_facts(as_published).items():
        sections: dict[str, dict[str, Any]] = {column.section: {} for column in COLUMNS}
        for column in COLUMNS:
            value = facts[column.name]
            if as_published and column.name == "views" and isinstance(value, str) and value.isdigit():
                value = int(value)
            if isinstance(value, Missing):
                if drop_missing:
                    continue
                value = format_published_blank(cards[encoder], column, value) if as_published else value
            sections[column.section][column.name] = value
        table[encoder.lower() if is_lower else encoder] = sections
    return table


def metadata_df(
    is_multiindex: bool = False, is_lower: bool = True, drop_missing: bool = True, *, as_published: bool = False
) -> pd.DataFrame:
    """Facts of every card: a row per encoder, a column a fact of :data:`zoo.cards.schema.COLUMNS`, in published order.

    Parameters
    ----------
    is_multiindex : bool
        Columns of two levels, section and name.
    is_lower : bool
        Ids in lower case, as the published table has them.
    drop_missing : bool
        Missing facts are NA in typed columns; ``False`` keeps the two kinds apart, as :class:`zoo.cards.schema.Missing`
        in columns of objects.
    as_published : bool
        What was published and nothing else: its 200 encoders in its order, facts that are wrong included.

    Returns
    -------
    DataFrame indexed by the ids; text is ``string``, whole numbers ``Int64``, numbers ``float64``, truth values
    ``boolean``, the lists of augmentations ``object``.
    """
    _require_pandas("metadata_df")
    import pandas as pd

    rows = _all_facts(as_published)
    by_name = {column.name: column for column in COLUMNS}
    columns = [by_name[name] for name in METADATA_ORDER]
    frame = pd.DataFrame(index=_index(rows, is_lower).rename(None))
    for column in columns:
        values = [facts[column.name] for facts in rows.values()]
        typed = drop_missing or not any(isinstance(value, Missing) for value in values)
        cells = [None if typed and isinstance(value, Missing) else value for value in values]
        frame[column.name] = pd.Series(cells, index=frame.index, dtype=_DTYPES[column.kind] if typed else "object")
    if is_multiindex:
        frame.columns = pd.MultiIndex.from_tuples([(column.section, column.name) for column in columns])
    return frame


def results_df(
    is_multiindex: bool = True,
    is_lower: bool = True,
    drop_missing: bool = True,
    *,
    as_published: bool = False,
    exclude_wrong: bool = False,
    extended: bool = False,
    with_mine: bool = False,
) -> pd.DataFrame:
    """The published table: 169 encoders, their risks, facts and feature statistics, in the published order.

    The columns approx and usability are missing for the 23 encoders of which only their sum is known, so that the four
    components of these add up to less than their error; ``extended`` has the sum.

    Parameters
    ----------
    is_multiindex : bool
        Columns of two levels: risk_decomposition, metrics, hyperparameters, metadata or statistics; and the name.
    is_lower : bool
        Ids in lower case, as the published table has them.
    drop_missing : bool
        Missing cells are NaN; ``False`` keeps the two kinds apart, as :class:`zoo.cards.schema.Missing` in columns of
        objects.
    as_published : bool
        Every cell and type as it was published: components clipped at 0, wrong facts, licences in the words of their
        authors. Else components are signed, facts corrected and licences SPDX.
    exclude_wrong : bool
        Without the measurements that an erratum excludes, and without encoders of which none is left.
    extended : bool
        Two more columns after the four components: ``approx_plus_usability``, which every encoder has, signed and
        never clipped, and ``approx_is_assumed``, true where approx is 0 by assumption, not measured.
    with_mine : bool
        With encoders that only you have measured on ImageNet-1K, below the others: by a protocol of the zoo, whose
        numbers do not compare with published ones (docs/probes.md).

    Returns
    -------
    DataFrame with the index ``enc`` and 117 columns, or 119 if extended; errors in percent, components in percentage
    points; augmentations are text, as they were published (:func:`metadata_df` has lists).
    """
    _require_pandas("results_df")
    import pandas as pd

    few_shot = SETTINGS[-1].column  # measured for the encoders of the table and no others
    rows = {
        encoder: cells
        for encoder, cells in build_published_rows(as_published=as_published, exclude_wrong=exclude_wrong).items()
        if not isinstance(cells[few_shot], Missing)
    }
    rows |= build_unpublished_rows(as_published=as_published, exclude_wrong=exclude_wrong) if with_mine else {}
    columns = {
        (section, name): _column([cells[name] for cells in rows.values()], drop_missing)
        for section, name in (EXTENDED_LAYOUT if extended else LAYOUT)
    }
    frame = pd.DataFrame(columns).set_axis(_index(rows, is_lower), axis="index")
    return frame if is_multiindex else frame.droplevel(0, axis="columns")


def _all_facts(as_published: bool) -> dict[str, dict[str, Any]]:
    cards = load_catalogue()
    return {
        encoder: list_card_facts(cards[encoder], as_published)
        for encoder in (list_published_ids() if as_published else cards)
    }


def _column(values: list[Any], drop_missing: bool) -> pd.Series[Any]:
    """Cells with the types that pandas gives the published file: the plain ones, float where a number is missing."""
    import pandas as pd

    if not drop_missing and any(isinstance(value, Missing) for value in values):
        return pd.Series(values, dtype="object")
    return pd.Series([math.nan if isinstance(value, Missing) else value for value in values])


def _index(encoders: Iterable[str], is_lower: bool) -> pd.Index[Any]:
    import pandas as pd

    return pd.Index([encoder.lower() if is_lower else encoder for encoder in encoders], name="enc")


def _require_pandas(needed_for: str) -> None:
    with require_extra("tables", needed_for=needed_for):
        import pandas  # noqa: F401
