"""An encoder as a step of scikit-learn: the features of the zoo, of images in any form, in whatever composes steps."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from joblib.externals.loky import get_reusable_executor
from PIL import Image
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted

import zoo
from tests.each import for_each
from zoo.datasets.folders import make_unlabelled_images
from zoo.errors import CorruptImage, DataError, QueryError, UnknownName
from zoo.features import featurise
from zoo.registration import unregister

NAME = "pocket_simclr_vit_shapes"
N = 6
PIXELS = np.random.default_rng(0).integers(0, 256, (N, 9, 12, 3)).astype(np.uint8)
LABELS = np.arange(N) % 2


def transformer(name: Any = NAME, **options: Any) -> Any:
    return zoo.ImageTransformer(name, device="cpu", **options)


@pytest.fixture(scope="module")
def features() -> np.ndarray:
    """What the zoo makes of the images, by the loader's own encoder and preprocessing."""
    found = featurise(*zoo.load(NAME), make_unlabelled_images(list(PIXELS)), name=NAME, device="cpu")
    return np.asarray(found.x)


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    files = [tmp_path / f"{number}.png" for number in range(N)]
    for file, pixels in zip(files, PIXELS, strict=True):
        Image.fromarray(pixels).save(file)
    return [str(file) for file in files]


def objects(items: list[Any]) -> np.ndarray:
    found = np.empty(len(items), object)
    found[:] = items
    return found


FORMS: dict[str, Callable[[list[str]], Any]] = {
    "paths": list,
    "paths of pathlib": lambda paths: [Path(path) for path in paths],
    "an iterator": iter,
    "an array of texts": np.array,
    "a column of an array": lambda paths: np.array(paths)[:, None],
    "a series": lambda paths: pd.Series(paths, index=range(10, 10 + N)),
    "categories": lambda paths: pd.Series(paths, dtype="category"),
    "a table of one column": lambda paths: pd.DataFrame({"file": paths}),
    "pictures": lambda _: [Image.fromarray(pixels) for pixels in PIXELS],
    "an array of pictures": lambda _: objects([Image.fromarray(pixels) for pixels in PIXELS]),
    "pixels": lambda _: PIXELS,
    "a list of pixels": lambda _: list(PIXELS),
    "an array of pixels each": lambda _: objects(list(PIXELS)),
    "whole numbers": lambda _: PIXELS.astype(np.int64),
    "from 0 to 1": lambda _: PIXELS / 255,
    "all at once": lambda paths: [paths[0], PIXELS[1], Image.fromarray(PIXELS[2]), *map(Path, paths[3:])],
}


@pytest.mark.filterwarnings("ignore:images of int64")
@for_each(FORMS)
def test_images_in_any_form_have_the_features_of_the_zoo_to_the_last_bit(
    form: str, tmp_path: Path, features: np.ndarray
) -> None:
    files = [str(tmp_path / f"{number}.png") for number in range(N)]
    for file, pixels in zip(files, PIXELS, strict=True):
        Image.fromarray(pixels).save(file)
    found = transformer().fit_transform(FORMS[form](files))
    assert found.dtype == np.float32 and np.array_equal(found, features)


def test_grey_images_with_and_without_an_axis_of_channels_are_the_same() -> None:
    grey = PIXELS[..., 0]
    expected = transformer().transform([Image.fromarray(one) for one in grey])
    assert np.array_equal(transformer().transform(grey), expected)
    assert np.array_equal(transformer().transform(grey[..., None]), expected)


def test_an_image_may_come_twice_as_in_a_bootstrap(paths: list[str], features: np.ndarray) -> None:
    found = transformer().transform([*paths, paths[0]])
    assert np.array_equal(found[[*range(N), 0]], found[[*range(N), N]])
    np.testing.assert_allclose(found[:N], features, rtol=1e-4, atol=1e-5)


