"""The images of which features are recorded: rendered by a script, bundled, and never changed unnoticed."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from PIL import Image

from scripts import check_images
from zoo import regression_check
from zoo.regression_check import IMAGES

FOLDER = Path(regression_check.__file__).parent / "check_images"


def test_the_bundled_images_are_what_the_script_renders() -> None:
    rendered = check_images.IMAGES
    assert tuple(rendered) == IMAGES
    for name, render in rendered.items():
        with Image.open(FOLDER / f"{name}.png") as bundled:
            image = render()
            assert (bundled.mode, bundled.size) == (image.mode, image.size)
            assert bundled.convert("RGBA").tobytes() == image.convert("RGBA").tobytes()


def test_the_bundled_images_are_small_and_differ_in_mode_and_shape() -> None:
    files = sorted(FOLDER.iterdir())
    assert {path.name for path in files} == {f"{name}.png" for name in IMAGES}
    assert sum(path.stat().st_size for path in files) < 200_000
    images = [Image.open(path) for path in files]
    assert {image.mode for image in images} == {"RGB", "L", "RGBA", "P"}
    assert len({image.size for image in images}) == len(images)


def test_recordings_of_other_images_have_another_format() -> None:
    """Whoever changes an image has to count the format up, and then to state the digest of the new ones here."""
    digest = sha256()
    for name in IMAGES:
        with Image.open(FOLDER / f"{name}.png") as image:
            digest.update(image.convert("RGBA").tobytes())
    known = {"zoo-check-1": "9ecc7d2bd5a5880a57d114a927903d9b5f24842d9f3955ba47af66b3c2f67e68"}
    assert known[regression_check._FORMAT] == digest.hexdigest()
