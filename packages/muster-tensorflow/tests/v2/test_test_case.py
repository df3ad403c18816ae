"""The assertions of ``tf.test.TestCase``."""

import os
import random
import subprocess
import sys
import unittest
from collections import namedtuple

import numpy as np
import pytest

import muster_tensorflow as tf
from muster._errors import TraceError

Pair = namedtuple("Pair", "x y")


def run(test):
    """Run a function as a test, and return its failures' texts."""

    class Case(tf.test.TestCase):
        def test(self):
            test(self)

    result = unittest.TestResult()
    Case("test").run(result)
    assert result.testsRun == 1
    return [text.strip().rpartition("\n\n")[2] for _, text in result.failures + result.errors]


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("assertAllClose", ([1.0, 2.0], tf.constant([1.0, 2.0000001])), (1.0, tf.constant(1.001))),
        ("assertAllClose", (tf.constant([np.nan]), [np.nan]), ([1.0], [[1.0]])),
        ("assertAllClose", ({"a": [1, (2, 3)]}, {"a": [tf.constant(1), (2, 3)]}), ({"a": 1}, {"b": 1})),
        ("assertAllClose", (Pair(1, [2]), Pair(tf.constant(1), [2])), (Pair(1, 2), Pair(1, 3))),
        ("assertAllClose", (tf.ones(2, tf.bfloat16), [1, 1]), (tf.ones(2, tf.bfloat16), [1, 1.5])),
        ("assertAllClose", ([1], {"a": 1}), None),
        ("assertAllCloseAccordingToType", (tf.ones(1, tf.bfloat16), [1.005]), (tf.ones(1), [1.005])),
        ("assertAllCloseAccordingToType", (tf.ones(1, tf.float16), [1.0005]), (tf.ones(1), [1.0005])),
        ("assertNotAllClose", ([1.0], [2.0]), ([1.0], [1.0])),
        ("assertAllEqual", (tf.constant([1, 2]), [1, 2]), ([1, 2], [1, 3])),
        ("assertAllEqual", (tf.constant(["a", "ä"]), [b"a", "ä"]), (tf.constant(["a"]), ["b"])),
        ("assertAllEqual", ([np.nan], [np.nan]), ([1], [[1]])),
        ("assertNotAllEqual", ([1], [2]), ([1], [1])),
        ("assertNear", (1.0, 1.1, 0.2), (1.0, 1.3, 0.2)),
        ("assertArrayNear", ([1.0, 2.0], [1.1, 2.0], 0.2), ([1.0, 2.0], [1.1, 2.3], 0.2)),
        ("assertNDArrayNear", (np.ones(2), tf.ones(2), 0.1), (np.ones(2), np.zeros(2), 0.1)),
        ("assertAllGreater", (tf.constant([2, 3]), 1), ([1, 3], 1)),
        ("assertAllGreaterEqual", ([1, 3], 1), ([0, 3], 1)),
        ("assertAllLess", ([0, 1], 2), ([0, 2], 2)),
        ("assertAllLessEqual", ([0, 2], 2), ([0, 3], 2)),
        ("assertAllInRange", ([0.0, 1.0], 0, 1), ([0.0, 1.0], 0, 1, True)),
        ("assertAllInRange", ([0.5], 0, 1, True, True), ([np.nan], 0, 1)),
        ("assertAllInSet", ([1, 2], {1, 2, 3}), ([1, 4], {1, 2, 3})),
        ("assertDTypeEqual", (tf.ones(1, tf.float16), np.float16), (tf.ones(1), np.float16)),
        ("assertShapeEqual", (np.ones((2, 1)), tf.ones((2, 1))), (np.ones(2), tf.ones((2, 1)))),
        ("assertLen", ([1, 2], 2), ([1], 2)),
    ],
)
def test_assertions(name, good, bad):
    if bad is None:  # structures that cannot be compared
        assert "ValueError" in run(lambda case: getattr(case, name)(*good))[0]
        return
    assert run(lambda case: getattr(case, name)(*good)) == []
    assert len(run(lambda case: getattr(case, name)(*bad))) == 1


def test_values_are_there_at_once():
    def body(case):
        with case.cached_session() as session:
            assert case.evaluate({"a": [tf.constant(2)], "b": 3}) == {"a": [2], "b": 3}
            with pytest.raises(TraceError, match=r"self\.evaluate"):
                session.run(tf.constant(1))
        folders.append(case.get_temp_dir())
        assert case.get_temp_dir() == folders[-1]
        assert os.path.isdir(folders[-1])
        drawn.append((random.random(), np.random.rand(), float(tf.random.normal([]))))

    folders, drawn = [], []
    assert [*run(body), *run(body)] == []
    assert len(set(folders)) == 2
    assert not any(map(os.path.exists, folders))
    assert drawn[0] == drawn[1]


@pytest.mark.processes
def test_a_program_of_tests_runs(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import muster_tensorflow.compat.v1 as tf\n"
        "class ATest(tf.test.TestCase):\n"
        "    def test_sum(self):\n"
        "        with self.test_session():\n"
        "            self.assertAllClose(self.evaluate(tf.reduce_sum([1.0, 2.0])), 3.0)\n"
        "tf.test.main()\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Ran 1 test" in done.stderr


def test_other_names_are_missing():
    assert tf.test.is_built_with_gpu_support() in (False, True)
    with pytest.raises(AttributeError, match="unittest or pytest"):
        getattr(tf.test, "noth" + "ing")
