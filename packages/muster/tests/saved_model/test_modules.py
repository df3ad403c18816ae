"""Modules of saved models say nothing of the machine that exported them."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from muster.data import TensorSpec
from muster.saved_model import symbolic_arguments, trace
from muster.saved_model._modules import normalizer_module, read_module, to_module

ARGUMENTS = symbolic_arguments({"x": TensorSpec([None, 3], np.float32)}, (), None)


def module() -> bytes:
    def compute(weights, arguments):
        return {"y": jax.nn.softmax(jnp.sort(arguments["x"]) @ weights["w"])}

    return to_module(trace(compute, {"w": np.ones((3, 2), np.float32)}, ARGUMENTS), ["y"]).data


def normalizer() -> bytes:
    return normalizer_module(lambda x: jnp.log1p(x) / 2, ARGUMENTS["x"])


@pytest.fixture(params=[True, False], ids=["tracebacks", "frames"])
def setting(request):
    name = "jax_include_full_tracebacks_in_locations"
    before = getattr(jax.config, name)
    jax.config.update(name, request.param)
    yield lambda: getattr(jax.config, name) is request.param
    jax.config.update(name, before)


@pytest.mark.parametrize("export", [module, normalizer])
def test_modules_have_no_paths(setting, export):
    limit = jax.config.jax_traceback_in_locations_limit
    data = export()
    for path in (os.getcwd(), os.path.dirname(__file__), "site-packages", os.path.expanduser("~/"), ".py"):
        assert path.encode() not in data
    assert setting()
    assert jax.config.jax_traceback_in_locations_limit == limit


PROGRAM = """
import sys
import jax, jax.numpy as jnp, numpy as np
from muster.data import TensorSpec
from muster.saved_model import PREDICT, Feature, Output, SignatureToSave, save, symbolic_arguments, trace

def compute(weights, arguments):
    return {"y": jax.nn.softmax(arguments["x"] @ weights["w"] + jnp.sort(weights["b"]))}

weights = {"w": np.ones((3, 2), np.float32), "b": np.ones(2, np.float32)}
inputs = {"x": TensorSpec([None, 3], np.float32)}
signature = SignatureToSave(
    method_name=PREDICT, inputs=inputs, outputs={"y": Output("y")}, features={"x": Feature("x")},
    computation=trace(compute, weights, symbolic_arguments(inputs, (), None)),
)
save("exported", {"serving_default": signature})
"""


@pytest.mark.processes
def test_a_model_has_the_same_modules_from_all_folders(tmp_path):
    written = []
    for folder in ("here", "elsewhere/deeper"):
        program = tmp_path / folder / "program.py"
        program.parent.mkdir(parents=True)
        program.write_text(PROGRAM)
        subprocess.run([sys.executable, program], cwd=program.parent, check=True, timeout=120)
        exported = Path(program.parent, "exported")
        written.append({path.name: path.read_bytes() for path in exported.iterdir()})
    assert written[0] == written[1]


def test_what_a_module_does_not_take_may_have_any_size():
    specs = {"x": TensorSpec([None, 3], np.float32), "unused": TensorSpec([None, None], np.float32)}

    def compute(weights, arguments):
        return {"y": arguments["x"] * 2, "other": arguments["unused"] + 1}

    made = to_module(trace(compute, {}, symbolic_arguments(specs, (), None)), ["y"])
    assert made.arguments == ("x",)
    assert read_module(made.data, "y")([], {"x": np.ones((2, 3), np.float32)})[0].tolist() == [[2.0] * 3] * 2
