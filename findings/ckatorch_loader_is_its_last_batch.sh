#!/bin/sh
# Guess: CKA of two networks over a data loader, "the minibatch version of Nguyen et al.", sums over batches what it divides,
# so that all images count; and with one image more in the loader it hardly changes.
#
# Behaviour (ckatorch 1.0.3): CKA(...)(loader) overwrites the value at every batch and returns that of the last one, of as
# few images as are left over; epochs average the last batches of several passes. Features need three axes, and the images
# are those of the second: of an encoder's (batch, tokens, dim) the tokens of each image are compared, not the images.
# Output seen (400 images in batches of 100, the last 100 unrelated, the others the same in both): 0.005 over the loader,
# 0.77 by sums over the batches (0.005 for the last batch alone).
# Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet ckatorch==1.0.3 torch==2.15.0 numpy==2.4.6
"$work/venv/bin/python" -W ignore - <<'PY'
import torch
from ckatorch import CKA, cka_batch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
a = torch.randn(400, 64)
b = torch.cat([a[:300], torch.randn(100, 64)])


class Half(nn.Module):
    def __init__(self, first):
        super().__init__()
        self.layer, self.first = nn.Identity(), first

    def forward(self, x):
        return self.layer(x[None, :, self.first : self.first + 64])


loader = DataLoader([(row,) for row in torch.cat([a, b], dim=1)], batch_size=100)
of_loader = float(CKA(Half(0), Half(64), ["layer"], ["layer"], "a", "b")(loader, epochs=1)[0, 0])
of_batches = float(cka_batch(a.reshape(4, 100, 64), b.reshape(4, 100, 64)))
of_last = float(cka_batch(a[None, 300:], b[None, 300:]))
print(of_loader, of_batches, of_last)
assert abs(of_loader - of_last) < 1e-5 and abs(of_last) < 0.1 and of_batches > 0.5, (of_loader, of_batches, of_last)
PY
