"""Operations return what TensorFlow's did: of arrays, of variables, and in functional models."""

import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf
from muster._keras import keras
from recorded import cases, decode, load

# Operations without numbers of TensorFlow's to compare with, and the tests that have them.
ELSEWHERE = {
    "test_asserts": "Assert assert_equal assert_greater assert_less assert_rank",
    "test_boxes": "combined_non_max_suppression draw_bounding_boxes non_max_suppression",
    "test_candidates": "nce_loss sampled_softmax_loss",
    "test_control_flow": "case cond foldl foldr map_fn scan switch_case vectorized_map while_loop",
    "test_ctc": "ctc_beam_search_decoder ctc_greedy_decoder",
    "test_decompositions": "eigh qr svd",
    "test_random_numbers": "dropout",
    "test_factorizations": "banded_triangular_solve eig eigh_tridiagonal eigvals logm lu lu_ tridiagonal_",
    "test_still_more_math": "approx_ expint extract_volume_patches guarantee_const "
    "histogram_fixed_width_bins parallel_stack random_index_shuffle reciprocal_no_nan saturate_cast "
    "sobol_sample truncatediv truncatemod",
    "test_strings_on_the_host": "as_string",
    "test_windows": "atrous_conv2d_transpose conv_transpose depthwise_conv2d_backprop_ dilation2d erosion2d "
    "max_pool_with_argmax",
    "test_rarer_nn": "batch_norm_with_global_normalization collapse_repeated ctc_unique_labels "
    "isotonic_regression general_dropout stateless_dropout",
    "test_sets": "difference intersection union size mask segment_",
    "test_nn": "embedding_lookup_sparse safe_embedding_lookup_sparse",
    "test_edit_distance": "edit_distance",
    "test_more_images": "adjust_jpeg_quality extract_glimpse non_max_suppression_ rgb_to_yiq "
    "sample_distorted_bounding_box ssim_multiscale stateless_sample_distorted_bounding_box yiq_to_rgb "
    "yuv_to_rgb",
    "test_cosines_and_windows": "idct inverse_mdct irfft3d kaiser_ mdct rfft3d vorbis_window",
    "test_image_random": "random_ stateless_random_",
}
MODULES = ("tf", "tf.bitwise", "tf.image", "tf.linalg", "tf.math", "tf.nn", "tf.signal")


def array(tag: dict[str, Any]) -> np.ndarray[Any, Any]:
    def numbers(name: str) -> np.ndarray[Any, Any]:
        return np.array(decode(tag[name], {})).reshape(tag["shape"])

    if "real" in tag:
        return (numbers("real") + 1j * numbers("imag")).astype(tag["dtype"])
    return numbers("values").astype(tag["dtype"])


def given(case: dict[str, Any]) -> tuple[Callable[..., Any], list[Any], dict[str, Any]]:
    function: Any = tf
    for part in case["input"]["function"].split(".")[1:]:
        function = getattr(function, part)
    makers = {"$array": array}
    return function, decode(case["input"]["args"], makers), decode(case["input"]["kwargs"], makers)


def check(found: Any, expect: Any, where: str) -> None:
    if isinstance(expect, list):
        assert len(found) == len(expect), where
        for index, (one, other) in enumerate(zip(found, expect, strict=True)):
            check(one, other, f"{where}[{index}]")
    elif expect is None:
        assert found is None, where
    else:
        wanted = array(expect["$array"])
        assert tuple(np.shape(found)) == wanted.shape, where
        own = np.asarray(found)
        assert own.dtype.kind == wanted.dtype.kind, (where, own.dtype, wanted.dtype)
        # JAX has 32 bits where TensorFlow has 64.
        assert own.dtype == wanted.dtype or wanted.dtype.itemsize in (8, 16), (where, own.dtype, wanted.dtype)
        np.testing.assert_allclose(own, wanted, rtol=2e-4, atol=2e-5, err_msg=where)


@pytest.mark.parametrize("case", cases("operations"))
def test_arrays(case: dict[str, Any]) -> None:
    function, args, kwargs = given(case)
    check(function(*args, **kwargs), case["expect"], case["name"])


def replaced(args: list[Any], replace: Callable[[np.ndarray[Any, Any]], Any]) -> list[Any]:
    """Return arguments with other values for arrays of numbers with a point, also in lists."""

    def of(value: Any) -> Any:
        if isinstance(value, list):
            return [of(each) for each in value]
        numbers = isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim > 0
        return replace(value) if numbers else value

    return [of(each) for each in args]


def first_of_each(case: dict[str, Any]) -> bool:
    found: list[Any] = []
    if case["name"].endswith("-0"):
        replaced(given(case)[1], found.append)
    return bool(found)


@pytest.mark.parametrize("case", cases("operations", first_of_each))
def test_variables(case: dict[str, Any]) -> None:
    function, args, kwargs = given(case)
    check(function(*replaced(args, tf.Variable), **kwargs), case["expect"], case["name"])


@pytest.mark.parametrize("case", cases("operations", first_of_each))
def test_functional_models(case: dict[str, Any]) -> None:
    function, args, kwargs = given(case)
    inputs: list[Any] = []
    arrays: list[Any] = []

    def symbolic(value: Any) -> Any:
        arrays.append(value)
        inputs.append(keras.Input(batch_shape=value.shape))
        return inputs[-1]

    if isinstance(case["expect"], list) and None in case["expect"]:
        pytest.skip("Keras refuses None among the results of an operation")
    outputs = function(*replaced(args, symbolic), **kwargs)
    if not isinstance(outputs, keras.KerasTensor | list | tuple):
        check(outputs, case["expect"], case["name"])  # such as a shape
        return
    known = [each for each in keras.tree.flatten(outputs) if isinstance(each, keras.KerasTensor)]
    if len(known) == len(keras.tree.flatten(outputs)):
        made = keras.Model(inputs, outputs)(arrays)
        check(made, case["expect"], case["name"])


def operations() -> Iterator[tuple[str, str]]:
    for path in MODULES:
        module: Any = tf
        for part in path.split(".")[1:]:
            module = getattr(module, part)
        for name, value in vars(module).items():
            if isinstance(value, types.FunctionType) and hasattr(value, "operation"):
                yield f"{path}.{name}", vars(value)["operation"]


def test_all_operations_are_compared() -> None:
    compared = {vars(given(case)[0])["operation"] for case in load("operations")}
    elsewhere = " ".join(ELSEWHERE.values()).split()
    prefixes = tuple(each for each in elsewhere if each.endswith("_"))
    missing = [
        name
        for name, operation in operations()
        if operation not in compared
        and (last := name.rpartition(".")[2].lstrip("_")) not in elsewhere
        and not last.startswith(prefixes)
    ]
    assert missing == []
