"""``zoo layers``: which block, pooling and size of images of an encoder, as a heat map."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..cards.answers import AnswerColumn, AnswerTable, format_interval
from ..errors import format_count
from .measure_options import (
    BACKEND_OPTION,
    IMAGES_HELP,
    PROTOCOL_OPTION,
    add_image_options,
    build_featurising,
    describe_images,
    open_labelled_images,
    require_images_exist,
)
from .options import (
    FoldedCommand,
    complete_encoder_names,
    make_seed_option,
    parse_number_ranges,
    reject_unused_options,
)
from .output import (
    add_json_option,
    count_cells,
    get_terminal_width,
    log_progress,
    print_answer,
    print_command,
    print_json,
)

if TYPE_CHECKING:
    from ..evaluation.bootstrap import Interval
    from ..evaluation.layer_figure import LayerMap
    from ..evaluation.layers import LayersReport, LayerVariant

_SHADES = " ░▒▓█"
_N_LISTED = 5

_EXAMPLES = """\b
Examples:
  zoo layers pocket_simclr_vit_shapes digits
  zoo layers dino_vitS16 ./birds --resolutions 224,336 --n-images 2000 --figure birds
  zoo layers sup_rn50 ./birds --blocks 9..15 --device cuda --json
"""


@click.command("layers", cls=FoldedCommand, epilog=f"{IMAGES_HELP}\n\n{_EXAMPLES}")
@click.argument("name", metavar="ENC", shell_complete=complete_encoder_names)
@click.argument("images", metavar="IMAGES", callback=require_images_exist)
@partial(add_image_options, without=[BACKEND_OPTION])  # intermediate features are PyTorch's
@click.option(
    "--resolutions",
    metavar="PX,...",
    callback=parse_number_ranges,
    help="Sides of the images in addition to the card's.  [default: 0.75 and 1.5 times the card's]",
)
@click.option(
    "--blocks",
    metavar="N,...",
    callback=parse_number_ranges,
    help="Blocks from 0, ranges as 3..7.  [default: all]",
)
@click.option(
    "--n-images",
    "n_train",
    type=click.IntRange(2),
    default=5_000,
    show_default=True,
    help="Training images at most, in the proportions of their classes.",
)
@click.option("--n-test", type=click.IntRange(1), default=2_000, show_default=True, help="Test images at most.")
@click.option(
    "--probes",
    "n_probed",
    type=click.IntRange(0, 100),
    default=3,
    show_default=True,
    help="Variants in addition to the default that get the tuned probe of zoo evaluate.",
)
@PROTOCOL_OPTION
@make_seed_option("Of all draws.")
@click.option("--figure", metavar="FILE", type=click.Path(path_type=Path), help="Write FILE.png and FILE.svg.")
@click.option(
    "--out",
    "root",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where features and measured probes are kept.  [default: in the cache]",
)
@add_json_option
def layers_command(
    name: str,
    images: str,
    resolutions: tuple[int, ...] | None,
    blocks: tuple[int, ...] | None,
    n_train: int,
    n_test: int,
    n_probed: int,
    protocol: str,
    seed: int,
    figure: Path | None,
    root: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the block, pooling and image size that suit yours.

    The choice is by the leave-one-out error of ridge probes on the training images, for each block, pooling and size.
    The gain over the card's features is measured on test images, which chose nothing; the gain on the training images
    is optimistic (selection), and both are printed.
    """
    from ..evaluation.layers import measure_layers
    from ..progress import ProgressBar

    data = open_labelled_images(images, options, takes_numbers=True)
    if data.train.target:
        reject_unused_options(
            ("n_probed", "protocol"), f"{data.name!r} has numbers for labels, and ridge regression to them"
        )
    report = measure_layers(
        name,
        data,
        resolutions=resolutions,
        blocks=blocks,
        n_train=n_train,
        n_test=n_test,
        n_probed=n_probed,
        protocol=protocol,
        seed=seed,
        root=root,
        how=build_featurising(options),
        progress=lambda label: ProgressBar("images"),
        tell=log_progress,
    )
    figures = [] if figure is None else _written(report, figure)
    of_images, notes = describe_images(data, has_intervals=False)
    if as_json:
        print_json(report.as_dict() | of_images | {"figures": list(map(str, figures))})
        return
    _print_map(report)
    how_to_read = [
        "> chosen, * the card's features, = statistically tied; darker is better: "
        + _OF_MAP.format(error=report.error_words, judged=report.judged)
        + f"; tuned probe: {report.protocol} on the test images" * (not report.target)
    ]
    written = [f"Written: {path}" for path in figures]
    more = [*_details(report), *how_to_read]
    print_answer(_build_table(report), notes=[*written, *report.notes, *notes], more=more)
    print_command("load it", report.chosen.command)


