"""``zoo choose``: the encoder for the user's labelled images, by a race on them."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.answers import read_table
from ..errors import format_count
from ..files import get_evaluations_folder, get_user_folder
from .constraint_options import KIND_OF_IMAGES, LIMITS, build_constraints
from .evaluation_output import list_risk_doubts
from .measure_options import (
    BACKEND_OPTION,
    DATA_OPTIONS,
    IMAGE_OPTIONS,
    IMAGES_HELP,
    MASK_OPTIONS,
    PAGE_OPTIONS,
    PROTOCOL_OPTION,
    RUN_OPTIONS,
    SPLIT_OPTIONS,
    describe_images,
    open_labelled_images,
    open_masks,
    require_images_exist,
    require_page_at,
)
from .options import (
    FoldedCommand,
    add_options,
    complete_encoder_names,
    dry_run_option,
    get_given_options,
    make_seed_option,
    parse_duration,
    reject_unused_options,
)
from .output import (
    add_json_option,
    is_verbose,
    log_progress,
    print_answer,
    print_command,
    print_json,
    print_notes,
    wrap_indented,
)
from .stored_answers import StoredAnswer, describe_image_sets, list_content_stamps

if TYPE_CHECKING:
    from ..choosing.choosing import Choice, ChoicePlan

_EPILOG = """\b
Examples:
  zoo choose ./xrays --dry-run
  zoo choose ./xrays --time 30m --licence commercial --max-memory 8GB --page xrays.html
  zoo choose ./birds --encoders dino_vitS16,dinov2_vitS14,clip_vitB32 --device cuda --workers 8
  zoo choose digits --encoders pocket_simclr_rn_shapes,pocket_sup_rn_shapes --decompose
  zoo choose ./slides --domain pathology --encoders 6
  zoo choose ./leaves --task segment --licence commercial
"""


def _encoders(ctx: click.Context, parameter: click.Parameter, value: str) -> int | list[str]:
    """A number of encoders, or their names."""
    text = value.strip()
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or (text.isdecimal() and int(text) < 1):
        raise click.BadParameter(f"got {value!r}, expected a number such as 12, or names joined by commas.")
    return int(text) if text.isdecimal() else names


def _complete_encoders(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in complete_encoder_names(ctx, parameter, last)]


@click.command("choose", cls=FoldedCommand, epilog=f"{IMAGES_HELP}\n\n{_EPILOG}")
@click.argument("images", metavar="IMAGES", callback=require_images_exist)
@click.option(
    "--encoders",
    default="12",
    show_default=True,
    metavar="N|NAME,...",
    callback=_encoders,
    shell_complete=_complete_encoders,
    help="How many to try, chosen by what is known of them; or which.",
)
@click.option(
    "--task",
    type=click.Choice(["classify", "segment"]),
    default="classify",
    show_default=True,
    help="What is learned of the images: their labels, or masks (see zoo segment).",
)
@(lambda command: add_options(command, KIND_OF_IMAGES))
@click.option(
    "--time",
    "time_s",
    metavar="TIME",
    default="1h",
    show_default=True,
    callback=parse_duration,
    help="When to be done, such as 30m or 2h; none: as long as it needs.",
)
@(lambda command: add_options(command, LIMITS))
@dry_run_option
@click.option("--decompose", is_flag=True, help="Also the components of the error of the best (Algorithm 1).")
@(lambda command: add_options(command, PAGE_OPTIONS))
@click.option("--offline", is_flag=True, help="Only encoders whose weights are on this machine.")
@PROTOCOL_OPTION
@make_seed_option("Of the order of images.")
@(lambda command: add_options(command, [*DATA_OPTIONS, *RUN_OPTIONS, BACKEND_OPTION]))
@click.option(
    "--to",
    "--out",
    "root",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where features and measured speeds are kept; what 'zoo features --to DIR' computed is read from there.  "
    "[default: in the cache]",
)
@add_json_option
def choose_command(
    images: str,
    encoders: int | list[str],
    task: str,
    like: str | None,
    domain: str | None,
    time_s: float | None,
    dry_run: bool,
    decompose: bool,
    page: Path | None,
    hides_images: bool,
    offline: bool,
    protocol: str,
    seed: int,
    batch_size: int,
    n_workers: int,
    backend: str,
    device: str | None,
    root: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the encoder for your labelled images.

    A shortlist races on your images (successive halving): clearly worse encoders are dropped on few images, the others
    are probed on all labels and compared image by image. The answer is a ranking with confidence intervals and ties,
    the expected gain of more labels, the cost of each encoder on this device, and the next command. Features are kept:
    the same command goes on where it stopped, and other constraints cost only what is new. Nothing is added to your
    results; `zoo evaluate` does that.

    With --task segment the images have masks, and encoders race on how many pixels a linear head on their maps names
    wrongly; `zoo segment` reads the maps of the best and measures it.
    """
    has_masks = task == "segment"
    if has_masks:
        reject_unused_options(_NOT_OF_MASKS, "--task segment is of masks, by the probe of zoo segment")
    if dry_run:
        reject_unused_options(("decompose", "page"), "--dry-run measures nothing")
    require_page_at(page)
    limits = build_constraints(options, device=device, batch_size=batch_size)
    data = open_masks(images, options) if has_masks else open_labelled_images(images, options, takes_numbers=True)
    shared: dict[str, Any] = {
        "constraints": limits,
        "encoders": encoders,
        "like": like,
        "domain": domain,
        "time_s": time_s,
        "device": device,
        "seed": seed,
        "batch_size": batch_size,
        "n_workers": n_workers,
        "backend": backend,
        "root": root,
        "protocol": protocol,
        "offline": offline,
        "spelled": _spelled(images, options),
    }
    of_images = describe_images(data, has_intervals=False)[0]["images"]
    if dry_run:
        from ..choosing.choosing import plan_choice

        plan = plan_choice(data, **shared)
        if as_json:
            print_json({"dry_run": True, **plan.as_dict(), "images": of_images})
        else:
            _print_plan(plan)
        return
    asked = {"verb": "choose", "options": shared, "decompose": decompose, "content": list_content_stamps()}
    asked |= {"images": describe_image_sets(data), "folders": [str(get_user_folder()), str(root)]}
    place = StoredAnswer(root or get_evaluations_folder(), asked)
    answer = place.find() if page is None and not offline else None
    choice = None
    if answer is None:
        from ..choosing.choosing import choose
        from ..progress import ProgressBar

        choice = choose(
            data,
            **shared,
            decompose=decompose,
            mistakes=page is not None,
            progress=lambda part: ProgressBar("images"),
            tell=log_progress,
        )
        answer = {"document": choice.as_dict(), "shown": _build_shown(choice)}
        if page is None and _is_final(choice):
            place.store(answer)
    else:
        log_progress("as it was chosen before")
    if not as_json:
        _print(answer["shown"])
        sys.stdout.flush()
    if page is not None and choice is not None:
        from ..choosing.wording import write_page
        from ..datasets import ImageData

        write_page(choice, page, images=None if hides_images or not isinstance(data, ImageData) else data)
    if as_json:
        print_json({**answer["document"], "page": None if page is None else str(page), "images": of_images})
    elif page is not None:
        click.echo(f"page: {page}", err=not sys.stdout.isatty())


