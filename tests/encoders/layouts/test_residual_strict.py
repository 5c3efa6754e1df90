"""Every kind of file of a ResNet gives its network, tensor by tensor, and one that is anything else is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.each import for_each
from tests.sources.residual import Source
from tests.sources.residual_files import SOURCES
from tests.sources.resnet_forward import SHAPES, Draw, State, resnet_tensors
from zoo.cards.catalogue import catalogue
from zoo.encoders import Encoder, build_encoder
from zoo.encoders.layouts import convert, fingerprints
from zoo.errors import WeightsRefused
from zoo.weights.checkpoints import read_checkpoint

WEIGHTS = resnet_tensors(SHAPES["resnet50 thin"], Draw())
WRAPPED = [source for source in SOURCES if source.prefix.startswith("module.")]
OF_MMSELFSUP = [source for source in SOURCES if source.layout == "mmselfsup"]
BY_SOURCE = for_each(SOURCES, name=lambda source: source.name)


def for_each_source_and(names: Iterable[str]) -> Callable[[Callable[..., None]], Any]:
    """All names with one source before the next, whose content is made once."""
    pairs = [(source, name) for source in SOURCES for name in names]
    return for_each(pairs, name=lambda pair: f"{pair[0].name}, {pair[1]}", arguments=2)


@cache
def encoder() -> Encoder:
    """A ResNet-50 with a channel for 64 inside its blocks, as it is before training."""
    card = catalogue()["simclr_rn50"]
    options = {"width_per_group": 1}
    return build_encoder(replace(card, architecture=replace(card.architecture, options=options)))


@lru_cache(maxsize=1)  # of 20 MB
def content_of(source: Source) -> Any:
    return source.content(WEIGHTS, Draw(seed=7))


def changed(content: Any, path: tuple[str, ...], change: Callable[[State], object]) -> Any:
    """The content with another state dict under ``path``; what is cached stays as it is."""
    if path:
        return content | {path[0]: changed(content[path[0]], path[1:], change)}
    state = dict(content)
    change(state)
    return state


def converted(source: Source, change: Callable[[State], object]) -> State:
    content = changed(content_of(source), source.path, change)
    return convert([content], encoder(), layout=source.layout, what="a file", untrained=lambda: fingerprints(encoder()))


@BY_SOURCE
def test_a_file_gives_the_network_that_it_was_written_from(source: Source, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pth"
    path.write_bytes(source.file(WEIGHTS))
    content = read_checkpoint(path, what="a file").content
    state = convert(
        [content], encoder(), layout=source.layout, what="a file", untrained=lambda: fingerprints(encoder())
    )
    assert state.keys() == encoder().state_dict().keys()
    for name, tensor in WEIGHTS.items():
        if not name.endswith("num_batches_tracked"):
            assert torch.equal(state[f"backbone.{name}"], tensor)


@for_each_source_and(["layer1.0.downsample.0.weight"])
def test_a_missing_tensor_is_named(source: Source, name: str) -> None:
    with pytest.raises(WeightsRefused, match=f"{name!r} is missing"):
        converted(source, lambda state: state.pop(f"{source.prefix}{name}"))


@BY_SOURCE
def test_a_tensor_that_the_network_does_not_have_is_named(source: Source) -> None:
    more = {f"{source.prefix}layer4.3.conv1.weight": torch.ones(8, 2048, 1, 1)}
    with pytest.raises(WeightsRefused, match=r"'layer4\.3\.conv1\.weight' is left over"):
        converted(source, lambda state: state.update(more))


@BY_SOURCE
def test_a_tensor_that_the_layout_does_not_declare_is_named(source: Source) -> None:
    with pytest.raises(WeightsRefused, match=r"'stranger\.weight'"):
        converted(source, lambda state: state.update({"stranger.weight": torch.ones(3)}))


def nan(tensor: Tensor) -> Tensor:
    wrong = tensor.clone()
    wrong.flatten()[-1] = torch.nan
    return wrong


CHANGES: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "another shape": (lambda tensor: tensor[:-1], r"'layer2\.0\.bn1\.weight' has shape \(1,\), expected \(2,\)"),
    "double precision": (Tensor.double, r"'layer2\.0\.bn1\.weight' is float64, expected float32"),
    "half precision": (Tensor.half, r"'layer2\.0\.bn1\.weight' is float16, expected float32"),
    "no number": (nan, r"'layer2\.0\.bn1\.weight' has 1 numbers of 2 that are not finite"),
    "as before training": (torch.ones_like, r"'layer2\.0\.bn1\.weight' is as it was before training"),
}


@for_each_source_and(CHANGES)
def test_a_tensor_that_is_not_of_the_trained_encoder_is_named(source: Source, change: str) -> None:
    wrong, message = CHANGES[change]
    name = "layer2.0.bn1.weight"
    with pytest.raises(WeightsRefused, match=message):
        converted(source, lambda state: state.update({f"{source.prefix}{name}": wrong(WEIGHTS[name])}))


@pytest.mark.parametrize(
    "content",
    [{}, {"weights": torch.ones(3)}, {"epoch": 100}, [torch.ones(3)], {"state_dict": {}}, {"model": None}, None],
    ids=repr,
)
@for_each(sorted({source.layout for source in SOURCES}))
def test_what_is_no_checkpoint_of_the_layout_is_refused(layout: str, content: Any) -> None:
    with pytest.raises(WeightsRefused, match=f"as files of the layout '{layout}' do"):
        convert([content], encoder(), layout=layout, what="a file", untrained=lambda: fingerprints(encoder()))


@for_each(WRAPPED, name=lambda source: source.name)
def test_processes_wrap_all_of_a_network_or_none_of_it(source: Source) -> None:
    full = f"{source.prefix}layer1.0.conv1.weight"
    with pytest.raises(WeightsRefused, match=r"expected names that start with 'module\.'"):
        converted(source, lambda state: state.update({full.removeprefix("module."): state.pop(full)}))


@for_each(OF_MMSELFSUP, name=lambda source: source.name)
def test_a_network_on_sobel_filtered_images_is_refused_for_its_first_layer(source: Source) -> None:
    sobel = {f"{source.prefix}conv1.weight": WEIGHTS["conv1.weight"][:, :2]}
    with pytest.raises(WeightsRefused, match="takes the 2 channels of a Sobel filter, expected the 3 channels"):
        converted(source, lambda state: state.update(sobel))
