"""``zoo segment``: which encoder, layer and size of images names the class of each pixel, or its depth."""

from __future__ import annotations

from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.catalogue import get_base_card, load_catalogue
from ..datasets.sources import MASK_KINDS, format_sources_help
from ..files import get_evaluations_folder
from .measure_options import (
    EXPORT_OPTION,
    MAP_DATA_OPTIONS,
    PAGE_OPTIONS,
    RUN_OPTIONS,
    add_options,
    add_recording_options,
    list_groups_notes,
    open_masks,
    record_measured_rows,
    reject_unused_source,
    require_images_exist,
    require_page_at,
)
from .options import (
    FoldedCommand,
    complete_encoder_names,
    make_seed_option,
    parse_number_ranges,
    reject_unused_options,
)
from .output import add_json_option, log_progress, print_answer, print_command, print_json

if TYPE_CHECKING:
    from ..cards.answers import AnswerTable
    from ..datasets.dense import DenseData
    from ..evaluation.segmentation_runs import Layers, SegmentedVariant
    from .measure_options import RecordingResult

_IMAGES_HELP = f"""\b
IMAGES are images with masks, one of
{format_sources_help(MASK_KINDS)}
Masks may be grey, of a palette, 0 and 255, or of colours, which are shown; classes.txt, class_dict.csv or alike next to
them name the classes. 255 is ignored among others."""
_EXAMPLES = """\b
Examples:
  zoo segment pocket_simclr_vit_shapes shapes --layers all
  zoo segment dinov2_vitS14 dino_vitS16 ./leaves --px 224,448 --page leaves.html
  zoo segment dinov2_vitS14 ./leaves --layers 8,11,8+11 --boundary --save leaves-probe
  zoo predict leaves-probe ./new-photos --out masks
"""


def _parse_layers(ctx: click.Context, parameter: click.Parameter, text: str) -> tuple[Layers, ...] | None:
    """Layers by comma, with + between those whose maps stand next to each other; None: each block."""
    if text == "all":
        return None
    if text == "last":
        return ((None,),)
    found: list[Layers] = []
    for some in text.split(","):
        joined = [parse_number_ranges(ctx, parameter, one) or () for one in some.split("+")]
        found += [(block,) for block in joined[0]] if len(joined) == 1 else [tuple(chain.from_iterable(joined))]
    return tuple(found)