def _written(report: LayersReport, path: Path) -> list[Path]:
    from ..evaluation.drawing import save, use_style
    from ..evaluation.layer_figure import make_layer_figure

    with use_style():
        target = path.with_suffix("") if path.suffix.lower() in (".png", ".svg") else path
        return save(make_layer_figure(report).draw(), target)


def _print_map(report: LayersReport) -> None:
    from ..evaluation.layer_figure import build_layer_map

    where = f"{report.n_train:,} training and {format_count(report.n_test, 'test image')} of {report.dataset}"
    click.echo(f"\n{click.style(report.encoder, bold=True)} on {where}\n")
    click.echo("\n".join(_map_lines(report, build_layer_map(report))))
    click.echo()


def _map_lines(report: LayersReport, grid: LayerMap) -> list[str]:
    """The heat map; sizes of images below each other if they do not fit side by side."""
    lines = _table_lines(report, grid)
    if max(map(count_cells, lines)) <= get_terminal_width():
        return lines
    sizes = list(dict.fromkeys(px for px, _ in grid.columns))
    return [line for px in sizes for line in [*_table_lines(report, grid.of_size(px)), ""]][:-1]


def _table_lines(report: LayersReport, grid: LayerMap) -> list[str]:
    from ..evaluation.layer_figure import compute_fifths

    dark = compute_fifths(report)
    room = {column: max(9, len(column[1]) + 1) for column in grid.columns}
    label = max(5, *(len(row) for row in grid.rows))
    before = " " * (label + 7)
    above, names, last = before, f"{'block':>{label}} {'cost':>5} ", None
    for column in grid.columns:
        gap = "  " if column[0] != last else " "
        above += (gap + (f"{column[0]} px" if column[0] != last else "")).ljust(room[column] + len(gap))
        names += gap + f"{column[1]:<{room[column]}}"
        last = column[0]
    lines = [click.style(above.rstrip(), bold=True), click.style(names.rstrip(), bold=True)]
    for row in grid.rows:
        line, last = f"{row:>{label}} {grid.shares[row]:>4.0f}% ", None
        for column in grid.columns:
            number = grid.cells.get((row, column))
            gap = "  " if column[0] != last else " "
            cell = "" if number is None else _cell(report, number, _SHADES[dark[number]])
            line, last = line + gap + cell.ljust(room[column]), column[0]
        lines.append(line.rstrip())
    return lines


def _cell(report: LayersReport, number: int, shade: str) -> str:
    marks = (">" if number == report.choice.chosen else "=" if report.choice.tied[number] else " ") + (
        "*" if number == report.default else ""
    )
    return f"{shade * 2}{report.variants[number].train_error.value:5.1f}{marks}"


_OF_MAP = (
    "{error} of ridge probes in percent, each training image {judged} from all others, shaded by fifths of all "
    "variants; cost: share of the network's operations up to there; left out and test: ridge probes; ms an "
    "image, decoding apart"
)


def _listed(report: LayersReport) -> list[int]:
    """The chosen variant, those with the next fewest errors left out, the cheapest of a tie and the default."""
    order = sorted(range(len(report.variants)), key=lambda one: report.variants[one].train_error.value)
    probed = [one for one in order if report.variants[one].probe_error is not None]
    first = [report.choice.chosen, *order[:_N_LISTED], *probed, report.choice.cheapest, report.default]
    return list(dict.fromkeys(first))


