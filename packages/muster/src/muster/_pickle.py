"""Pickle functions by value, with the names of their files for tracebacks."""

import io
import types
from collections.abc import Callable
from typing import Any

import cloudpickle


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """cloudpickle's pickler, which keeps the file names of code.

    cloudpickle drops them since 3.1.3, and a traceback from another process no longer shows the lines.
    """

    def reducer_override(self, obj: Any) -> Any:
        """Add its file's name to code."""
        if isinstance(obj, types.CodeType):
            make, arguments = self.dispatch_table[types.CodeType](obj)
            return _code, (make, arguments, obj.co_filename)
        return super().reducer_override(obj)


def dumps(obj: Any) -> bytes:
    """Pickle an object, with its functions by value where their module cannot be imported elsewhere."""
    file = io.BytesIO()
    Pickler(file).dump(obj)
    return file.getvalue()


def _code(make: Callable[..., types.CodeType], arguments: tuple[Any, ...], filename: str) -> types.CodeType:
    return make(*arguments).replace(co_filename=filename)
