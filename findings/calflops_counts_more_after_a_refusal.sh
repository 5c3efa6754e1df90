#!/bin/sh
# Guess: whoever counts the operations of many networks in a loop, with an except for those that a counter refuses, has the
# same number for each of the others as if it had been counted alone.
#
# Behaviour (calflops 0.3.2, ptflops 0.7.5, torch 2.15.0): a call that calflops refuses (a network of transformers for which
# input_shape is given, which ends in an AssertionError) leaves functions of PyTorch replaced. Every later count of any
# network has all operations once more for each refusal: twice, three times, four times as many, without a warning.
# ptflops then fails with a KeyError in the same process. Without a refusal all numbers are right.
# Output seen (multiply-adds of a network that has 10,656): before 10656, after 1, 2, 3 refusals 21312, 31968, 42624.
# Exits 0 while that is so. Installs torch, several gigabytes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet torch==2.15.0 transformers==5.23.0 calflops==0.3.2 ptflops==0.7.5 numpy==2.4.6
HF_HUB_OFFLINE=1 "$work/venv/bin/python" -W ignore - <<'PY'
from calflops import calculate_flops
from ptflops import get_model_complexity_info
from torch import nn
from transformers import ViTConfig, ViTModel

network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 36, 10)).eval()
refused = ViTModel(ViTConfig(num_hidden_layers=1), add_pooling_layer=False).eval()


def count(one, shape):
    return calculate_flops(one, input_shape=shape, print_results=False, output_as_string=False)[1]


found = [count(network, (1, 3, 8, 8)), count(network, (1, 3, 8, 8))]
for _ in range(3):
    try:
        count(refused, (1, 3, 224, 224))
        raise SystemExit("not refused any more")
    except AssertionError:
        found.append(count(network, (1, 3, 8, 8)))
print(found)
assert found == [10656, 10656, 21312, 31968, 42624], found
try:
    get_model_complexity_info(network, (3, 8, 8), print_per_layer_stat=False, as_strings=False)
    raise SystemExit("ptflops counts again")
except KeyError as error:
    print("ptflops: KeyError", error)
PY
