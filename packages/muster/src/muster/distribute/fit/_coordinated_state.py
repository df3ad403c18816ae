"""The state of a model whose variables are on servers."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from muster.distribute.fit._model_state import ModelState
from muster.program.variables import give_to_owner, together
from muster.program.variables.keras_internals import keep_no_state

# The methods of a model that read or assign all of its variables, and those of its metrics.
_ALL_VALUES = ("export", "get_weights", "load_weights", "save", "save_weights", "set_weights")
_METRICS = ("get_metrics_result", "reset_metrics")


class CoordinatedState(ModelState):
    """Leaves values on the servers, and reads many of them at once."""

    def attach(self) -> None:
        super().attach()
        model = self._model
        keep_no_state(model)
        for names, variables in ((_ALL_VALUES, self.variables), (_METRICS, self._metrics)):
            for name in names:
                method = functools.partial(self._together, variables, name)
                setattr(model, name, functools.wraps(getattr(type(model), name))(method))

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Compile in the strategy's scope; servers get the variables of an optimizer made outside of it, too.

        Source: keras/src/engine/training.py of Keras 2.15, ``Model.compile``.
        """
        with self._strategy.scope():
            yield
            for variable in self._model.optimizer.variables:
                give_to_owner(variable)

    def unshare(self) -> None:
        """Nothing overwrites values: they are on servers."""

    def _metrics(self) -> list[Any]:
        return list(self._model.metrics_variables)

    def _together(self, variables: Callable[[], list[Any]], name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of Keras' that reads or assigns these variables of the model."""
        model = self._model
        with together(variables()):
            return getattr(type(model), name)(model, *args, **kwargs)