def test_tokens_sizes_and_a_changed_encoder_are_what_is_asked_for(features: np.ndarray) -> None:
    images = make_unlabelled_images(list(PIXELS))
    for name, options in ((f"{NAME}@avg", {}), (NAME, {"px": 48})):
        expected = featurise(*zoo.load(name, **options), images, name=name, device="cpu").x
        assert np.array_equal(transformer(name, **options).transform(PIXELS), expected)
    encoder, preprocess = zoo.load(NAME, px=48)
    with torch.no_grad():
        next(encoder.parameters()).add_(0.1)
    expected = featurise(encoder, preprocess, images, name=NAME, device="cpu").x
    found = clone(transformer(encoder)).transform(PIXELS)
    assert np.array_equal(found, expected) and found.shape == features.shape


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "one path": ("a.png", DataError, r"Got one str, expected paths, PIL images or arrays.*: in a list"),
    "one picture": (Image.new("RGB", (4, 4)), DataError, r"Got one Image, expected .*: in a list"),
    "one image": (PIXELS[0], DataError, r"shape \(9, 12, 3\).*Give one as \[image\]"),
    "nothing": (None, DataError, r"Got one NoneType"),
    "a dictionary": ({"file": ["a.png"]}, DataError, r"Got one dict"),
    "no image": ([], DataError, r"holds no image"),
    "a table of numbers": (np.zeros((5, 6)), DataError, r"float64 and shape \(5, 6\).*not a table of numbers"),
    "two columns": (pd.DataFrame({"a": ["x"], "b": ["y"]}), DataError, r"shape \(1, 2\), expected one column"),
    "channels first": (PIXELS.transpose(0, 3, 1, 2), DataError, r"\.transpose\(0, 2, 3, 1\)"),
    "a tensor": (torch.zeros(2, 3, 8, 8), DataError, r"Image 0 is a Tensor"),
    "numbers": ([1, 2], DataError, r"Image 0 is a int"),
    "a missing path": (pd.Series(["a.png", None]), DataError, r"Image 1 is a"),
    "floats up to 255": (PIXELS.astype(float), DataError, r"from 0 to 255.*scale=\(0, 255\)"),
    "floats below 0": (PIXELS / 255 - 0.5, DataError, r"from -0\.5 to 0\.5"),
    "not a number": (np.full((2, 4, 5), np.nan), DataError, r"not a number"),
    "two ranges": ([PIXELS[0] / 255, PIXELS[1] * 1.0], DataError, r"scale=\(0, 255\)"),
    "a missing file": (["no.jpg"], CorruptImage, r"'no\.jpg'.*No such file"),
}


@for_each(REFUSED)
def test_what_is_no_image_is_refused_in_a_sentence(case: str) -> None:
    images, error, expected = REFUSED[case]
    with pytest.raises(error, match=expected) as caught:
        transformer("pocket_init_rn").fit(images).transform(images)
    assert "\n" not in str(caught.value)


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean"):
        transformer("pocket_simclr_vit_shape").transform(PIXELS)
    with pytest.raises(QueryError, match="Got Linear"):
        transformer(torch.nn.Linear(2, 2)).transform(PIXELS)
    with pytest.raises(QueryError, match="px 48"):
        transformer(zoo.load(NAME)[0], px=48).transform(PIXELS)
    with pytest.raises(QueryError, match="batch_size is 0"):
        transformer(batch_size=0).transform(PIXELS)


def test_a_scale_says_which_values_are_black_and_white(features: np.ndarray) -> None:
    assert np.array_equal(transformer(scale=(0, 255)).transform(PIXELS.astype(float)), features)


