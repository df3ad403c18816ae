"""Give functions TensorFlow's parameter names and order where muster's differ."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


def takes(function: Callable[..., Result], parameters: str) -> Callable[..., Result]:
    """Make a function that takes TensorFlow's parameters, in its order, and hands them on.

    What is None is not handed on, so that the function's own default is taken.

    Args:
        function: The function.
        parameters: TensorFlow's names. ``"new"`` is handed on under this name, ``"old=new"`` under another
            one, several of which may mean the same; ``"old="`` is taken, and has no effect here.

    Raises:
        TypeError: The function has no parameter of a name that is to be handed on.
    """
    pairs = [each.partition("=") for each in parameters.split()]
    meant = {name: new if is_other else name for name, is_other, new in pairs}
    own = inspect.signature(function).parameters
    if unknown := [new for new in meant.values() if new and new not in own]:
        raise TypeError(f"{function.__name__} takes {list(own)}, not {unknown}.")
    by_place = [name for name, each in own.items() if each.kind is each.POSITIONAL_ONLY]
    signature = inspect.Signature(
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None) for name in meant]
    )

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Result:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as exc:
            raise TypeError(f"{function.__name__}() {exc}; it takes {', '.join(meant)}.") from None
        handed: dict[str, Any] = {}
        for name, value in given.items():
            new = meant[name]
            if not new or value is None:
                continue
            if new in handed:
                same = " or ".join(each for each, what in meant.items() if what == new and each in given)
                raise ValueError(f"Give {function.__name__} either {same}, which mean the same.")
            handed[new] = value
        return function(*(handed.pop(name) for name in by_place if name in handed), **handed)

    vars(call)["__signature__"] = signature
    return call
