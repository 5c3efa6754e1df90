#!/bin/sh
# Guess: safetensors.numpy saves a transposed array or every second column as the numbers that it shows, or refuses it, as
# safetensors.torch does; the answer does not change between versions.
#
# Behaviour (safetensors 0.7.0 and 0.8.0): 0.7.0 writes the numbers as they are shown. 0.8.0 takes as many bytes as the array
# has from where it begins in memory: features.T comes back with the right shape, type and sum, and its numbers in other
# rows; x[:, ::2] comes back as the first columns of x, neighbouring ones. No error and no warning. Fortran order is
# enough. The docstring asks for contiguous arrays, nothing looks at it;
# np.ascontiguousarray before saving helps.
# Output seen, of [[0, 1, 2], [3, 4, 5]]: 0.7.0: .T 0 3 1 4 2 5, [:, ::2] 0 2 3 5; 0.8.0: .T 0 1 2 3 4 5, [:, ::2] 0 1 2 3.
# Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
for version in 0.7.0 0.8.0; do
"$work/venv/bin/pip" install --quiet safetensors==$version numpy==2.4.6
"$work/venv/bin/python" - $version <<'PY'
import sys

import numpy as np
from safetensors.numpy import load, save

x = np.arange(6.0).reshape(2, 3)
arrays = {"transposed": x.T, "every second": x[:, ::2], "Fortran order": np.asfortranarray(x)}
back = {name: load(save({"x": array}))["x"] for name, array in arrays.items()}
print(sys.argv[1], {name: array.ravel().astype(int).tolist() for name, array in back.items()})
assert all(back[name].shape == arrays[name].shape for name in arrays)
if sys.argv[1] == "0.7.0":
    assert all(np.array_equal(back[name], arrays[name]) for name in arrays)
else:
    assert back["transposed"].ravel().tolist() == [0, 1, 2, 3, 4, 5]  # and should be 0 3 1 4 2 5
    assert back["every second"].ravel().tolist() == [0, 1, 2, 3]  # 0 2 3 5
    assert back["Fortran order"].ravel().tolist() == [0, 3, 1, 4, 2, 5]  # 0 1 2 3 4 5
PY
done
