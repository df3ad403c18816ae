"""``tf.compat.v1.nn.rnn_cell``: cells of recurrent networks, with TensorFlow 1's variables and arguments.

Source: tensorflow/python/keras/layers/legacy_rnn/rnn_cell_impl.py.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from muster_tensorflow.library.ops._arrays import ArrayLike, DTypeLike, as_array, as_shape
from muster_tensorflow.library.ops._value_names import snake_case
from muster_tensorflow.library.ops.nn import _layers_of_nn
from muster_tensorflow.programs.v1.variables._variables import AUTO_REUSE, get_variable, variable_scope

STEP_KEY: ContextVar[Callable[[], jax.Array] | None] = ContextVar(
    "muster_tensorflow_rnn_step_key", default=None
)
"""Returns a random key of the time step whose cell is being called; None outside of ``dynamic_rnn``."""

Activation = Callable[[Any], Any] | None


class LSTMStateTuple(NamedTuple):
    """The state of an LSTM cell: ``c``, its memory, and ``h``, its output, both (batch, units)."""

    c: Any
    h: Any


class RNNCell:
    """A cell, which programs call with the inputs of a time step and a state: it returns output and state.

    Subclasses define ``state_size``, ``output_size``, and ``call(inputs, state)`` or ``__call__``.
    """

    name: str | None = None
    _has_variables = False

    def __init__(
        self, trainable: bool = True, name: str | None = None, dtype: DTypeLike = None, **unused: Any
    ) -> None:
        self.name = name

    @property
    def state_size(self) -> Any:
        """The sizes of the states of an example, in the structure of the state."""
        raise NotImplementedError(f"{type(self).__name__} does not define state_size.")

    @property
    def output_size(self) -> Any:
        """The size of the output of an example."""
        raise NotImplementedError(f"{type(self).__name__} does not define output_size.")

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Return the output and the next state of a time step."""
        raise NotImplementedError(f"{type(self).__name__} does not define call.")

    def __call__(self, inputs: ArrayLike, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Call the cell, with its variables below its name; called again, it takes the same variables."""
        name = scope or self.name or snake_case(type(self).__name__)
        with variable_scope(name, reuse=AUTO_REUSE if self._has_variables else None):
            result = self.call(jnp.asarray(as_array(inputs)), state)
        self._has_variables = True
        return result

    def zero_state(self, batch_size: Any, dtype: Any = jnp.float32) -> Any:
        """Return a state of zeros for a batch."""
        return jax.tree.map(lambda size: jnp.zeros(as_shape((batch_size, size)), dtype), self.state_size)


def linear(
    values: Any, units: int, kernel_initializer: Any = None, bias_initializer: Any = "zeros"
) -> jax.Array:
    """Multiply values by a variable ``kernel``, and add one called ``bias``."""
    kernel = get_variable("kernel", [values.shape[1], units], initializer=kernel_initializer)
    sums = values @ kernel.value
    found: jax.Array = sums + get_variable("bias", [units], initializer=bias_initializer).value
    return found


class _UnitsCell(RNNCell):
    """A cell whose state and output have as many values as it has units."""

    def __init__(
        self,
        num_units: int,
        activation: Activation = None,
        reuse: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        **unused: Any,
    ) -> None:
        super().__init__(name=name)
        self._num_units = int(num_units)
        self._activation = activation or jnp.tanh
        self._kernel_initializer = kernel_initializer
        self._bias_initializer = bias_initializer

    @property
    def state_size(self) -> Any:
        return self._num_units

    @property
    def output_size(self) -> Any:
        return self._num_units

    def _linear(self, values: Sequence[Any], units: int, bias: Any = "zeros") -> jax.Array:
        """Multiply values, one after the other, by ``kernel``, and add ``bias``."""
        return linear(
            jnp.concatenate([jnp.asarray(each) for each in values], axis=1),
            units,
            self._kernel_initializer,
            bias,
        )


class BasicRNNCell(_UnitsCell):
    """``output = state = activation(W [inputs, state] + b)``."""

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        output = self._activation(self._linear([inputs, state], self._num_units))
        return output, output


class GRUCell(_UnitsCell):
    """A GRU cell, whose reset gate is applied before the multiplication."""

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        with variable_scope("gates"):
            start = "ones" if self._bias_initializer is None else self._bias_initializer
            gates = jax.nn.sigmoid(self._linear([inputs, state], 2 * self._num_units, start))
        reset, update = jnp.split(gates, 2, axis=1)
        with variable_scope("candidate"):
            end = "zeros" if self._bias_initializer is None else self._bias_initializer
            candidate = self._activation(self._linear([inputs, reset * state], self._num_units, end))
        new = update * state + (1 - update) * candidate
        return new, new


class BasicLSTMCell(_UnitsCell):
    """An LSTM cell without peepholes and projection.

    Args:
        num_units: The number of units.
        forget_bias: Added to the forget gate's bias.
        state_is_tuple: Whether states are `LSTMStateTuple` s, rather than both parts in one array.
        activation: Of the inner states; None is tanh.
        reuse: Unused: a cell takes its variables again.
        name: The name of the cell.
        dtype: Unused.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: DTypeLike = None,
        **unused: Any,
    ) -> None:
        super().__init__(num_units, activation, name=name)
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple

    @property
    def state_size(self) -> Any:
        return (
            LSTMStateTuple(self._num_units, self._num_units) if self._state_is_tuple else 2 * self._num_units
        )

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        memory, before = state if self._state_is_tuple else jnp.split(state, 2, axis=1)
        i, j, f, o = jnp.split(self._linear([inputs, before], 4 * self._num_units), 4, axis=1)
        memory = memory * jax.nn.sigmoid(f + self._forget_bias) + jax.nn.sigmoid(i) * self._activation(j)
        output = self._activation(memory) * jax.nn.sigmoid(o)
        return output, LSTMStateTuple(memory, output) if self._state_is_tuple else jnp.concatenate(
            [memory, output], 1
        )


