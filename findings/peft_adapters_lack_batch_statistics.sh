#!/bin/sh
# Guess: save_pretrained of a network with LoRA and PeftModel.from_pretrained onto the same pretrained weights give the
# features back, of whatever network; for this is what adapters are for.
#
# Behaviour (peft 0.21.2, torch 2.15.0, timm 1.0.31): an adapter has parameters alone. The running means and variances of
# batch norm, which training has moved, are neither in it nor warned of, so that a network of convolutions comes back as
# another one. Named in modules_to_save, norms are kept whole; LoRA trained with the norms in eval mode comes back, too.
# Output seen, cosine of features before saving and after loading: train mode 0.50, norms in eval mode 1.000,
# modules_to_save 1.000; of a transformer in train mode 1.000.
# Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet peft==0.21.2 torch==2.15.0 torchvision==0.29.2 timm==1.0.31 transformers==5.23.0 numpy==2.4.6
cd "$work"
HF_HUB_OFFLINE=1 "$work/venv/bin/python" - <<'PY'
import warnings
from copy import deepcopy

import peft
import timm
import torch
from torch.nn.functional import cosine_similarity

warnings.simplefilter("error", UserWarning)
torch.manual_seed(0)
images = 2 * torch.randn(8, 3, 64, 64) + 1


def cosine_after_loading(name, network, is_in_train_mode=True, **options):
    pretrained = deepcopy(network)
    adapted = peft.get_peft_model(network, peft.LoraConfig(r=4, **options))
    optimiser = torch.optim.AdamW([each for each in adapted.parameters() if each.requires_grad], lr=1e-3)
    adapted.train(is_in_train_mode)
    for _ in range(5):
        adapted(images).square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()
    adapted.save_pretrained(name)
    again = peft.PeftModel.from_pretrained(pretrained, name)
    with torch.no_grad():
        return float(cosine_similarity(adapted.eval()(images), again.eval()(images)).mean())


def resnet():
    return timm.create_model("resnet18", num_classes=0)


convolutions = {"target_modules": r".*\.conv[12]"}
norms = [name for name, module in resnet().named_modules() if isinstance(module, torch.nn.BatchNorm2d)]
small = {"img_size": 64, "patch_size": 16, "embed_dim": 32, "depth": 2, "num_heads": 4, "num_classes": 0}
found = [
    cosine_after_loading("train", resnet(), **convolutions),
    cosine_after_loading("eval", resnet(), is_in_train_mode=False, **convolutions),
    cosine_after_loading("norms", resnet(), modules_to_save=norms, **convolutions),
    cosine_after_loading("vit", timm.models.VisionTransformer(**small), target_modules=["qkv", "proj"]),
]
print(*(f"{cosine:.3f}" for cosine in found))
assert found[0] < 0.9 and min(found[1:]) > 0.999, found
PY