def test_nearly_black_pixels_are_said() -> None:
    with pytest.warns(UserWarning, match="nearly black"):
        transformer("pocket_init_rn").transform(PIXELS // 20)


def test_tables_have_the_names_of_encoder_and_dimension(paths: list[str], features: np.ndarray) -> None:
    step = transformer().set_output(transform="pandas")
    table = clone(step).fit_transform(paths)
    assert list(table.columns) == [f"{NAME}_{number}" for number in range(features.shape[1])]
    assert np.array_equal(table.to_numpy(), features)
    columns = ColumnTransformer([("image", transformer(), ["file"]), ("age", "passthrough", ["age"])])
    both = columns.fit_transform(pd.DataFrame({"file": paths, "age": range(N)}))
    assert both.shape == (N, features.shape[1] + 1) and np.array_equal(both[:, :-1].astype(np.float32), features)


def test_parameters_are_read_set_and_cloned_and_pickles_are_without_the_network(features: np.ndarray) -> None:
    step = transformer("pocket_init_rn", batch_size=3)
    assert step.get_params()["batch_size"] == 3 and clone(step).get_params() == step.get_params()
    check_is_fitted(step)
    step.transform(PIXELS)
    step.set_params(encoder=NAME, batch_size=64)  # after a network was loaded
    assert np.array_equal(step.transform(PIXELS), features)
    stored = pickle.dumps(step)
    assert len(stored) < 1000 and np.array_equal(pickle.loads(stored).transform(PIXELS), features)


def test_an_encoder_that_is_registered_anew_is_loaded_anew(tmp_path: Path) -> None:
    found = []
    for shift in (1, 2):
        encoder, _ = zoo.load(NAME)
        encoder.backbone.norm.bias.add_(shift)
        torch.save(encoder.state_dict(), tmp_path / "own.pth")
        zoo.register(tmp_path / "own.pth", name="my_own", like=NAME)
        found.append(transformer("my_own").transform(PIXELS))
        unregister(["my_own"])
    assert not np.array_equal(*found)


@pytest.mark.slow
def test_a_search_over_encoders_on_two_processes_finds_what_one_does(paths: list[str]) -> None:
    pipeline = make_pipeline(transformer("pocket_init_rn"), LogisticRegression())
    settings = {"imagetransformer__encoder": ["pocket_init_rn", NAME], "logisticregression__C": [0.1, 10.0]}
    alone, together = (GridSearchCV(pipeline, settings, cv=2, n_jobs=n_jobs).fit(paths, LABELS) for n_jobs in (None, 2))
    get_reusable_executor().shutdown()  # which joblib keeps for further searches
    assert np.array_equal(alone.cv_results_["mean_test_score"], together.cv_results_["mean_test_score"])
    assert alone.best_params_ == together.best_params_


def test_memory_of_a_pipeline_keeps_the_features_of_the_same_images(tmp_path: Path, paths: list[str]) -> None:
    pipeline = make_pipeline(transformer("pocket_init_rn"), LogisticRegression(), memory=joblib.Memory(tmp_path / "m"))
    pipeline.fit(paths, LABELS)
    Path(paths[0]).unlink()
    clone(pipeline).fit(paths, LABELS)  # not read again


NO_TABLES = "the check gives tables of numbers, and images are refused as such"
EXPECTED_TO_FAIL = {
    "check_array_api_input": "the check is skipped without an option of scipy",
    "check_dict_unchanged": NO_TABLES,
    "check_estimator_sparse_tag": "fit looks at no image, so that it refuses none either",
    "check_estimators_dtypes": NO_TABLES,
    "check_estimators_pickle": NO_TABLES,
    "check_f_contiguous_array_estimator": NO_TABLES,
    "check_fit_idempotent": NO_TABLES,
    "check_fit_score_takes_y": NO_TABLES,
    "check_methods_sample_order_invariance": NO_TABLES,
    "check_methods_subset_invariance": NO_TABLES,
    "check_pipeline_consistency": NO_TABLES,
    "check_transformer_general": NO_TABLES,
    "check_transformer_preserve_dtypes": NO_TABLES,
    "check_transformers_unfitted_stateless": NO_TABLES,
}


class ForTables(zoo.ImageTransformer):
    """Says that it takes tables, or scikit-learn would try nothing."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


def test_the_checks_of_scikit_learn_pass_where_they_give_no_tables() -> None:
    assert not transformer().__sklearn_tags__().input_tags.two_d_array
    passed = set()
    for estimator, check in estimator_checks_generator(ForTables("pocket_init_rn", device="cpu")):
        name = check.func.__name__
        if name not in EXPECTED_TO_FAIL:
            check(estimator)
            passed.add(name)
    assert {"check_estimator_cloneable", "check_no_attributes_set_in_init", "check_set_params"} <= passed