class LSTMCell(BasicLSTMCell):
    """An LSTM cell, which may clip its memory, and project its output.

    Args:
        num_units: The number of units.
        use_peepholes: Whether gates see the memory, each value by a weight.
        cell_clip: Clips the memory to this absolute value; None for none.
        initializer: Of the kernel.
        num_proj: The size of the output, which a matrix projects to; None for none.
        proj_clip: Clips the projected output; None for none.
        num_unit_shards: Unused.
        num_proj_shards: Unused.
        forget_bias: Added to the forget gate's bias.
        state_is_tuple: As for `BasicLSTMCell`.
        activation: Likewise.
        reuse: Unused.
        name: The name of the cell.
        dtype: Unused.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: Any = None,
        num_proj_shards: Any = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: DTypeLike = None,
        **unused: Any,
    ) -> None:
        super().__init__(num_units, forget_bias, state_is_tuple, activation, name=name)
        self._use_peepholes = use_peepholes
        self._kernel_initializer = initializer
        self._cell_clip = cell_clip
        self._num_proj = num_proj
        self._proj_clip = proj_clip

    @property
    def state_size(self) -> Any:
        sizes = LSTMStateTuple(self._num_units, self.output_size)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        return self._num_proj or self._num_units

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        memory, before = state if self._state_is_tuple else jnp.split(state, [self._num_units], axis=1)
        i, j, f, o = jnp.split(self._linear([inputs, before], 4 * self._num_units), 4, axis=1)
        kept = jax.nn.sigmoid(f + self._forget_bias + self._peephole("f", memory))
        added = jax.nn.sigmoid(i + self._peephole("i", memory)) * self._activation(j)
        memory = memory * kept + added
        if self._cell_clip is not None:
            memory = jnp.clip(memory, -self._cell_clip, self._cell_clip)
        output = self._activation(memory) * jax.nn.sigmoid(o + self._peephole("o", memory))
        if self._num_proj:
            with variable_scope("projection"):
                kernel = get_variable(
                    "kernel", [self._num_units, self._num_proj], initializer=self._kernel_initializer
                )
            output = output @ kernel.value
            if self._proj_clip is not None:
                output = jnp.clip(output, -self._proj_clip, self._proj_clip)
        return output, LSTMStateTuple(memory, output) if self._state_is_tuple else jnp.concatenate(
            [memory, output], 1
        )

    def _peephole(self, gate: str, memory: Any) -> Any:
        """Return what a gate sees of the memory."""
        if not self._use_peepholes:
            return 0
        name, shape = f"w_{gate}_diag", [self._num_units]
        return get_variable(name, shape, initializer=self._kernel_initializer).value * memory


class MultiRNNCell(RNNCell):
    """Cells on top of each other.

    Args:
        cells: The lowest one first.
        state_is_tuple: Only True: the state is a tuple of theirs.

    Raises:
        ValueError: There are no cells, or states are to be one array.
    """

    def __init__(self, cells: Sequence[RNNCell], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if not state_is_tuple:
            raise ValueError(
                "The state of MultiRNNCell is a tuple of the cells' states: leave state_is_tuple out."
            )
        self._cells = list(cells)

    @property
    def state_size(self) -> Any:
        return tuple(cell.state_size for cell in self._cells)

    @property
    def output_size(self) -> Any:
        return self._cells[-1].output_size

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        states = []
        for number, (cell, own) in enumerate(zip(self._cells, state, strict=True)):
            with variable_scope(f"cell_{number}"):
                inputs, new = cell(inputs, own)
            states.append(new)
        return inputs, tuple(states)

    def zero_state(self, batch_size: Any, dtype: Any = jnp.float32) -> Any:
        """Return those of the cells."""
        return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)


class Wrapper(RNNCell):
    """A cell around another one, below whose name the variables are."""

    def __init__(self, cell: RNNCell) -> None:
        super().__init__(name=cell.name)
        self._cell = cell

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    def __call__(self, inputs: ArrayLike, state: Any, scope: Any = None) -> tuple[Any, Any]:
        return self.call(inputs, state)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        return self._cell(inputs, state)

    def zero_state(self, batch_size: Any, dtype: Any = jnp.float32) -> Any:
        """Return the cell's."""
        return self._cell.zero_state(batch_size, dtype)


