"""Places where a front end takes part in how an Estimator gets its input."""

from collections.abc import Callable
from typing import Any


class InputHooks:
    """Lets a front end change how the input of Estimators is made.

    Attributes:
        called: Takes what calls an input_fn, and whether it is for training; returns the input. None calls
            it, and takes what it returns.
        before_reading: Takes what an input_fn returned and the hooks of the run, before the first batch is
            read. None for nothing.
    """

    called: Callable[[Callable[[], Any], bool], Any] | None = None
    before_reading: Callable[[Any, Any], None] | None = None