@click.command("segment", cls=FoldedCommand, epilog=f"{_IMAGES_HELP}\n\n{_EXAMPLES}")
@click.argument("names", metavar="ENC...", nargs=-1, required=True, shell_complete=complete_encoder_names)
@click.argument("images", metavar="IMAGES", callback=require_images_exist)
@click.option(
    "--layers",
    default="last",
    show_default=True,
    metavar="all|LIST",
    callback=_parse_layers,
    help="Blocks from 0 by comma, each by itself, ranges as 3..7; + joins the maps of two, as 9+11.",
)
@click.option(
    "--px",
    metavar="PX,...",
    callback=parse_number_ranges,
    help="Sides of the squares that images are resized to, all compared.  [default: the card's]",
)
@click.option(
    "--target",
    "task",
    type=click.Choice(["segmentation", "depth"]),
    default="segmentation",
    show_default=True,
    help="What is predicted of each pixel.",
)
@click.option("--balanced", is_flag=True, help="Each class weighs as much as any other, however few pixels it has.")
@click.option(
    "--ignore",
    "--ignore-label",
    "ignore_labels",
    metavar="N",
    multiple=True,
    help="A value, colour or class of the masks whose pixels are neither learned nor judged. Repeatable.",
)
@click.option("--boundary", is_flag=True, help="Also the F1 of the boundaries of classes, which takes longer.")
@partial(add_options, options=(*MAP_DATA_OPTIONS, *RUN_OPTIONS))
@make_seed_option("Of the draw of tuning images and of the intervals.")
@click.option(
    "--save",
    "saved",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the probe that is best on tuning images, for zoo predict.",
)
@EXPORT_OPTION
@partial(add_options, options=PAGE_OPTIONS)
@click.option(
    "--out",
    "root",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where maps are kept.  [default: in the cache]",
)
@add_recording_options
@add_json_option
def segment_command(
    names: tuple[str, ...],
    images: str,
    layers: tuple[Layers, ...] | None,
    px: tuple[int, ...] | None,
    task: str,
    balanced: bool,
    boundary: bool,
    seed: int,
    saved: Path | None,
    exports: tuple[str, ...],
    page: Path | None,
    hides_images: bool,
    root: Path | None,
    source: str,
    record: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the encoder, layer and size that segment your images.

    A linear head on the maps of a frozen encoder learns your masks, to convergence, and is judged on test images: mean
    intersection over union, that of each class, and pixel accuracy, with 95 % intervals over images and paired
    differences. Images go through the encoder whole, resized to squares; masks are judged at their own size. With
    --target depth the head predicts depth, in the unit of the maps. What the last layer measures at the card's size
    becomes rows of your results.
    """
    from ..evaluation.segmentation_runs import choose_variant, measure_segmentation
    from ..features.work_items import FeaturisingOptions
    from ..progress import ProgressBar
    from ..results.recording import require_same_images

    require_page_at(page)
    reject_unused_source(record=record)
    if task == "depth":
        reject_unused_options(("balanced", "ignore_labels", "boundary"), "depth has no classes")
    ids = list(dict.fromkeys(get_base_card(load_catalogue()[name]).id for name in names))
    if saved is None:
        reject_unused_options(("exports",), "no probe is kept", remedy=", or add --save DIR")
    else:
        from ..evaluation.saved_probes import require_exporters, require_place

        require_exporters(exports)
        for one in ids:
            require_place(saved, one)
    data = open_masks(images, options, task=task)
    if record and task == "segmentation":
        require_same_images(data.name, {task: {"train": data.train.fingerprint, "val": data.val.fingerprint}})
    variants = measure_segmentation(
        ids,
        data,
        layers=layers,
        px=px or (None,),
        balanced=balanced,
        boundary=boundary,
        root=(get_evaluations_folder() / "maps") if root is None else root,
        how=FeaturisingOptions(**{name: options[name] for name in ("batch_size", "n_workers", "device")}),
        seed=seed,
        progress=lambda label: ProgressBar("images"),
        tell=log_progress,
    )
    recorded = _record(variants, source) if record and task == "segmentation" else None
    kept = None if saved is None else _save(choose_variant(variants), saved, exports, seed)
    _show(variants, data, recorded, saved=kept, page=page, hides_images=hides_images, as_json=as_json)
    if recorded and recorded.problem:
        raise click.ClickException(recorded.problem)


def _show(
    variants: list[SegmentedVariant],
    data: DenseData,
    recorded: RecordingResult | None,
    *,
    saved: Path | None,
    page: Path | None,
    hides_images: bool,
    as_json: bool,
) -> None:
    """Writes the page and prints the answer, as far as they were asked for."""
    from ..evaluation.segmentation_runs import choose_variant

    chosen = choose_variant(variants)
    tables, notes = _build_tables(variants, chosen), _list_notes(variants, chosen, data)
    notes += recorded.notes if recorded else ()
    if saved is not None:
        notes.insert(0, f"the probe of {chosen.result.name} is kept in {saved}")
    if page is not None:
        from ..looking.masks_page import render_masks_page
        from ..looking.pages import write_page

        answer = _describe(variants, chosen)
        text = render_masks_page(chosen, tables, answer=answer, notes=notes, hides_images=hides_images)
        notes.insert(0, f"Written: {write_page(text, page)}")
    if as_json:
        document = _build_document(variants, chosen, data, saved, page, notes)
        print_json(document | {"recorded": recorded.document if recorded else None})
        return
    print_answer(*tables, notes=notes)
    if saved is not None:
        print_command("masks of new images", f"zoo predict {saved} IMAGES --out masks")


def _record(variants: list[SegmentedVariant], source: str) -> RecordingResult | None:
    """Adds rows of those that rows have columns for: what an encoder pools, at its card's size."""
    from ..evaluation.segmentation_rows import can_record, make_segmentation_rows

    def make_rows() -> dict[Any, Any]:
        return {row: about for one in variants if can_record(one)
                for row, about in make_segmentation_rows(one, source=source).items()}  # fmt: skip

    return record_measured_rows(make_rows) if any(map(can_record, variants)) else None


def _build_tables(variants: list[SegmentedVariant], chosen: SegmentedVariant) -> list[AnswerTable]:
    """A row per encoder, layer and size; and the classes of the chosen one."""
    from ..evaluation.segmentation_metrics import build_result_table

    what = "Depth" if chosen.data.task == "depth" else "Masks"
    first = build_result_table([one.result for one in variants], title=f"{what} of {chosen.data.name}")
    return [first, *chosen.build_tables()[1:]]


def _describe(variants: list[SegmentedVariant], chosen: SegmentedVariant) -> list[str]:
    """The answer in a sentence."""
    name, found = next(iter(chosen.result.metrics.items()))
    unit = f" {chosen.data.train.unit}" if chosen.data.task == "depth" else " %"
    said = {"miou": "Mean intersection over union", "rmse": "Root of the mean squared error"}[name]
    ends = "" if found.ci_low is None else f" (95 %: {found.ci_low:.3g} to {found.ci_high:.3g})"
    among = f", of {len(variants)} compared" if len(variants) > 1 else ""
    return [
        f"{said} of {chosen.result.name}{among}: {found.value:.3g}{unit}{ends}, on {len(chosen.data.val):,} images."
    ]


def _list_notes(variants: list[SegmentedVariant], chosen: SegmentedVariant, data: DenseData) -> list[str]:
    from ..datasets.images import count_shared_groups
    from ..datasets.notes import describe_decoding

    px = " or ".join(str(side) for side in dict.fromkeys(one.px for one in variants))
    what = "depth is" if data.task == "depth" else "masks are"
    protocol = chosen.result.report["protocol"]
    notes = [f"images are resized whole to {px} px, whatever their shape; {what} judged at their own size ({protocol})"]
    if len(variants) > 1:
        notes.append(
            f"on tuning images, a fifth of the training images, {chosen.result.name} is the best; the order above is "
            "of the test images, and its first row is optimistic (selection)"
        )
    if odd := [one.result.name for one in variants if not one.probe.report_.get("is_converged", True)]:
        notes.append(f"the probe of {odd[0]} has not converged")
    groups = count_shared_groups(data.train.images.groups, data.val.images.groups)
    notes += list_groups_notes(groups, has_intervals=True)
    return [*notes, *describe_decoding([data.train.images, data.val.images])]


def _save(chosen: SegmentedVariant, folder: Path, exports: tuple[str, ...], seed: int) -> Path:
    from ..evaluation.saved_probes import save_probe
    from ..evaluation.segmentation_runs import make_saved_map_probe

    return save_probe(make_saved_map_probe(chosen, seed=seed), folder, export=exports)


def _build_document(
    variants: list[SegmentedVariant],
    chosen: SegmentedVariant,
    data: DenseData,
    saved: Path | None,
    page: Path | None,
    notes: list[str],
) -> dict[str, Any]:
    parts = {"train": data.train, "val": data.val}
    return {
        "dataset": data.name,
        "task": data.task,
        "unit": data.train.unit,
        "classes": list(data.train.classes),
        "n_images": {part: len(some) for part, some in parts.items()},
        "fingerprints": {part: some.fingerprint for part, some in parts.items()},
        "chosen": chosen.result.name,
        "results": [one.as_dict() for one in variants],
        "images": {part: some.images.reading.as_dict() for part, some in parts.items()},
        "saved": None if saved is None else str(saved),
        "page": None if page is None else str(page),
        "notes": notes,
    }
