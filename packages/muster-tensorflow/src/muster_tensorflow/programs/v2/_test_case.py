"""``tf.test.TestCase``: unit tests that compare arrays. Imported when it is asked for: absl's is slow."""

# ruff: noqa: PT009 (these are unittest's assertions)

import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from absl.testing import absltest
from absl.testing.absltest import main as main

from muster import TraceError
from muster_tensorflow.library.ops.random._generators import set_seed

_SEED = 1234


class TestCase(absltest.TestCase):
    """absl's test case, with assertions about arrays and structures of them. Each test starts with one seed.

    Source: tensorflow/python/framework/test_util.py, ``TensorFlowTestCase``.
    """

    __test__ = False  # pytest would collect it where it is imported; classes below it are tests

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__test__ = True

    def setUp(self) -> None:
        """Seed the random numbers of Python, NumPy and muster."""
        super().setUp()
        random.seed(_SEED)
        np.random.seed(_SEED)
        set_seed(_SEED)

    def get_temp_dir(self) -> str:
        """Return a folder, the same in all of a test, which is removed after it."""
        folder: str | None = vars(self).get("_folder")
        if folder is None:
            folder = self._folder = tempfile.mkdtemp()
            self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def evaluate(self, tensors: Any) -> Any:
        """Return a structure with NumPy's values."""
        return jax.tree.map(_value, tensors)

    @contextmanager
    def session(self, *_: Any, **__: Any) -> Iterator["_NoSession"]:
        """Run a block as it is: there is no session, and values are there at once."""
        yield _NoSession()

    cached_session = session
    # A property of the class cannot be called, so that no loader takes it for a test.
    test_session = property(lambda self: self.session)

    def assertNear(self, f1: Any, f2: Any, err: float, msg: str | None = None) -> None:
        """Check that two numbers differ by at most ``err``."""
        self.assertTrue(f1 == f2 or abs(f1 - f2) <= err, f"{f1!r} != {f2!r} +/- {err!r}. {msg or ''}")

    def assertArrayNear(self, farray1: Any, farray2: Any, err: float, msg: str | None = None) -> None:
        """Check that the numbers of two lists differ by at most ``err``."""
        self.assertEqual(len(farray1), len(farray2), msg=msg)
        for one, two in zip(farray1, farray2, strict=True):
            self.assertNear(float(one), float(two), err, msg=msg)

    def assertNDArrayNear(self, ndarray1: Any, ndarray2: Any, err: float, msg: str | None = None) -> None:
        """Check that the norm of the difference of two arrays is below ``err``."""
        self.assertTrue(np.linalg.norm(_array(ndarray1) - _array(ndarray2)) < err, msg=msg)

    def assertAllClose(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None
    ) -> None:
        """Check that two structures of arrays have near values, as ``numpy.allclose`` does.

        Raises:
            AssertionError: Shapes or values differ.
            ValueError: The structures differ.
        """
        a, b = (each._asdict() if hasattr(each, "_asdict") else each for each in (a, b))
        if isinstance(a, Mapping) != isinstance(b, Mapping):
            raise ValueError(f"Can't compare dict to non-dict, {a} and {b}. {msg or ''}")
        if isinstance(a, Mapping):
            self.assertCountEqual(a.keys(), b.keys(), msg=msg)
            for key in a:
                self.assertAllClose(a[key], b[key], rtol, atol, f"At {key!r}. {msg or ''}")
            return
        try:
            one, two = _array(a), _array(b)
            is_nested = one.dtype == object or two.dtype == object
        except ValueError:  # rows of different lengths
            is_nested = True
        if not is_nested:
            self._assert_near(one, two, rtol, atol, msg)
            return
        if len(a) != len(b):
            raise ValueError(f"Mismatched length: {len(a)} and {len(b)} items. {msg or ''}")
        for place, (one, two) in enumerate(zip(a, b, strict=True)):
            self.assertAllClose(one, two, rtol, atol, f"At {place}. {msg or ''}")

    def _assert_near(self, a: Any, b: Any, rtol: float, atol: float, msg: str | None) -> None:
        self.assertEqual(a.shape, b.shape, f"Shape mismatch. {msg or ''}")
        # bfloat16 and its kin are not NumPy's own.
        a, b = (each.astype(np.float32) if each.dtype.kind == "V" else each for each in (a, b))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=msg or "", equal_nan=True)

    def assertAllCloseAccordingToType(
        self,
        a: Any,
        b: Any,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        float_rtol: float = 1e-6,
        float_atol: float = 1e-6,
        half_rtol: float = 1e-3,
        half_atol: float = 1e-3,
        bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2,
        msg: str | None = None,
    ) -> None:
        """Check that two arrays have near values; how near says the coarser of their types."""
        types = {_array(a).dtype, _array(b).dtype}
        for kinds, r, at in (
            ((np.float32, np.complex64), float_rtol, float_atol),
            ((np.float16,), half_rtol, half_atol),
            ((jnp.bfloat16,), bfloat16_rtol, bfloat16_atol),
        ):
            if types & {np.dtype(kind) for kind in kinds}:
                rtol, atol = max(rtol, r), max(atol, at)
        self.assertAllClose(a, b, rtol, atol, msg)

    def assertNotAllClose(self, a: Any, b: Any, *args: Any, **kwargs: Any) -> None:
        """Check that some values of two structures are not near."""
        self._assert_fails(self.assertAllClose, "close", a, b, *args, **kwargs)

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Check that two arrays are equal; NaN equals NaN, and text its bytes."""
        one, two = (_as_bytes(_array(each)) for each in (a, b))
        self.assertEqual(one.shape, two.shape, f"Shape mismatch. {msg or ''}")
        np.testing.assert_array_equal(one, two, err_msg=msg or "")

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Check that some values of two arrays differ."""
        self._assert_fails(self.assertAllEqual, f"equal. {msg or ''}", a, b)

    def _assert_fails(self, check: Any, what: str, *args: Any, **kwargs: Any) -> None:
        try:
            check(*args, **kwargs)
        except AssertionError:
            return
        raise AssertionError(f"All values are {what}")

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        """Check that all values are greater than a number."""
        self.assertGreater(np.min(_array(a)), comparison_target)

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        """Check that all values are less than a number."""
        self.assertLess(np.max(_array(a)), comparison_target)

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        """Check that no value is less than a number."""
        self.assertGreaterEqual(np.min(_array(a)), comparison_target)

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        """Check that no value is greater than a number."""
        self.assertLessEqual(np.max(_array(a)), comparison_target)

    def assertAllInRange(
        self,
        target: Any,
        lower_bound: Any,
        upper_bound: Any,
        open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:
        """Check that all values are in a range, to which open bounds do not belong."""
        values = _array(target)
        above = values > lower_bound if open_lower_bound else values >= lower_bound
        below = values < upper_bound if open_upper_bound else values <= upper_bound
        outside = values[~(above & below)]
        self.assertEqual(outside.size, 0, f"Outside of {lower_bound} to {upper_bound}: {outside}")

    def assertAllInSet(self, target: Any, expected_set: Any) -> None:
        """Check that all values are among some."""
        others = np.setdiff1d(_array(target), list(expected_set))
        self.assertEqual(others.size, 0, f"Not in {expected_set}: {others}")

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:
        """Check the dtype of an array."""
        self.assertEqual(_array(target).dtype, np.dtype(expected_dtype))

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: str | None = None) -> None:
        """Check that two arrays have the same shape."""
        self.assertEqual(tuple(input_a.shape), tuple(input_b.shape), msg=msg)


class _NoSession:
    def run(self, *_: Any, **__: Any) -> NoReturn:
        raise TraceError("There are no sessions: call self.evaluate(…) on values, or their numpy().")


def _value(tensor: Any) -> Any:
    return tensor.numpy() if hasattr(tensor, "numpy") else tensor


def _array(value: Any) -> Any:
    return np.asarray(jax.tree.map(_value, value))


def _as_bytes(values: Any) -> Any:
    if values.dtype.kind not in "UO":
        return values
    return np.vectorize(lambda each: each.encode() if isinstance(each, str) else each, otypes=[object])(
        values
    )
