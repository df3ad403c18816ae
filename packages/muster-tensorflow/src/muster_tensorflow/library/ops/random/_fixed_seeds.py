"""Deterministic seeds for tests: two programs that draw in the same order draw the same numbers.

Programs decide them by `DeterministicRandomTestTool`, or by another ``get_seed`` in this module: what draws
random numbers asks it, as TensorFlow does.

Source: tensorflow/python/framework/random_seed.py; keras/legacy_tf_layers/migration_utils.py.
"""

import contextlib
import random
import sys
from collections.abc import Iterator

from muster import keras
from muster.extend import only_shapes_are_asked

_DEFAULT = 87654321
_MODES = ("constant", "num_random_ops")


def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """Return the seed of the program, and that of an operation.

    Args:
        op_seed: The seed that the operation was given, if any.
    """
    of_program = keras.src.utils.rng_utils.get_random_seed()
    if of_program is None:
        return (None, None) if op_seed is None else (_DEFAULT, op_seed)
    seeds = of_program, random.randint(0, 2**31 - 1) if op_seed is None else op_seed
    return (0, 2**31 - 1) if seeds == (0, 0) else seeds


_own = get_seed


def fixed_seed() -> tuple[int, int] | None:
    """Return the seeds of the operation that draws now, if a test decides; None otherwise."""
    if get_seed is _own or only_shapes_are_asked():
        return None
    of_program, of_operation = get_seed(None)
    return int(of_program or 0), int(of_operation or 0)


class DeterministicRandomTestTool:
    """Lets operations draw random numbers by seeds alone, to compare two programs.

    The numbers are the same in both, and not TensorFlow's.

    Args:
        seed: The seed of the program.
        mode: ``"constant"`` for one seed for all operations; ``"num_random_ops"`` for the number of
            those that have drawn before.

    Attributes:
        operation_seed: The seed of the next operation.

    Raises:
        ValueError: There is no such mode.

    Source: ``tf.compat.v1.keras.utils.DeterministicRandomTestTool``.
    """

    def __init__(self, seed: int = 42, mode: str = "constant") -> None:
        if mode not in _MODES:
            raise ValueError(f"mode is 'constant' or 'num_random_ops', got {mode!r}.")
        self._mode = mode
        self._seed = seed
        self.operation_seed = 0
        self._used: set[int] = set()

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Decide seeds in a ``with`` block.

        Raises:
            ValueError: An operation draws by a seed that another one had, in the mode ``"num_random_ops"``.
        """
        module = sys.modules[__name__]
        before = get_seed
        keras.utils.set_random_seed(self._seed)
        module.get_seed = self._get_seed  # type: ignore[attr-defined]
        try:
            yield
        finally:
            module.get_seed = before  # type: ignore[attr-defined]

    def _get_seed(self, op_seed: int | None) -> tuple[int, int]:
        number = self.operation_seed
        if self._mode == "num_random_ops":
            if number in self._used:
                raise ValueError(
                    f"The operation seed {number} has been used already: set operation_seed to one that no "
                    "operation has had."
                )
            self._used.add(number)
            self.operation_seed += 1
        return self._seed, number