def _build_table(report: LayersReport) -> AnswerTable:
    """A row per variant of :func:`_listed`, and what was found in sentences."""
    numbers, choice = _listed(report), report.choice
    some = [report.variants[number] for number in numbers]
    called = {report.default: "card", choice.cheapest: "cheapest of the tie"}
    called |= {choice.chosen: "chosen" + ", card" * (choice.chosen == report.default)}
    behind = [
        "" if number == choice.chosen else f"{one.behind.value:+.1f}{'=' if choice.tied[number] else ''}"
        for number, one in zip(numbers, some, strict=True)
    ]
    columns = [
        AnswerColumn("features", ["".join(one.name.partition("@")[1:]) or "card" for one in some]),
        AnswerColumn("px", [one.px for one in some], form=str),
        AnswerColumn("dim", [one.dim for one in some], spare=5),
        AnswerColumn("GFLOPs", [one.gflops for one in some], form="{:.3g}".format, spare=3),
        AnswerColumn("ms", [1000 * one.seconds for one in some], form="{:.3g}".format, spare=4),
        AnswerColumn("left out %", [one.train_error for one in some], form=format_interval, has_numbers=True, spare=2),
        AnswerColumn("test %", [one.test_error for one in some], form=format_interval, has_numbers=True),
        AnswerColumn("behind", behind, has_numbers=True),
        AnswerColumn("tuned probe %", [one.probe_error for one in some], form=format_interval, has_numbers=True),
        AnswerColumn("", [called.get(number, "") for number in numbers]),
    ]
    return AnswerTable(columns=columns, answer=describe_layers(report))


def _points(found: Interval) -> str:
    assert found.ci_low is not None and found.ci_high is not None
    return f"{found.value:+.1f} points (95 %: {found.ci_low:+.1f} to {found.ci_high:+.1f})"


def describe_layers(report: LayersReport) -> list[str]:
    """What was found, in sentences."""
    choice, chosen, default = report.choice, report.chosen, report.variants[report.default]
    shown = [report.variants[one] for one in dict.fromkeys((choice.chosen, report.default))]
    r2 = ", ".join(f"{1 - one.test_error.value / 100:.2f} ({_named(one)})" for one in shown)
    of_numbers = [f"R2 on test images: {r2}."] * bool(report.target)
    if choice.chosen == report.default:
        chosen_words = f"Of {len(report.variants)} variants, the features of the card at {default.px} px are chosen."
        return [*of_numbers, chosen_words]
    p = "" if choice.p_value is None else f" (paired test, p = {choice.p_value:.2g})"
    tied = "statistically tied with" if report.is_default_tied else "statistically different from"
    return [
        *of_numbers,
        f"Expected on new images: {_points(choice.nested)} of {report.error_words} by {_named(chosen)} in place of the "
        f"card's features, on {report.n_test:,} test images.",
        f"The card's features are {tied} the chosen ones on the test images{p}.",
    ]


def _details(report: LayersReport) -> list[str]:
    """Notes on selection bias, tuned probes and cheaper variants."""
    choice, chosen, n, said = report.choice, report.chosen, len(report.variants), []
    if choice.chosen != report.default:
        said.append(
            f"the {format_count(report.n_train, 'training image')} that chose among {n} show {_points(choice.naive)}, "
            "which is optimistic (selection)"
        )
        if report.probe_nested is not None:
            said.append(
                f"with tuned probes in place of ridge: {_points(report.probe_nested)}; choosing the best on the "
                f"test images would show {_points(report.probe_naive or report.probe_nested)}"
            )
    better = [i for i in range(len(choice.p_values)) if not choice.tied[i] and choice.behind[i].value < 0]
    if better:
        said.append(
            f"{len(better)} of {n} variants have significantly lower {report.error_words} than the chosen one on the "
            "test images; they were not chosen, and the best of them is optimistic (selection)"
        )
    if choice.cheapest not in (choice.chosen, report.default):
        cheap = report.variants[choice.cheapest]
        said.append(
            f"cheapest variant statistically tied with the chosen one: {_named(cheap)}, "
            f"{100 * cheap.gflops / chosen.gflops:.0f} % of its operations, on test images {_points(cheap.behind)}: "
            f"{cheap.command}"
        )
    return said


def _named(one: LayerVariant) -> str:
    return f"{one.name} at {one.px} px"
