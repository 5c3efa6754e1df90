"""``zoo check``: whether encoders still compute the features of their first load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from ..errors import MissingExtra, QueryError, ZooError
from ..metadata import EncoderCard
from .get import announce, chosen
from .options import encoder_names
from .output import NothingFound, entry, json_option, print_json, print_notes, print_table

if TYPE_CHECKING:
    from ..drift import Drift

State = Literal["same", "within rounding", "drifted", "recorded", "not checked"]
_EPILOG = """\b
Examples:
  zoo check dino_vitS16
  zoo check 'init_*' --device cuda --json
  zoo check dino_vitS16 --record
"""
_HASH_SHOWN = 12  # of 64 digits
_COLOURS = {"drifted": "red", "not checked": "red", "recorded": "yellow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What came of one encoder."""

    encoder: str
    state: State
    drift: Drift | None = None  # None if there was nothing to compare with
    is_recorded: bool = False  # these features are the recording from now on
    reason: str = ""  # why it could not be checked


@click.command("check", epilog=_EPILOG)
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=encoder_names)
@click.option("--device", default="cpu", show_default=True, help="Where the features are computed.")
@click.option("--record", is_flag=True, help="Put these features in place of those recorded, once they were compared.")
@json_option
def command(names: tuple[str, ...], device: str, record: bool, as_json: bool) -> None:
    """Compare features with those of the first load.

    Computes the features of four bundled images and holds them against those that were recorded when the weights were
    had for the first time: weights, preprocessing or libraries that have changed show in them. Where nothing was
    recorded yet, that is done now; --record accepts what is different. Untrained encoders are checked too, with their
    random weights of seed 0. NAME is an encoder or a glob such as 'dino_*'. Exit code 1 if any has drifted or could
    not be checked.
    """
    from ..drift import TOLERANCE

    cards = chosen(names, None)
    _require_device(device)
    checked = []
    for number, card in enumerate(cards, start=1):
        announce(number, len(cards), card.id)
        checked.append(_checked(card, device=device, record=record))
        if not as_json:
            _print(checked[-1])
    if as_json:
        print_json(_document(checked, tolerance=TOLERANCE))
    elif any(one.drift is not None and one.state != "same" for one in checked):
        print_notes([f"relative: length of the difference over that of the features; rounding is up to {TOLERANCE:g}"])
    _require_all_well(checked, record=record)


def _require_device(name: str) -> None:
    import torch

    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ModuleNotFoundError) as error:  # what torch raises depends on the device
        reason = str(error).partition("\n")[0].rstrip(".")
        raise QueryError(f"The device {name!r} cannot be used here ({reason}); use --device cpu.") from error
    if device.type == "meta":
        raise QueryError("The device 'meta' computes no numbers; use --device cpu.")


def _checked(card: EncoderCard, *, device: str, record: bool) -> Checked:
    import torch

    from ..drift import compare_features
    from ..encoders import build_encoder
    from ..loading import trained
    from ..preprocess import build_preprocess

    try:
        encoder, found = (build_encoder(card, device="cpu"), None) if card.is_untrained else trained(card)
        preprocess = build_preprocess(card.preprocess)
        drift = compare_features(card, found, encoder.to(device), preprocess, record=record)
    except MissingExtra:
        raise
    except ZooError as error:
        return Checked(encoder=card.id, state="not checked", reason=str(error))
    except torch.cuda.OutOfMemoryError as error:
        reason = f"{device} has too little memory for it ({str(error).partition('.')[0]}); use --device cpu."
        return Checked(encoder=card.id, state="not checked", reason=reason)
    state: State = "recorded" if drift is None else drift.verdict
    return Checked(encoder=card.id, state=state, drift=drift, is_recorded=record or drift is None)


def _print(one: Checked) -> None:
    drift = one.drift
    state = one.state if drift is None else f"{one.state}, recorded on {drift.day}"
    click.echo(click.style(one.encoder, bold=True) + ": " + click.style(state, fg=_COLOURS.get(one.state)))
    for line in entry("reason", one.reason) if one.reason else []:
        click.echo(line)
    if drift is None:
        return
    if drift.images and one.state != "same":
        headers = ["  image", "largest difference", "relative", "cosine"]
        rows = [
            [f"  {image.image}", f"{image.absolute:.2g}", f"{image.relative:.1e}", f"{image.cosine:.7f}"]
            for image in drift.images
        ]
        print_table(headers, rows, right=[1, 2, 3])
    for change in drift.changes:
        then, now = _differing(change.then, change.now)
        click.echo("\n".join(entry(f"{change.what} changed", f"{then} -> {now}")))
    if not drift.changes and one.state != "same":
        click.echo("  Weights, preprocessing, kind of machine and libraries are those of the recording.")
    if one.is_recorded:
        click.echo("  Recorded anew.")


def _differing(then: str, now: str) -> tuple[str, str]:
    """Two texts without the words at both ends in which they agree, hashes cut short.

    >>> _differing("Resize(size=256, interpolation=bilinear) RGB()", "Resize(size=256, interpolation=bicubic) RGB()")
    ('interpolation=bilinear)', 'interpolation=bicubic)')
    """
    before, after = ([word[:_HASH_SHOWN] if len(word) == 64 else word for word in text.split()] for text in (then, now))
    while len(before) > 1 and len(after) > 1 and before[0] == after[0]:
        before, after = before[1:], after[1:]
    while len(before) > 1 and len(after) > 1 and before[-1] == after[-1]:
        before, after = before[:-1], after[:-1]
    return " ".join(before), " ".join(after)


def _document(checked: Sequence[Checked], *, tolerance: float) -> dict[str, Any]:
    return {
        "tolerance": tolerance,
        "n_drifted": sum(one.state == "drifted" for one in checked),
        "n_not_checked": sum(one.state == "not checked" for one in checked),
        "encoders": [_record(one) for one in checked],
    }


def _record(one: Checked) -> dict[str, Any]:
    """What JSON says of one encoder; a difference that is not finite is null."""
    drift = one.drift
    images = [asdict(image) for image in drift.images] if drift else []
    return {
        "encoder": one.encoder,
        "state": one.state,
        "reason": one.reason or None,
        "compared_with": drift.day if drift else None,
        "is_recorded": one.is_recorded,
        "images": [
            {name: None if value in (math.inf, -math.inf) else value for name, value in image.items()}
            for image in images
        ],
        "changes": [asdict(change) for change in drift.changes] if drift else [],
    }


def _require_all_well(checked: Sequence[Checked], *, record: bool) -> None:
    """Refuses to end well if an encoder could not be checked, or has drifted and was not recorded anew."""
    bad = [one for one in checked if one.state == "not checked" or (one.state == "drifted" and not record)]
    if bad:
        raise NothingFound(f"{len(bad)} of {len(checked)}: {', '.join(f'{one.encoder} {one.state}' for one in bad)}.")
