"""Whether steps run untraced, for debugging."""

from contextvars import ContextVar

_EAGER: ContextVar[bool] = ContextVar("muster_run_functions_eagerly", default=False)


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Run steps untraced from now on, so that ``print`` and breakpoints in them see numbers. Slow.

    Source: tensorflow/python/eager/polymorphic_function/eager_function_run.py, ``run_functions_eagerly``.
    """
    _EAGER.set(run_eagerly)


def functions_run_eagerly() -> bool:
    """Whether steps run untraced."""
    return _EAGER.get()
