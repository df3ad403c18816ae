"""Whether steps run untraced, for debugging."""

_eager = False


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Run steps untraced from now on, so that ``print`` and breakpoints in them see numbers. Slow.

    It counts for the whole process, as in TensorFlow.

    Source: tensorflow/python/eager/polymorphic_function/eager_function_run.py, ``run_functions_eagerly``.
    """
    global _eager
    _eager = run_eagerly


def functions_run_eagerly() -> bool:
    """Whether steps run untraced."""
    return _eager
