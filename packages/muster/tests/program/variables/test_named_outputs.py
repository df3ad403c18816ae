"""Outputs have unique names; scalars are averaged over the replicas."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from muster.program._replicas import Replicas
from muster.program.variables._named_outputs import NamedOutputs


def test_a_name_that_is_taken_or_reserved_gets_a_number():
    outputs = NamedOutputs()
    outputs.reserve("loss")
    first, second = jnp.float32(1), jnp.float32(2)
    assert [outputs.add("loss", first), outputs.add("loss", second)] == ["loss_1", "loss_2"]
    assert outputs.name_of(second) == "loss_2"
    assert outputs.name_of(jnp.float32(1)) is None
    assert outputs.values() == {"loss_1": first, "loss_2": second}


def test_only_scalar_floats_are_averaged():
    def on_replica(index):
        outputs = NamedOutputs()
        outputs.add("scalar", index.astype(jnp.float32))
        outputs.add("integer", index)
        outputs.add("rows", index.astype(jnp.float32)[None])
        add = functools.partial(jax.lax.psum, axis_name="replica")
        return outputs.values(Replicas(index=index, all_reduce=add, count=2, active=2))

    values = jax.vmap(on_replica, axis_name="replica")(jnp.arange(2))
    np.testing.assert_array_equal(values["scalar"], [0.5, 0.5])
    np.testing.assert_array_equal(values["integer"], [0, 1])
    np.testing.assert_array_equal(values["rows"], [[0], [1]])
