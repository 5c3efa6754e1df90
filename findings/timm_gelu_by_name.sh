#!/bin/sh
# Guess: timm's name of an architecture with OpenAI's or Google's tag is the network that was trained: the GELU of CLIP
# (quick) under every name that has the tag openai, and one GELU for all sizes of SigLIP, that of its authors (tanh).
#
# Behaviour (timm 1.0.31): vit_base_patch16_clip_224.openai has the exact GELU, and only vit_base_patch16_clip_quickgelu_224.openai
# that of the training; both are pretrained tags without a warning. SigLIP and SigLIP 2 have the exact GELU at B/16, at L/16 of
# 256 and 384 px and at SO400M/14, and the approximation by tanh at L/16 of 512 px, SO400M/16, giant-opt and NaFlex, while the
# authors' code and transformers have tanh everywhere. So features of two sizes, or of two libraries, are of two functions.
# Output seen (random weights, 4 blocks): 3.4e-03 GELU GELU GELUTanh GELU QuickGELU: CLIP's features apart by name; L/16 of 256, 384, 512 px.
# Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet timm==1.0.31 torch==2.15.0 torchvision==0.29.2 numpy==2.4.6
HF_HUB_OFFLINE=1 "$work/venv/bin/python" - <<'PY'
import timm
import torch

names = ("vit_base_patch16_clip_224", "vit_base_patch16_clip_quickgelu_224")
assert {f"{name}.openai" for name in names} <= set(timm.list_pretrained())
torch.manual_seed(0)
plain, quick = (timm.create_model(name, num_classes=0, depth=4).eval() for name in names)
for parameter in plain.parameters():
    torch.nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5 if parameter.ndim > 1 else 0.5)
quick.load_state_dict(plain.state_dict())
images = torch.randn(2, 3, 224, 224)
with torch.inference_mode():
    one, other = plain(images), quick(images)
apart = float((one - other).norm() / one.norm())


def gelu(name):
    with torch.device("meta"):
        network = timm.create_model(name)
    return type(network.blocks[0].mlp.act).__name__


kinds = [gelu(f"vit_large_patch16_siglip_{px}") for px in (256, 384, 512)]
print(f"{apart:.1e}", *kinds, gelu(names[0]), gelu(names[1]))
assert apart > 1e-3 and gelu(names[0]) == "GELU" and gelu(names[1]) == "QuickGELU"
assert kinds == ["GELU", "GELU", "GELUTanh"], kinds
PY
