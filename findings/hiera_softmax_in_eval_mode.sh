#!/bin/sh
# Guess: a fine-tuned Hiera of its authors' package gives logits in eval mode, as the same network of timm and transformers
# does, and as it does itself in training mode.
#
# Behaviour (hiera-transformer 0.1.4, timm 1.0.31): in eval mode, and only there, its head ends with a softmax. Accuracy is
# the same; every measure of confidence is not. With the softmax that cross_entropy, a calibration error or an ensemble's mean
# of logits brings along, a network that is certain and right has a loss of 6.0 for 0.0 and a confidence of 0.003 for 1.0 of
# 1,000 classes.
# Output seen: rows sum to 1, a loss of 5.91 and a confidence of 0.003; timm's of the same weights, and its own in training
# mode, 0.0 and 0.998; all four classes are right in each. Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet hiera-transformer==0.1.4 timm==1.0.31 torch==2.15.0 torchvision==0.29.2 numpy==2.4.6
HF_HUB_OFFLINE=1 "$work/venv/bin/python" -W ignore - <<'PY'
import timm
import torch
from hiera import hiera_tiny_224
from timm.models.hiera import checkpoint_filter_fn
from torch.nn.functional import cross_entropy

torch.manual_seed(0)
theirs = hiera_tiny_224(pretrained=False).eval()
theirs.head.projection.weight.data.normal_(std=2)  # certain of its classes, as a trained one is
same = timm.create_model("hiera_tiny_224").eval()
same.load_state_dict(checkpoint_filter_fn(theirs.state_dict()))
images = torch.randn(4, 3, 224, 224)
with torch.no_grad():
    found = {"authors": theirs(images), "timm": same(images), "training": theirs.train()(images)}
labels = found["timm"].argmax(dim=1)
loss = {name: round(float(cross_entropy(outputs, labels)), 2) for name, outputs in found.items()}
sure = {name: round(float(outputs.softmax(dim=1).amax(dim=1).mean()), 3) for name, outputs in found.items()}
right = {name: int((outputs.argmax(dim=1) == labels).sum()) for name, outputs in found.items()}
print(found["authors"].sum(dim=1), loss, sure, right)
assert right == {"authors": 4, "timm": 4, "training": 4}
assert torch.allclose(found["authors"].sum(dim=1), torch.ones(4))
assert torch.allclose(found["training"], found["timm"], atol=1e-2)
assert loss["timm"] < 0.2 and sure["timm"] > 0.9
assert loss["authors"] > 5.5 and sure["authors"] < 0.004
PY
