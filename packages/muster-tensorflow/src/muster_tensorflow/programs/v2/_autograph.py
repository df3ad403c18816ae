"""``tf.autograph``: accepted, with no effect."""

import enum
import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any


class Feature(enum.Enum):
    """Names the conversions of AutoGraph beyond branches and loops.

    Source: tensorflow/python/autograph/core/converter.py, ``Feature``.
    """

    ALL = "ALL"
    AUTO_CONTROL_DEPS = "AUTO_CONTROL_DEPS"
    ASSERT_STATEMENTS = "ASSERT_STATEMENTS"
    BUILTIN_FUNCTIONS = "BUILTIN_FUNCTIONS"
    EQUALITY_OPERATORS = "EQUALITY_OPERATORS"
    LISTS = "LISTS"
    NAME_SCOPES = "NAME_SCOPES"

    @classmethod
    def all(cls) -> tuple["Feature", ...]:
        """Return all features."""
        return tuple(cls)

    @classmethod
    def all_but(cls, exclude: "Feature | Sequence[Feature]") -> tuple["Feature", ...]:
        """Return all features but one or several; ``ALL`` is none of them then."""
        left_out = [exclude] if isinstance(exclude, Feature) else list(exclude)
        return tuple(each for each in cls if each not in [*left_out, cls.ALL])


def do_not_convert(func: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return the function: none is converted."""
    return func if func is not None else lambda function: function


def to_graph(
    entity: Callable[..., Any], recursive: bool = True, experimental_optional_features: object = None
) -> Callable[..., Any]:
    """Return the function: none is converted."""
    return entity


def to_code(
    entity: Callable[..., Any], recursive: bool = True, experimental_optional_features: object = None
) -> str:
    """Return the source of the function, which is what is traced: none is converted."""
    return textwrap.dedent(inspect.getsource(inspect.unwrap(entity)))


def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """Do nothing: there is nothing to log."""


def set_loop_options(
    parallel_iterations: int | None = None,
    swap_memory: bool | None = None,
    maximum_iterations: int | None = None,
    shape_invariants: object = None,
) -> None:
    """Do nothing: a loop is Python's, and what it changes may have other shapes each time.

    Raises:
        ValueError: ``maximum_iterations`` is given, and the loop would go on.
    """
    if maximum_iterations is not None:
        raise ValueError(
            f"set_loop_options cannot end a loop, got maximum_iterations={maximum_iterations!r}: a loop is "
            "Python's. Count in its condition, or use tf.while_loop."
        )
