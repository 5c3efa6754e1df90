#!/bin/sh
# Guess: a counter of operations that counts attention in full does so whichever of PyTorch's attentions a transformer has;
# at worst the two products of attention are missing, as where attention is fused, which are 4 % of a ViT-B/16 at 224 px.
#
# Behaviour (torch 2.15.0, fvcore 0.1.5.post20221221, thop 0.1.1): in eval() and without gradients nn.MultiheadAttention, as
# torchvision's transformers have it, and nn.TransformerEncoderLayer run as one operation that FlopCounterMode does not know:
# the linear layers of attention are missing as well, of the second everything. fvcore traces the second one into its parts
# and still misses attention; thop, which hooks modules, finds none inside nn.MultiheadAttention. Nothing warns. With
# gradients FlopCounterMode counts all; freezing the parameters, as for features, takes a third of a ViT-B/16 away.
# Output seen (shares of the operations by definition, a block of 197 tokens of width 768; attention, whole layer):
# FlopCounterMode without gradients 0.0 0.0, with gradients 1.0 1.0; fvcore 0.0 0.64; thop 0.0 of attention.
# Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet torch==2.15.0 fvcore==0.1.5.post20221221 thop==0.1.1.post2209072238 numpy==2.4.6 setuptools==80.9.0
"$work/venv/bin/python" -W ignore - <<'PY'
import torch
from fvcore.nn import FlopCountAnalysis
from thop import profile
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

n, d = 197, 768
linear, products = 2 * n * d * d * 4, 2 * 2 * n * n * d  # operations; a multiplication and an addition are two
expected = {"attention": linear + products, "layer": linear + products + 2 * n * d * d * 8}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(d, 12, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


def by_torch(network, x):
    with FlopCounterMode(display=False) as counter:
        network(x)
    return counter.get_total_flops()


def by_fvcore(network, x):
    return 2 * FlopCountAnalysis(network, x).unsupported_ops_warnings(False).uncalled_modules_warnings(False).total()


x = torch.randn(1, n, d)
networks = {"attention": Attention().eval(), "layer": nn.TransformerEncoderLayer(d, 12, 4 * d, batch_first=True).eval()}
found = {}
for name, network in networks.items():
    found["torch", name] = by_torch(network, x) / expected[name]
    with torch.no_grad():
        found["torch without gradients", name] = by_torch(network, x) / expected[name]
        found["fvcore", name] = by_fvcore(network, x) / expected[name]
    frozen = by_torch(network.requires_grad_(False), x) / expected[name]
    assert frozen == found["torch without gradients", name]
with torch.no_grad():
    found["thop", "attention"] = 2 * profile(Attention().eval(), (x,), verbose=False)[0] / expected["attention"]
print({" ".join(key): round(float(share), 3) for key, share in found.items()})
assert found["torch", "attention"] == found["torch", "layer"] == 1
assert max(found["torch without gradients", name] for name in networks) == 0
assert found["fvcore", "attention"] == 0 and 0.63 < found["fvcore", "layer"] < 0.65  # the other layers and norms
assert found["thop", "attention"] == 0
PY
