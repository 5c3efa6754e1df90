#!/bin/sh
# Guess: lightly-train's embed and export of one checkpoint are one encoder: timm, with the exported weights, gives
# the features that embed has written, of images resized as timm does.
#
# Behaviour (lightly-train 0.18.0, timm 1.0.31): export writes timm's own names, and every one fits. timm's ViT then gives
# its class token; embed has written the mean of the patches behind the final norm, without the class token. Images are
# squashed to a square and normalised as ImageNet's by embed; timm's transform resizes the shorter side, crops, and takes 0.5
# as this network's mean. Nothing of it stands in the file of embeddings, which has as many columns as timm's features.
# Output seen, mean cosine with embed's of images twice as wide as high: squashed, mean of patches 1.000; squashed, class token
# 0.591; cropped, mean of patches 0.925; cropped, class token 0.563.
# Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet lightly-train==0.18.0 timm==1.0.31 torch==2.15.0 torchvision==0.29.2 numpy==2.4.6 pillow==13.0.0
cd "$work"
cat >program.py <<'PY'
from pathlib import Path

import lightly_train
import numpy as np
import timm
import torch
from PIL import Image
from torchvision.transforms import v2

NAME, SIDE = "vit_tiny_patch16_224", 64


def train_and_write(folder):
    for number in range(8):
        noise = np.random.default_rng(number).integers(0, 255, (6, 8, 3)).astype(np.uint8)
        Image.fromarray(noise).resize((160, 80)).save(folder / f"{number}.png")
    common = {"accelerator": "cpu", "precision": "32-true", "batch_size": 4, "num_workers": 0}
    lightly_train.pretrain(
        out="run",
        data=str(folder),
        model=f"timm/{NAME}",
        model_args={"img_size": SIDE},
        method="simclr",
        epochs=1,
        transform_args={"image_size": (SIDE, SIDE)},
        **common,
    )
    checkpoint = "run/checkpoints/last.ckpt"
    size = {"image_size": (SIDE, SIDE)}
    lightly_train.embed(out="embedded.pt", data=str(folder), checkpoint=checkpoint, format="torch", **size, **common)
    lightly_train.export(out="exported.pt", checkpoint=checkpoint, part="model", format="package_default")


if __name__ == "__main__":
    images = Path("images")
    images.mkdir()
    train_and_write(images)
    embedded = torch.load("embedded.pt")
    network = timm.create_model(NAME, img_size=SIDE).eval()
    network.load_state_dict(torch.load("exported.pt"))  # strict: all names fit
    network.reset_classifier(0)
    found = {}
    for kind, resize in (("squashed", [v2.Resize((SIDE, SIDE))]), ("cropped", [v2.Resize(SIDE), v2.CenterCrop(SIDE)])):
        imagenet = v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # embed's; timm says 0.5 of this network
        prepare = v2.Compose([*resize, v2.ToImage(), v2.ToDtype(torch.float32, scale=True), imagenet])
        pixels = torch.stack([prepare(Image.open(images / name).convert("RGB")) for name in embedded["filenames"]])
        with torch.no_grad():
            features = {"class token": network(pixels), "patches": network.forward_features(pixels)[:, 1:].mean(dim=1)}
        for pooling, values in features.items():
            found[f"{kind}, {pooling}"] = float(torch.cosine_similarity(values, embedded["embeddings"]).mean())
    print({name: round(cosine, 3) for name, cosine in found.items()})
    assert embedded["embeddings"].shape == features["class token"].shape
    assert found["squashed, patches"] > 0.999, found
    assert max(found["squashed, class token"], found["cropped, class token"]) < 0.8, found
    assert found["cropped, patches"] < 0.99, found
PY
CUDA_VISIBLE_DEVICES="" HF_HUB_OFFLINE=1 "$work/venv/bin/python" -P -W ignore program.py >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
tail -n 1 "$work/log"
