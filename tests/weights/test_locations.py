"""Places: every form that a card may use, resolved; everything else refused in one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.each import for_each
from zoo.cards.catalogue import load_catalogue
from zoo.errors import QueryError, WeightsRefused
from zoo.weights.locations import ExpectedFile, format_location, parse_hash_in_address, resolve_source

CLIP = "3035c92b350959924f9f00213499208652fc7ea050643e8b385c2dac08641f02"


def published_places() -> list[str]:
    places = set()
    for card in load_catalogue().values():
        weights = card.weights
        places |= {place for place in (weights.url, *weights.mirrors, *weights.companions) if isinstance(place, str)}
    return sorted(places)


@for_each(published_places())
def test_every_published_place_is_resolved(place: str) -> None:
    found = resolve_source(place)
    assert found.place == place
    assert found.filenames
    assert all(found.filenames)
    assert {"http": found.url, "hub": found.repository, "path": found.path}[found.kind]
    if found.kind == "http":
        assert str(found.url).startswith("https://")
        assert " " not in str(found.url)


DRIVE = "https://drive.usercontent.google.com/download?id=1K76a-YnFYcmDXUZ_UlYVYFrWOt2a6733&export=download&confirm=t"
ADDRESSES = {
    "HTTPS://host.org/a folder/Größe.pth?dl=1#part": "https://host.org/a%20folder/Gr%C3%B6%C3%9Fe.pth?dl=1",
    "https://host.org/a%20b/c%2B.pth": "https://host.org/a%20b/c%2B.pth",
    "https://drive.google.com/uc?export=download&id=1K76a-YnFYcmDXUZ_UlYVYFrWOt2a6733": DRIVE,
    "https://drive.google.com/file/d/1K76a-YnFYcmDXUZ_UlYVYFrWOt2a6733/view?usp=sharing": DRIVE,
    "https://drive.google.com/open?id=1K76a-YnFYcmDXUZ_UlYVYFrWOt2a6733": DRIVE,
    "torchvision:ResNet50_Weights.IMAGENET1K_V1": "https://download.pytorch.org/models/resnet50-0676ba61.pth",
}
ON_THE_HUB = {
    "hf:own/er/model.pth": ("own/er", None, ("model.pth",)),
    "hf:own/er/a b/c d.pth": ("own/er", None, ("a b/c d.pth",)),
    "hf:own/er@v1.0/model.pth": ("own/er", "v1.0", ("model.pth",)),
    "hf:own/er@refs%2Fpr%2F1/model.pth": ("own/er", "refs/pr/1", ("model.pth",)),
    "timm:vit_base_patch32_clip_quickgelu_224.openai": (
        "timm/vit_base_patch32_clip_224.openai",
        None,
        ("model.safetensors", "pytorch_model.bin"),
    ),
}
PATHS = {
    "weights.pth": "weights.pth",
    "./a:b.pth": "a:b.pth",
    "~/w.pth": "/home/user/w.pth",
    "file:///data/my%20weights.pth": "/data/my weights.pth",
    "file://localhost/data/w.pth": "/data/w.pth",
    "[1].pth": "[1].pth",
}


def test_every_form_of_a_place_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/user")
    for place, url in ADDRESSES.items():
        assert (resolve_source(place).kind, resolve_source(place).url) == ("http", url)
    assert resolve_source("https://host.org/a%20b/c%2B.pth").filenames == ("c+.pth",)
    assert resolve_source("torchvision:ResNet50_Weights.IMAGENET1K_V1").sha256_prefix == "0676ba61"
    for place, expected in ON_THE_HUB.items():
        found = resolve_source(place)
        assert found.kind == "hub"
        assert (found.repository, found.revision, found.filenames) == expected
    usual = resolve_source("hf:own/er@v1").filenames  # the safe ones first
    assert [name.endswith(".safetensors") for name in usual] == [True, True, True, False, False]
    for place, path in PATHS.items():
        found = resolve_source(place)
        assert (found.kind, found.path, found.sha256_prefix) == ("path", Path(path), ""), place
    assert resolve_source("/data/resnet50-0676ba61.pth").sha256_prefix == ""  # a user's name promises nothing


HASHES = {
    "/models/resnet50-0676ba61.pth": "0676ba61",
    "/models/wide_resnet50_2-95faca4d.pth.tar": "95faca4d",
    "/mmselfsup/densecl_resnet50_8xb32-coslr-200e_in1k_20220225-8c7808fe.pth": "8c7808fe",
    "/mmselfsup/relative-loc_resnet50_8xb64-steplr-70e_in1k_20220225-84784688.pth": "84784688",
    f"/clip/models/{CLIP}/ViT-L-14-336px.pt": CLIP,
    f"/a/name-{CLIP}.pt": CLIP,
    "/models/name-20220225.pth": "",  # a date
    "/models/name-20220225123000.pth": "",  # a moment
    "/models/name-1646000000.pth": "",
    "/models/r-50-1000ep.pth.tar": "",
    "/models/name-0676ba6.pth": "",  # seven digits: a commit
    "/models/name-0676BA61.pth": "",
    "/models/name-0676ba61x.pth": "",
    "/vissl/simclr_rn50_16_07_20.afe428c7/model_final_checkpoint_phase999.torch": "",
    "/models/lr_0.001-aug_medium1.npz": "",
    "/dissl_resnet50_d8192_e100_m2.torch": "",
}
NO_PLACES = {
    "s3://bucket/w.pth": "unknown scheme 's3'",
    "https:///w.pth": "names no host",
    "https://host.org": "names no file",
    "https://host.org/folder/": "names no file",
    "https://host.org:port/w.pth": "cannot be read",
    "https://[host/w.pth": "cannot be read",
    "https://host.org/\udcff.pth": "cannot be read",
    "https://user:secret@host.org/w.pth": "user name or password",
    "hf:owner": "expected hf:owner/repository",
    "hf:own/er/../../etc": "expected hf:owner/repository",
    "timm:resnet50": "expected timm:NAME.TAG",
    "timm:resnet50.tv_in1l": "resnet50.tv_in1k",
    "torchvision:ResNet50_Weights.NONE": "expected torchvision:ENUM.MEMBER",
    "torchvision:nothing.V1": "expected torchvision:ENUM.MEMBER",
    "torchvision:resnet50.V1": "expected torchvision:ENUM.MEMBER",
    "file://host/w.pth": "no file of this machine",
    "file:": "no file of this machine",
    "": "not the path of a file",
    "a\0b": "not the path of a file",
    "~nobody-of-that-name/w.pth": "unknown home folder",
}


def test_hashes_are_found_in_names_and_what_is_no_place_is_refused_in_one_sentence() -> None:
    assert {path: parse_hash_in_address(path) for path in HASHES} == HASHES
    for place, says in NO_PLACES.items():
        with pytest.raises(QueryError) as caught:
            resolve_source(place)
        message = str(caught.value)
        assert says in message
        assert "secret" not in message
        assert message.endswith(".")
        assert "\n" not in message


def test_a_place_is_shown_without_keys() -> None:
    assert (
        format_location("https://host/w.pth?id=1&dl=1&X-Amz-Signature=secret&token=secret")
        == "https://host/w.pth?id=1&dl=1"
    )
    assert format_location("https://user:secret@host/w.pth#x") == "https://host/w.pth"
    assert format_location("hf:own/er") == "hf:own/er"


def test_a_hash_known_in_full_decides_alone_and_otherwise_what_the_name_says() -> None:
    right, size = "0676ba61" + "a" * 56, 10
    named = ExpectedFile(place="p", sha256="", sha256_prefix="0676ba61", size_bytes=None)
    named.check(right, size)
    with pytest.raises(WeightsRefused, match="begins with 0676ba61"):
        named.check("b" * 64, size)
    known = ExpectedFile(place="p", sha256="b" * 64, sha256_prefix="0676ba61", size_bytes=10)
    known.check("b" * 64, size)
    with pytest.raises(WeightsRefused, match=r"a{8}.* \(10 bytes\), expected b{64} \(10 bytes\)"):
        known.check(right, size)
    with pytest.raises(WeightsRefused, match=r"\(9 bytes\), expected .* \(10 bytes\)"):
        known.check("b" * 64, 9)


def test_resolving_an_address_needs_neither_torch_nor_timm() -> None:
    script = (
        "import sys; from zoo.weights.locations import resolve_source; from zoo.weights.download import fetch; "
        "resolve_source('https://host/w.pth'), resolve_source('hf:own/er'), resolve_source('w.pth'); "
        "print(sorted({'torch', 'timm', 'torchvision', 'huggingface_hub', 'tqdm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
