"""The names under which facts of a card appear in tables, in ``--where`` and in ``--sort``.

They are the names of the published tables, so that scripts and habits carry over; the card's own dotted names are
longer and clearer. One row here is everything a table, the data dictionary and the command line need of a fact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from .metadata import EncoderCard, Missing

Kind = Literal["text", "whole number", "number", "true or false", "list"]


@dataclass(frozen=True, slots=True)
class Column:
    """One fact as a column of a table."""

    name: str  # in tables
    field: str  # in the card
    section: str  # first level of the columns of metadata_df
    kind: Kind
    meaning: str

    def of(self, card: EncoderCard, *, as_published: bool = False) -> Any:
        """The value of this column for one card; ``Missing`` where it has none."""
        value = card.fact(self.field, as_published=as_published)
        if isinstance(value, Missing):
            return value
        if self.name == "year":
            return int(value[:4])
        if self.name == "month":
            return int(value[5:])
        return value


COLUMNS: tuple[Column, ...] = (
    Column("objective", "objective.name", "ssl", "text", "the loss, without its version"),
    Column("ssl_mode", "objective.mode", "ssl", "text", "coarse family of losses"),
    Column("version", "objective.version", "ssl", "whole number", "version of the loss"),
    Column("n_negatives", "objective.n_negatives", "ssl", "whole number", "negatives a positive pair"),
    Column("n_classes", "objective.n_classes", "ssl", "whole number", "clusters or classes that are predicted"),
    Column("is_stopgrad", "objective.stop_gradient", "ssl", "true or false", "gradients stop in one branch"),
    Column("is_ema", "objective.ema", "ssl", "true or false", "one branch is an average of the other over time"),
    Column("other", "objective.variant", "ssl", "text", "what else tells it from its neighbours"),
    Column("pred_dim", "projector.output_dim", "model", "whole number", "output dimensions of the projector"),
    Column("projection_hid_width", "projector.hidden_width", "model", "whole number", "hidden width of the projector"),
    Column("projection_hid_depth", "projector.hidden_depth", "model", "whole number", "hidden layers of the projector"),
    Column("architecture_exact", "architecture.exact", "model", "text", "architecture and representation, fine"),
    Column("architecture", "architecture.name", "model", "text", "architecture, coarse"),
    Column("family", "architecture.family", "model", "text", "resnet, vit or convnext"),
    Column("patch_size", "architecture.patch_size_px", "model", "whole number", "side of a patch in pixels"),
    Column("projection1_arch", "projector.first_arch", "model", "text", "projector of the first branch"),
    Column("projection2_arch", "projector.second_arch", "model", "text", "projector of the second branch"),
    Column("projection_same", "projector.same", "model", "true or false", "both branches have the same projector"),
    Column("n_parameters", "architecture.n_parameters", "model", "whole number", "parameters of the encoder"),
    Column("projection_nparameters", "projector.n_parameters", "model", "whole number", "parameters of the projector"),
    Column("z_dim", "representation.dim", "representation", "whole number", "dimensions of the features"),
    Column("z_layer", "representation.layer", "representation", "text", "which features are taken"),
    Column("epochs", "pretraining.epochs", "optimization", "whole number", "epochs of pretraining"),
    Column("batch_size", "pretraining.batch_size", "optimization", "whole number", "images a step"),
    Column("optimizer", "pretraining.optimizer", "optimization", "text", "optimizer of pretraining"),
    Column("learning_rate", "pretraining.learning_rate", "optimization", "number", "base rate as the authors state it"),
    Column("weight_decay", "pretraining.weight_decay", "optimization", "number", "weight decay of pretraining"),
    Column("scheduler", "pretraining.scheduler", "optimization", "text", "learning-rate schedule"),
    Column("pretraining_data", "pretraining.dataset", "data", "text", "data set of pretraining"),
    Column("finetuning_data", "pretraining.finetuning_dataset", "data", "text", "data set it was fine-tuned on"),
    Column("img_size", "preprocess.crop_px", "data", "whole number", "side of the input in pixels"),
    Column("views", "pretraining.views", "data", "text", "crops an image, as count x side in pixels"),
    Column(
        "is_aug_invariant", "pretraining.augmentation_invariant", "data", "true or false",
        "the loss asks for equal features of two augmentations",
    ),
    Column("augmentations", "pretraining.augmentations", "data", "list", "augmentations of pretraining"),
    Column(
        "top1acc_in1k_official", "reported.top1_percent", "metrics", "number",
        "ImageNet accuracy stated by the authors, percent",
    ),
    Column(
        "top1acc_in1k-1%_official", "reported.top1_percent_with_1_percent_labels", "metrics", "number",
        "the same with 1 % of the labels",
    ),
    Column(
        "top1acc_in1k-c5_official", "reported.top1_percent_with_5_shot", "metrics", "number",
        "the same with 5 labels a class",
    ),
    Column("where", "provenance.url", "meta", "text", "page that releases the weights"),
    Column("month", "released", "meta", "whole number", "month of publication"),
    Column("year", "released", "meta", "whole number", "year of publication"),
    Column("license", "licence.weights", "meta", "text", "licence of the weights, SPDX"),
    Column("is_official", "provenance.official", "meta", "true or false", "weights of the method's authors"),
    Column("is_industry", "provenance.industry", "meta", "true or false", "tuned by a large company"),
    Column("is_our_extract", "provenance.extracted", "meta", "true or false", "features other than the authors' own"),
    Column("n_pus", "pretraining.n_processors", "compute", "whole number", "processors used for pretraining"),
    Column("pu_type", "pretraining.processor", "compute", "text", "type of those processors"),
    Column("time_hours", "pretraining.duration_hours", "compute", "number", "hours of pretraining"),
)  # fmt: skip
