#!/bin/sh
# Guess: transformers' ViTMAEModel hides three quarters of the patches also in eval(), and ViTMAEConfig(mask_ratio=0) gives the
# tokens of all patches in the order of the image, as every other vision network of transformers does.
#
# Behaviour (transformers 5.23.0): the first half is so. With mask_ratio=0 all tokens are there, and each image's patches come
# in an order of their own, drawn anew in every call, in eval() and without a warning; the class token is right. Maps,
# upsampled patches, keypoints and everything by place are scrambled; means of patches are not. Their order is that of
# ids_restore; noise=torch.arange(n_patches).expand(n_images, -1) keeps that of the image.
# Output seen: 17 tokens, class tokens alike True, patches alike False, sorted alike True, with noise alike True.
# Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet transformers==5.23.0 torch==2.15.0 numpy==2.4.6
HF_HUB_OFFLINE=1 "$work/venv/bin/python" - <<'PY'
import torch
from transformers import ViTMAEConfig, ViTMAEModel

torch.manual_seed(0)
size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
network = ViTMAEModel(ViTMAEConfig(**size, image_size=32, patch_size=8, mask_ratio=0.0)).eval()
images = torch.rand(1, 3, 32, 32)


def alike(one, other):
    return torch.allclose(one, other, atol=1e-5)


def by_first_channel(tokens):
    return tokens[0][tokens[0, :, 0].argsort()]


with torch.inference_mode():
    first, second = (network(images).last_hidden_state for _ in range(2))
    noise = torch.arange(16.0).expand(1, -1)
    kept = [network(images, noise=noise).last_hidden_state for _ in range(2)]
patches = first[:, 1:], second[:, 1:]
found = {
    "tokens": first.shape[1],
    "class tokens alike": alike(first[:, 0], second[:, 0]),
    "patches alike": alike(*patches),
    "sorted alike": alike(*map(by_first_channel, patches)),
    "with noise alike": alike(*kept),
}
print(found)
assert list(found.values()) == [17, True, False, True, True], found
PY
