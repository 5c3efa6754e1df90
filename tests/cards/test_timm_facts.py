"""Facts of timm: what is derived from a configuration and a network without numbers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.each import for_each
from zoo.cards.timm_facts import read_timm_facts, resolve_timm_name
from zoo.errors import QueryError

SEEN = {  # family, coarse and exact name, patch, registers, native side, step, dimensions, layer
    "test_vit.r160_in1k": ("vit", "test_vit", "test_vit16 cls", 16, 0, 160, 16, 64, "cls"),
    "resnet10t.c3_in1k": ("resnet", "resnet10t", "resnet10t", None, None, None, 1, 512, "avgpool"),
    "vit_tiny_patch16_224.augreg_in21k": ("vit", "vitt", "vitt16 cls", 16, 0, 224, 16, 192, "cls"),
    "vit_small_patch16_dinov3.lvd1689m": ("vit", "vits", "vits16reg4 avg", 16, 4, None, 16, 384, "avg"),
    "deit_tiny_distilled_patch16_224.fb_in1k": ("vit", "vitt", "vitt16", 16, 0, 224, 16, 192, "pooled"),
    "convnextv2_atto.fcmae": ("convnext", "convnextv2a", "convnextv2a", None, None, None, 1, 320, "pooled"),
    "mobilenetv3_small_050.lamb_in1k": (
        "mobilenet", "mobilenetv3s", "mobilenetv3s", None, None, None, 1, 1024, "pooled",
    ),
    "vit_base_patch16_siglip_224.webli": ("vit", "vitb", "vitb16 attnpool", 16, 0, 224, 16, 768, "attnpool"),
}  # fmt: skip


@for_each(SEEN)
def test_facts_follow_from_the_network(name: str) -> None:
    facts = read_timm_facts(name)
    architecture, representation = facts["architecture"], facts["representation"]
    fields = ("family", "name", "exact", "patch_size_px", "n_registers", "native_px", "size_step_px")
    found: tuple[Any, ...] = tuple(architecture[field] for field in fields)
    expected = tuple("not applicable" if value is None else value for value in SEEN[name])
    assert (*found, representation["dim"], representation["layer"]) == expected
    assert facts["weights"]["url"] == f"timm:{name}"
    assert facts["weights"]["mirrors"] == [f"hf:timm/{name}"]


def test_the_scale_of_images_is_that_of_timms_own_transform() -> None:
    from timm.data import create_transform, resolve_data_config
    from timm.models import get_pretrained_cfg

    for name in ("vit_tiny_patch16_224.augreg_in21k", "resnet10t.c3_in1k", "test_vit.r160_in1k"):
        config = resolve_data_config(pretrained_cfg=get_pretrained_cfg(name).to_dict())
        resize, crop, *_ = create_transform(**config, is_training=False).transforms
        preprocess = read_timm_facts(name)["preprocess"]
        assert (preprocess["resize_px"], preprocess["crop_px"]) == (resize.size, crop.size[0])
        assert preprocess["interpolation"] == resize.interpolation.value


def test_names_are_found_without_case_and_without_their_tag() -> None:
    assert resolve_timm_name("ResNet10T") == resolve_timm_name("resnet10t.C3_in1k") == "resnet10t.c3_in1k"
    with pytest.raises(QueryError, match=r"has no weights 'resnet10x', expected ARCH.TAG, such as .*resnet10t.* or "):
        resolve_timm_name("resnet10x")
    with pytest.raises(QueryError, match=r"has no weights .*, expected ARCH.TAG, such as resnet10t.c3_in1k; correct"):
        resolve_timm_name("resnet10t.c4_in1k")