_NOT_OF_MASKS = sorted(
    {"decompose", "protocol", "backend", "hides_images", *IMAGE_OPTIONS} - {*MASK_OPTIONS, *SPLIT_OPTIONS, "dataset"}
)


def _spelled(images: str, options: Mapping[str, Any]) -> str:
    """How the next command names the images: with the options of the source that were given."""
    words = [images]
    for name, text in get_given_options().items():
        if name in options:
            value = options[name]
            words.append(text.partition(" ")[0])
            if isinstance(value, tuple | list):
                words.append(",".join(f"{one:g}" if isinstance(one, float) else str(one) for one in value))
            elif value is not True:  # no flag
                words.append(str(value))
    return shlex.join(words)


_FEW = 3  # encoders that were dropped and are named, with the reason, unasked


def _is_final(choice: Choice) -> bool:
    """Whether the race would end alike once more: nobody failed, and the time cut nothing off."""
    from ..choosing.choosing import N_CURVES

    standings = choice.race.standings
    reasons = [one.reason for one in standings if one.reason]
    has_all = choice.race.leader.n_train == choice.data.n_train
    n_curves = 0 if choice.data.has_masks else min(N_CURVES, sum(one.status == "probed" for one in standings))
    has_curves = len(choice.curves) == n_curves
    return has_all and has_curves and all(reason.endswith("beyond doubt") for reason in reasons)


def _build_shown(choice: Choice) -> dict[str, Any]:
    """What a terminal shows of a choice, for JSON."""
    from ..choosing import wording

    warnings = [*choice.plan.data.notes, *choice.notes]
    parts = [] if choice.risk is None else choice.risk.build_tables(has_sum=False)
    return {
        "tables": [one.as_texts() for one in choice.build_tables()],
        "parts": [one.as_texts() for one in parts],
        "doubts": list_risk_doubts(choice.risk),
        "dropped": wording.describe_dropped(choice),
        "warnings": warnings,
        "reading": [line for line in wording.explain_numbers(choice) if line not in warnings],
        "commands": choice.commands,
        "next": "mIoU and each class" if choice.data.has_masks else "all label settings, and a probe that is kept",
    }


def _print(shown: Mapping[str, Any]) -> None:
    print_answer(*map(read_table, shown["tables"]))
    if shown["parts"]:
        print_answer(*map(read_table, shown["parts"]), notes=shown["doubts"])
    dropped, warnings, reading = shown["dropped"], shown["warnings"], shown["reading"]
    if len(dropped) > _FEW:
        encoders = format_count(len(dropped), "encoder")
        warnings = [*warnings, *[f"{encoders} dropped from the race; --verbose says why"] * (not is_verbose())]
    else:
        warnings, dropped = [*warnings, *dropped], []
    print_notes(warnings, [*dropped, *reading])
    print_command("in Python", shown["commands"]["load"])
    print_command(shown["next"], shown["commands"]["evaluate"])


def _print_plan(plan: ChoicePlan) -> None:
    from ..choosing import wording

    why = [wrap_indented(f"{one.name}: {one.why}") for one in plan.encoders]
    more = [*why, *wording.describe_left_out(plan.left_out)]
    print_answer(wording.build_plan_table(plan), notes=plan.notes, more=more)
