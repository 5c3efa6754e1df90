#!/bin/sh
# Guess: timm's checkpoint_filter_fn makes a new state dict of an old one; the network that it was taken from stays as it
# was, so that the two can be compared, and a second conversion gives what the first gave.
#
# Behaviour (timm 1.0.31): of a ViT with a class token, naflexvit's filter adds the class token's position to the class token in
# place (NaFlexVit has no position for it). model.state_dict() shares memory with the model, whose class token then has its
# position twice: the copy is right, the original is not, without an error. A check of equality fails and blames the copy;
# a second conversion of the same weights gives a copy that is wrong like the original. Networks without a class token (SigLIP)
# are not changed, nor is a state_dict that create_model takes from pretrained_cfg_overlay.
# Output seen, relative difference of features from the original's at first: first copy 0.0, original after it 0.2328,
# second copy 0.2328, original after that 0.3986; SigLIP 0.0 each.
# Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet timm==1.0.31 torch==2.15.0 torchvision==0.29.2 numpy==2.4.6
HF_HUB_OFFLINE=1 "$work/venv/bin/python" - <<'PY'
import timm
import torch
from timm.models.naflexvit import checkpoint_filter_fn


@torch.no_grad()
def compare(name):
    torch.manual_seed(0)
    images = torch.randn(2, 3, 224, 224)
    original = timm.create_model(name, num_classes=0, depth=2).eval()
    before = original(images)
    apart = []
    for _ in range(2):
        copy = timm.create_model(name, num_classes=0, depth=2, use_naflex=True).eval()
        copy.load_state_dict(checkpoint_filter_fn(original.state_dict(), copy))  # strict: all names fit
        apart += [round(float((model(images) - before).norm() / before.norm()), 4) for model in (copy, original)]
    return apart


found = {name: compare(name) for name in ("vit_tiny_patch16_224", "vit_base_patch16_siglip_224")}
print(found)
assert found["vit_base_patch16_siglip_224"] == [0, 0, 0, 0], found
first, after, second, later = found["vit_tiny_patch16_224"]
assert first < 1e-3 and second > 0.1 and later > after > 0.1, found
PY
