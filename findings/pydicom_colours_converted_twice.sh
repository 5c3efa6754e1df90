#!/bin/sh
# Guess: after pixel_array of a YBR_FULL image, as of ultrasound and slides, convert_color_space(array,
# file.PhotometricInterpretation, "RGB") gives its colours; where pixel_array has converted already, the attribute says RGB.
#
# Behaviour (pydicom 2.4.4 and 3.0.2): in 2.4.4 the array is YBR and the call converts it. In 3.0.2 the array is RGB already and
# the attribute says YBR_FULL still, so that the same two lines convert twice: colours up to 255 levels off, no warning.
# Output seen: off by 1 in 2.4.4; in 3.0.2 the array alone is off by 1, after the call by 255. Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
for version in 2.4.4 3.0.2; do
"$work/venv/bin/pip" install --quiet pydicom==$version numpy==1.26.4
"$work/venv/bin/python" - <<'PY'
import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian

if pydicom.__version__.startswith("2"):
    from pydicom.pixel_data_handlers.util import convert_color_space
else:
    from pydicom.pixels import convert_color_space

colours = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
file = Dataset()
file.file_meta = FileMetaDataset()
file.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
file.is_little_endian, file.is_implicit_VR = True, False
file.Rows = file.Columns = 16
file.SamplesPerPixel, file.PlanarConfiguration, file.PixelRepresentation = 3, 0, 0
file.BitsAllocated = file.BitsStored = 8
file.HighBit, file.PhotometricInterpretation = 7, "YBR_FULL"
file.PixelData = convert_color_space(colours, "RGB", "YBR_FULL").tobytes()
file["PixelData"].VR = "OB"
array = file.pixel_array
converted = convert_color_space(array, file.PhotometricInterpretation, "RGB")
off = [int(np.abs(one.astype(int) - colours).max()) for one in (array, converted)]
print(pydicom.__version__, file.PhotometricInterpretation, off)
assert file.PhotometricInterpretation == "YBR_FULL"
if pydicom.__version__.startswith("2"):
    assert off[0] > 100 and off[1] <= 2, off
else:
    assert off[0] <= 2 and off[1] > 100, off
PY
done
