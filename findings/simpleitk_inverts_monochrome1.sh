#!/bin/sh
# Guess: SimpleITK gives the values of a MONOCHROME1 radiograph as stored and rescaled, like pydicom, and whoever shows it
# inverts it by its tag; a reader that inverted it would say MONOCHROME2 from then on.
#
# Behaviour (SimpleITK 2.5.7, pydicom 3.0.2): values come back mirrored in the range of the bits (v becomes 4095 - v for 12 bits,
# before the rescale), and 0028|0004 says MONOCHROME1 still: code that inverts by the tag undoes it, and shows such patients as
# negatives among the MONOCHROME2 ones. Values in units (RescaleSlope, RescaleIntercept) are others than the standard's.
# 2.3.1 warned of it (seen, not run here); 2.4.1 to 2.5.7 say nothing.
# Output seen: stored 0, 16, 32 with slope 2, intercept -100: pydicom -100, -68, -36; SimpleITK 8090, 8058, 8026, tag
# MONOCHROME1; of MONOCHROME2 both -100, -68, -36. Exits 0 while that is so.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet SimpleITK==2.5.7 pydicom==3.0.2 numpy==2.4.6
cd "$work"
"$work/venv/bin/python" - <<'PY'
import numpy as np
import SimpleITK
from pydicom import dcmread
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.pixels import apply_rescale
from pydicom.uid import DigitalXRayImageStorageForPresentation, ExplicitVRLittleEndian, generate_uid

STORED = (np.arange(256) * 16).astype(np.uint16).reshape(16, 16)  # 12 bits
found = {}
for kind in ("MONOCHROME1", "MONOCHROME2"):
    file = Dataset()
    file.file_meta = FileMetaDataset()
    file.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file.file_meta.MediaStorageSOPClassUID = file.SOPClassUID = DigitalXRayImageStorageForPresentation
    file.file_meta.MediaStorageSOPInstanceUID = file.SOPInstanceUID = generate_uid()
    file.Rows = file.Columns = 16
    file.SamplesPerPixel, file.PixelRepresentation, file.PhotometricInterpretation = 1, 0, kind
    file.BitsAllocated, file.BitsStored, file.HighBit = 16, 12, 11
    file.RescaleSlope, file.RescaleIntercept = 2, -100
    file.PixelData = STORED.tobytes()
    file["PixelData"].VR = "OW"
    file.save_as("a.dcm", enforce_file_format=True)
    image, again = SimpleITK.ReadImage("a.dcm"), dcmread("a.dcm")
    theirs = SimpleITK.GetArrayFromImage(image).ravel()[:3].astype(int).tolist()
    found[kind] = theirs, image.GetMetaData("0028|0004").strip(), apply_rescale(again.pixel_array, again).ravel()[:3].tolist()
print(found)
assert found["MONOCHROME1"] == ([8090, 8058, 8026], "MONOCHROME1", [-100, -68, -36])
assert found["MONOCHROME2"] == ([-100, -68, -36], "MONOCHROME2", [-100, -68, -36])
PY
