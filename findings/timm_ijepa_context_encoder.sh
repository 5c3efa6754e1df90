#!/bin/sh
# Guess: timm's *_ijepa weights are I-JEPA's target encoder, the averaged copy that its paper evaluates, as timm's weights
# of other teachers and students are the teacher's; a file that holds two encoders is refused, or the choice is said.
#
# Behaviour (timm 1.0.31): of a file as the authors' training script writes it, with "encoder" and "target_encoder", timm
# takes "encoder", the context encoder, which in training sees parts of images alone. That is what pretrained=True does with
# the released files, which have both and have no copy at timm's place on the Hub. No warning. A linear probe of these
# features is not one of the paper's network, and is close enough to it not to be noticed.
# Output seen: {'encoder': True, 'target_encoder': False}. Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet timm==1.0.31 torch==2.15.0 torchvision==0.29.2 numpy==2.4.6
HF_HUB_OFFLINE=1 "$work/venv/bin/python" - "$work/ijepa.pth.tar" <<'PY'
import sys

import timm
import torch

arch = "vit_huge_patch14_gap_224.in1k_ijepa"
small = {"embed_dim": 32, "depth": 2, "num_heads": 2, "num_classes": 0}


def make_encoder(seed):
    torch.manual_seed(seed)
    network = timm.create_model(arch, pretrained=False, **small).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return network


encoders = {"encoder": make_encoder(0), "target_encoder": make_encoder(1)}
content = {
    name: {f"module.{key}": tensor for key, tensor in network.state_dict().items()} for name, network in encoders.items()
}
about = {"predictor": {}, "opt": {}, "scaler": None, "epoch": 300, "loss": 0.1, "batch_size": 128, "world_size": 16, "lr": 1e-3}
torch.save(content | about, sys.argv[1])
loaded = timm.create_model(arch, pretrained=True, pretrained_cfg_overlay={"file": sys.argv[1]}, **small).eval()
images = torch.randn(2, 3, 224, 224)
with torch.no_grad():
    is_same = {name: torch.equal(loaded(images), network(images)) for name, network in encoders.items()}
print(is_same)
assert is_same == {"encoder": True, "target_encoder": False}, is_same
PY
