#!/bin/sh
# Guess: LoRA reaches every linear layer that LoraConfig names; where it cannot, get_peft_model raises an error.
#
# Behaviour (peft 0.21.2, torch 2.15.0, timm 1.0.31, open_clip_torch 3.3.0): the layer is wrapped, counted as trainable and
# saved, but a forward pass that reads the layer's weight, and does not call the layer, never meets it. So do the qkv of
# timm's BEiT (and EVA), and out_proj of torch's nn.MultiheadAttention, of which OpenCLIP's towers are made: "all-linear",
# or qkv, proj, fc1, fc2 by name, train what is left, without an error or a warning. On timm's ViT the same names are reached.
# "all-linear" spares the classifier of transformers' models; the one of timm's networks is wrapped like the rest.
# Output seen, trainable tensors and those without a gradient, by layer: ViT qkv 4 0 and head 2 0; BEiT qkv 4 4 and the
# others 0; OpenCLIP out_proj 4 4 and c_fc, c_proj 0.
# Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet peft==0.21.2 torch==2.15.0 torchvision==0.29.2 timm==1.0.31 open_clip_torch==3.3.0 transformers==5.23.0 numpy==2.4.6
HF_HUB_OFFLINE=1 "$work/venv/bin/python" - <<'PY'
import warnings
from collections import Counter

import open_clip
import peft
import timm
import torch

torch.manual_seed(0)
images = torch.randn(2, 3, 64, 64)
small = {"img_size": 64, "patch_size": 16, "embed_dim": 32, "depth": 2, "num_heads": 4, "num_classes": 10}
networks = {
    "ViT": timm.models.VisionTransformer(**small),
    "BEiT": timm.models.Beit(**small),
    "OpenCLIP": open_clip.model.VisionTransformer(64, 16, 32, 2, 4, 4.0, output_dim=16),
}
found = {}
for name, network in networks.items():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        adapted = peft.get_peft_model(network, peft.LoraConfig(r=2, target_modules="all-linear"))
        adapted(images).square().sum().backward()
    trained, idle = Counter(), Counter()
    for path, tensor in adapted.named_parameters():
        if tensor.requires_grad:
            layer = path.partition(".lora_")[0].rpartition(".")[2]
            trained[layer] += 1
            idle[layer] += tensor.grad is None
    found[name] = {layer: (trained[layer], idle[layer]) for layer in sorted(trained)}
    print(name, found[name])
every = {layer: (4, 0) for layer in ("fc1", "fc2", "proj", "qkv")} | {"head": (2, 0)}
assert found["ViT"] == every, found
assert found["BEiT"] == every | {"qkv": (4, 4)}, found
assert found["OpenCLIP"] == {"c_fc": (4, 0), "c_proj": (4, 0), "out_proj": (4, 4)}, found
PY
