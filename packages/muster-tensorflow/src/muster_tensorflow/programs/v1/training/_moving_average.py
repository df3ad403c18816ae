"""``tf.train.ExponentialMovingAverage``."""

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import jax.numpy as jnp

from muster import keras
from muster.extend import active_scope
from muster.program import TrainOp, train_op_of, trainable_variables
from muster_tensorflow.library.ops._arrays import as_array
from muster_tensorflow.library.ops._value_names import name_of, path_of


class ExponentialMovingAverage:
    """Keeps moving averages of variables, and of other values of a step, in variables of their own.

    These are saved, too. Averages of values that are no variables, such as a loss, start from 0.

    Args:
        decay: How much of an average stays in each step.
        num_updates: A count of steps, with which the decay grows: ``min(decay, (1 + n) / (10 + n))``.
        zero_debias: Unused: averages of variables start from their values.
        name: What the averages are called, after their variables.

    Source: tensorflow/python/training/moving_averages.py, ``ExponentialMovingAverage``.
    """

    def __init__(
        self,
        decay: float,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        self._decay = decay
        self._num_updates = num_updates
        self._name = name
        self._averages: dict[int, tuple[Any, keras.Variable]] = {}  # with what it is of, which keeps its id

    @property
    def name(self) -> str:
        """The name of the averages."""
        return self._name

    def apply(self, var_list: Iterable[Any] | None = None) -> TrainOp:
        """Update averages, where the model_fn runs what this returns, or in its train_op.

        After a step of an optimizer that runs before, they are averages of the new values.

        Args:
            var_list: The variables, and floating-point values of the step; None takes all trainable variables
                so far.

        Raises:
            TraceError: No model_fn is being traced.
        """
        variables = list(trainable_variables() if var_list is None else var_list)
        averages = [self._average_of(variable) for variable in variables]

        def update() -> None:
            decay: Any = self._decay
            if self._num_updates is not None:
                count = jnp.asarray(as_array(self._num_updates), "float32")
                decay = jnp.minimum(decay, (1 + count) / (10 + count))
            for average, variable in zip(averages, variables, strict=True):
                new = variable.value if isinstance(variable, keras.Variable) else variable
                average.assign(average.value - (1 - decay) * (average.value - new))

        return train_op_of(self._name, update, held=path_of("") is not None)

    def average(self, var: Any) -> keras.Variable | None:
        """Return the variable that holds the average of what `apply` was given; None of anything else."""
        return self._averages.get(id(var), (None, None))[1]

    def average_name(self, var: Any) -> str:
        """Return the path of the average of a variable or value."""
        return f"{_name_of(var)}/{self._name}"

    def variables_to_restore(
        self, moving_avg_variables: Iterable[keras.Variable] | None = None
    ) -> dict[str, keras.Variable]:
        """Return the variables of the model_fn so far by their names in checkpoints: those of averages.

        A ``Saver`` of these, in the ``Scaffold`` of an evaluation or prediction, gives variables their
        averages.

        Args:
            moving_avg_variables: The variables that have averages; None takes all trainable ones. Others have
                their own names.

        Raises:
            TraceError: No model_fn is being traced.
        """
        given = trainable_variables() if moving_avg_variables is None else moving_avg_variables
        averaged = {id(each): each for each in given}
        pairs = active_scope("ExponentialMovingAverage.variables_to_restore").bindings.table.pairs
        others = {spec.path: each for spec, each in pairs if not spec.local and id(each) not in averaged}
        return {self.average_name(each): each for each in averaged.values()} | others

    def _average_of(self, var: Any) -> keras.Variable:
        if (known := self.average(var)) is not None:
            return known
        if isinstance(var, keras.Variable):
            # Its first value in this step: the present one may depend on the batch.
            first = active_scope("ExponentialMovingAverage.apply").versions(var)[0]
        else:
            first = jnp.zeros(var.shape, var.dtype)
        same = sum(_name_of(each) == _name_of(var) for each, _ in self._averages.values())
        name = f"{_name_of(var)}_{same}" if same else _name_of(var)
        with ExitStack() as scopes:
            for part in name.split("/"):
                scopes.enter_context(keras.name_scope(part))
            average = keras.Variable(first, trainable=False, name=self._name, aggregation="mean")
        self._averages[id(var)] = var, average
        return average


def _name_of(var: Any) -> str:
    """Return what the average of a variable or value is called after."""
    path: str = var.path if isinstance(var, keras.Variable) else name_of(var).removesuffix(":0")
    return path