class DeviceWrapper(Wrapper):
    """The cell itself: strategies say which devices compute."""

    def __init__(self, cell: RNNCell, device: Any) -> None:
        super().__init__(cell)


class ResidualWrapper(Wrapper):
    """Adds the inputs to the outputs, or what ``residual_fn(inputs, outputs)`` says."""

    def __init__(self, cell: RNNCell, residual_fn: Callable[[Any, Any], Any] | None = None) -> None:
        super().__init__(cell)
        self._residual_fn = residual_fn or (lambda inputs, outputs: inputs + outputs)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        outputs, new = self._cell(inputs, state)
        return self._residual_fn(inputs, outputs), new


class DropoutWrapper(Wrapper):
    """Drops values of inputs, outputs and states, anew in each time step.

    Args:
        cell: The cell.
        input_keep_prob: The fraction of the inputs that stay, 1 for all.
        output_keep_prob: That of the outputs.
        state_keep_prob: That of the next state; the memory of LSTM cells stays as it is.
        variational_recurrent: Only False.
        input_size: Unused.
        dtype: Unused.
        seed: Unused.
        dropout_state_filter_visitor: Only None.

    Raises:
        ValueError: The same values are to be dropped in all time steps, or a visitor is given.
    """

    def __init__(
        self,
        cell: RNNCell,
        input_keep_prob: Any = 1.0,
        output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: DTypeLike = None,
        seed: int | None = None,
        dropout_state_filter_visitor: None = None,
        **unused: Any,
    ) -> None:
        super().__init__(cell)
        if variational_recurrent or dropout_state_filter_visitor is not None:
            raise ValueError(
                "DropoutWrapper drops values anew in each time step: leave variational_recurrent and "
                "dropout_state_filter_visitor out."
            )
        self._keep = (input_keep_prob, output_keep_prob, state_keep_prob)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        keep_inputs, keep_outputs, keep_states = self._keep
        outputs, new = self._cell(self._dropped(inputs, keep_inputs, 0), state)
        if isinstance(new, LSTMStateTuple):
            new = LSTMStateTuple(new.c, self._dropped(new.h, keep_states, 2))
        else:
            new = jax.tree.map(lambda each: self._dropped(each, keep_states, 2), new)
        return self._dropped(outputs, keep_outputs, 1), new

    def _dropped(self, values: Any, keep: Any, number: int) -> Any:
        if isinstance(keep, int | float) and keep >= 1:
            return values
        new_key = STEP_KEY.get()
        if new_key is None:
            return _layers_of_nn.dropout(values, 1 - keep)
        mine = jax.random.fold_in(jax.random.fold_in(new_key(), number), _number_of(self))
        return jnp.where(jax.random.bernoulli(mine, keep, jnp.shape(values)), values / keep, 0)


_NUMBERS: ContextVar[dict[int, int] | None] = ContextVar("muster_tensorflow_rnn_numbers", default=None)


@contextlib.contextmanager
def numbered() -> Iterator[None]:
    """Number the cells that drop values in a ``with`` block, so that each draws numbers of its own."""
    token = _NUMBERS.set({} if _NUMBERS.get() is None else _NUMBERS.get())
    try:
        yield
    finally:
        _NUMBERS.reset(token)


def _number_of(cell: RNNCell) -> int:
    numbers = _NUMBERS.get()
    return 0 if numbers is None else numbers.setdefault(id(cell), len(numbers))
