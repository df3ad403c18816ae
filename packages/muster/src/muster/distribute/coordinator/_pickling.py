"""Pickle dataset functions for workers: the only program code that is sent."""

import functools
import io
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from muster._keras import keras
from muster._pickle import Pickler
from muster.data import Dataset, is_kind
from muster.distribute.closures import WorkerStrategy, same
from muster.distribute.functions._function import Function
from muster.distribute.strategies._strategy import Strategy

# The factory of each kind of lock: a copy has its own.
_LOCKS = {type(make()): make for make in (threading.Lock, threading.RLock)}


def pickled(source: Dataset | Callable[[], Any]) -> bytes:
    """Pickle a dataset, or a function that makes one, as a function that makes it.

    Raises:
        ValueError: It needs variables, or something that belongs to this process.
    """
    make: Any = source
    if isinstance(source, Dataset):
        make = functools.partial(same, source)
    elif isinstance(source, Function):
        make = source.python_function
    file = io.BytesIO()
    try:
        _Pickler(file).dump(make)
    except ValueError:
        raise
    except Exception as exc:  # whatever the things raise that it is made of
        raise ValueError(
            f"The dataset {source!r} cannot be sent to workers: {exc}. Read files, and open what else it "
            "needs, inside of a function, which workers call, and give that to create_per_worker_dataset."
        ) from exc
    return file.getvalue()


class _Pickler(Pickler):
    def reducer_override(self, obj: Any) -> Any:
        """Replace what belongs to this process."""
        if isinstance(obj, keras.Variable):
            raise ValueError(
                f"The function of a dataset uses the variable {obj.path!r}. It runs on workers, where no "
                "variable is. Use values in its place: float(variable) or np.asarray(variable)."
            )
        if isinstance(obj, Strategy):
            return WorkerStrategy, ()
        if isinstance(obj, Function):
            return Function, (obj.python_function, obj.input_signature)
        if is_kind(obj, "absl", "FlagValues"):  # workers have the values, without the flags' definitions
            return SimpleNamespace, (), obj.flag_values_dict()
        if type(obj) in _LOCKS:
            return _LOCKS[type(obj)], ()
        return super().reducer_override(obj)
