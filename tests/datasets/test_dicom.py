"""DICOM files: rescaled, through their window, MONOCHROME1 inverted, in folders next to other images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydicom import dcmread
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.pixels.processing import convert_color_space
from pydicom.sequence import Sequence
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, RLELossless, generate_uid

from tests.cli_runner import document, run
from tests.image_files import shades
from zoo.datasets import open_images
from zoo.datasets.folders import make_unlabelled_images
from zoo.datasets.image_files import DisplayOptions, read_image
from zoo.datasets.notes import describe_decoding
from zoo.errors import CorruptImage, DataError

GREY = shades()
STORED = GREY.astype(np.uint16) << 4 | GREY >> 4  # 12 bits


def dicom(path: Path, pixels: np.ndarray = STORED, *, bits: int = 12, **elements: Any) -> Path:
    """A DICOM file of these pixels."""
    file = Dataset()
    file.file_meta = FileMetaDataset()
    file.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    file.file_meta.MediaStorageSOPClassUID = file.SOPClassUID = CTImageStorage
    file.file_meta.MediaStorageSOPInstanceUID = file.SOPInstanceUID = generate_uid(entropy_srcs=[path.name])
    is_colour = pixels.ndim > 2 and pixels.shape[-1] == 3
    frames = pixels if pixels.ndim == 3 + is_colour else pixels[None]
    file.Rows, file.Columns = frames.shape[1:3]
    file.NumberOfFrames = len(frames)
    file.SamplesPerPixel = 3 if is_colour else 1
    file.PhotometricInterpretation = "RGB" if is_colour else "MONOCHROME2"
    file.PlanarConfiguration = 0
    file.BitsAllocated, file.BitsStored, file.HighBit = 8 * pixels.dtype.itemsize, bits, bits - 1
    file.PixelRepresentation = int(pixels.dtype.kind == "i")
    file.PixelData = pixels.tobytes()
    for name, value in elements.items():
        setattr(file, name, value)
    file["PixelData"].VR = "OW"
    file.save_as(path, enforce_file_format=True)
    return path


def seen(path: Path, **options: Any) -> np.ndarray:
    return np.asarray(read_image(str(path), path.name, DisplayOptions("scans", **options)))


def test_values_are_shown_by_the_range_of_their_bits_where_there_is_no_window(tmp_path: Path) -> None:
    np.testing.assert_array_equal(seen(dicom(tmp_path / "a.dcm")), GREY)
    inverted = dicom(tmp_path / "b.dcm", 4095 - STORED, PhotometricInterpretation="MONOCHROME1")
    np.testing.assert_array_equal(seen(inverted), GREY)
    signed = (STORED.astype(np.int32) - 2048).astype(np.int16)
    rescaled = dicom(tmp_path / "c.dcm", signed, RescaleSlope=2, RescaleIntercept=-24)
    np.testing.assert_array_equal(seen(rescaled), GREY)
    np.testing.assert_array_equal(seen(dicom(tmp_path / "d.DICOM", np.stack([STORED, STORED * 0]))), GREY)


def test_values_in_the_upper_bits_are_refused_not_cut_off(tmp_path: Path) -> None:
    plain = dicom(tmp_path / "a.dcm", STORED << 4, HighBit=15)
    file = dcmread(dicom(tmp_path / "b.dcm", STORED << 4, bits=16))
    file.compress(RLELossless)
    file.BitsStored = 12
    file.save_as(packed := tmp_path / "b.dcm")
    for path in (plain, packed):
        with pytest.raises(DataError, match=r"of 12 bits above 4 others .*HighBit is 15.*expected 11"):
            seen(path)


def test_a_window_is_applied_to_rescaled_values_and_a_scale_takes_its_place(tmp_path: Path) -> None:
    values = np.linspace(-1000, 3000, 240).reshape(12, 20).round()
    stored = (values + 1000).astype(np.uint16)
    window = {"WindowCenter": [40, 500], "WindowWidth": [400, 2000], "RescaleSlope": 1, "RescaleIntercept": -1000}
    path = dicom(tmp_path / "a.dcm", stored, bits=16, **window)
    # PS3.3 C.11.2.1.2.1: black up to center - .5 - (width - 1) / 2, white above center - .5 + (width - 1) / 2
    expected = np.rint(np.clip((values - 39.5) / 399 + 0.5, 0, 1) * 255)
    np.testing.assert_array_equal(seen(path), expected)
    np.testing.assert_array_equal(seen(path, scale=(-1000, 3000)), np.rint((values + 1000) / 4000 * 255))
    inverted = dicom(tmp_path / "b.dcm", stored, bits=16, PhotometricInterpretation="MONOCHROME1", **window)
    np.testing.assert_array_equal(seen(inverted), 255 - expected)
    assert read_image(str(path), "a", DisplayOptions("b")).info["window"]


def test_a_table_of_shades_is_a_window_too(tmp_path: Path) -> None:
    table = Dataset()
    table.LUTDescriptor = [4096, 0, 8]
    table.LUTData = (255 * (np.arange(4096) / 4095) ** 2).astype("<u2").tobytes()
    path = dicom(tmp_path / "a.dcm", VOILUTSequence=Sequence([table]))
    np.testing.assert_array_equal(seen(path), (255 * (STORED.astype(float) / 4095) ** 2).astype(np.uint8))


def folder_of_scans(root: Path, **elements: Any) -> Path:
    for part, n in (("train", 4), ("val", 3)):
        for label in "ab":
            (root / part / label).mkdir(parents=True)
            for number in range(n):
                dicom(
                    root / part / label / f"{number}.dcm", np.roll(STORED, number + 9 * (label == "b"), 1), **elements
                )
    return root


def test_a_folder_of_scans_is_measured_and_said_to_be_shown_through_windows(tmp_path: Path) -> None:
    root = folder_of_scans(tmp_path / "scans", WindowCenter=2048, WindowWidth=4096)
    encoder = ("pocket_simclr_rn_shapes", str(root), "--settings", "full", "--no-knn", "--no-record")
    (found,) = document("evaluate", *encoder)["evaluations"]
    assert found["images"]["train"]["scaled"] == {"DICOM": 8}
    assert "14 DICOM images are shown through their windows" in run("evaluate", *encoder).output
    scaled = open_images(root, scale=(0, 4095))
    assert scaled.train.fingerprint != open_images(root).train.fingerprint
    bare = open_images(folder_of_scans(tmp_path / "bare"))
    (note,) = describe_decoding([bare.train, bare.val])
    assert "14 of 14 that were looked at have none" in note
    np.testing.assert_array_equal(np.asarray(bare.train.images[0]), GREY)


def test_scans_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    root = folder_of_scans(tmp_path / "scans")
    (root / "train" / "a" / "1.dcm").write_bytes(b"no scan")
    (root / "train" / "a" / "2.dcm").write_bytes((root / "train" / "a" / "0.dcm").read_bytes()[:600])
    images = open_images(root).train.images
    for index in (1, 2):
        with pytest.raises(CorruptImage, match=f"'a/{index}.dcm' of 'scans'"):
            images[index]


RGB = np.random.default_rng(5).integers(0, 256, (12, 20, 3), np.uint8)


def told(path: Path, **options: Any) -> str:
    return "; ".join(describe_decoding([make_unlabelled_images([path], **options)]))


def palette(n_bits: int, tables: np.ndarray) -> dict[str, Any]:
    """Elements of PALETTE COLOR, of three tables."""
    found: dict[str, Any] = {"PhotometricInterpretation": "PALETTE COLOR"}
    for name, table in zip(("Red", "Green", "Blue"), tables, strict=True):
        found[f"{name}PaletteColorLookupTableDescriptor"] = [256, 0, n_bits]
        found[f"{name}PaletteColorLookupTableData"] = table.astype("<u2").tobytes()
    return found


def test_colours_are_images_of_every_kind(tmp_path: Path) -> None:
    rgb = dicom(tmp_path / "rgb.dcm", RGB, bits=8)
    np.testing.assert_array_equal(seen(rgb), RGB)
    assert told(rgb) == ""
    full = np.asarray(convert_color_space(RGB, "RGB", "YBR_FULL"))
    ybr = seen(dicom(tmp_path / "ybr.dcm", full, bits=8, PhotometricInterpretation="YBR_FULL"))
    assert np.abs(ybr.astype(int) - RGB).max() <= 2
    tables = np.stack([np.arange(256), np.arange(256)[::-1], np.full(256, 7)])
    expected = np.stack([table[GREY] for table in tables], axis=2)
    for name, n_bits, entries in (("wide", 16, tables * 257), ("narrow", 16, tables)):
        path = dicom(tmp_path / f"{name}.dcm", GREY, bits=8, **palette(n_bits, entries))
        np.testing.assert_array_equal(seen(path), expected)
    deep = dicom(tmp_path / "deep.dcm", RGB.astype(np.uint16) << 4, bits=12)
    np.testing.assert_array_equal(seen(deep), RGB)
    np.testing.assert_array_equal(seen(deep, scale=(0, 65535)), np.rint((RGB.astype(float) * 16) / 257))
    assert "12-bit colours are shown with 0 as black and 4095 as white" in told(deep)


def test_a_folder_of_colours_is_measured(tmp_path: Path) -> None:
    for number in range(16):
        path = tmp_path / "skin" / "ab"[number % 2] / f"{number}.dcm"
        path.parent.mkdir(parents=True, exist_ok=True)
        dicom(path, np.roll(RGB, number, 1) // (1 + number % 2), bits=8)
    done = run("evaluate", "pocket_simclr_rn_shapes", str(tmp_path / "skin"), "--settings", "full", "--no-record")
    assert "windows" not in done.output


def test_further_frames_and_windows_are_noted(tmp_path: Path) -> None:
    frames = dicom(tmp_path / "frames.dcm", np.stack([STORED, STORED * 0]))
    assert "several frames" in told(frames)
    assert "several frames" in told(dicom(tmp_path / "rgb.dcm", np.stack([RGB, RGB]), bits=8))
    windows = {"WindowCenter": [40, 500], "WindowWidth": [400, 2000]}
    assert "several windows, of which the first is applied" in told(dicom(tmp_path / "two.dcm", **windows))
    assert "several windows" not in told(dicom(tmp_path / "one.dcm", WindowCenter=40, WindowWidth=400))


def test_scans_without_an_ending_are_found_by_their_beginning(tmp_path: Path) -> None:
    root = folder_of_scans(tmp_path / "scans")
    files = sorted(root.glob("*/*/*.dcm"))
    for number, file in enumerate(files):
        file.rename(file.with_name(("IM%06d", "1.2.840.%d")[number % 2] % number))
    (root / "train" / "a" / "LICENSE").write_text("text")
    data = open_images(root)
    assert len(data.train) + len(data.val) == len(files) and data.train.reading.left_out == {"other": 1}
    first = data.train.images[data.train.names.index("a/IM000000")]
    np.testing.assert_array_equal(np.asarray(first), GREY)
