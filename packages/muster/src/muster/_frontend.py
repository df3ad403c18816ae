"""Hold the installed front end: the package whose values programs see in place of muster's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Frontend:
    """Replaces values that programs see, and runs code that muster would refuse.

    A front end makes one and installs it, once for the process: see `install`. What is None or empty leaves
    muster as it is.

    Attributes:
        elements: Takes elements of a `Dataset` that are read together, and returns what
            ``for element in dataset`` yields for each.
        argument: Takes an element, and returns what the function of a dataset's operation gets for it.
        batch: Takes a batch of a distributed dataset, and returns what a loop over it yields.
        part: Takes a part or a result of a ragged or sparse tensor, such as its values, and returns what the
            program gets for it.
        mend: Takes the error of a trace; changes the code that it comes from, and returns whether another
            trace may succeed.
        uncompiled_after: The errors after which ``strategy.run`` calls code of a single replica uncompiled.
        source: Takes what a dataset is to be made of, and whether as one element; returns the source of the
            dataset, or None if these are plain values.
        input: Takes what calls an input_fn, and whether it is for training; returns the input.
        before_reading: Takes what an input_fn returned and the hooks of the run, before the first batch is
            read.
        before_canned: Takes a canned Estimator that a program makes, before it is one.
        rules: How operations on text compute many elements of a dataset at a time, by the operation: a rule
            takes it and its arguments, as `muster.data.of_each` does.
        folders: The front end's own folders, as absolute paths: an error that names a line of the user's
            looks outside of them.

    Example:
        install(Frontend(part=np.asarray))
    """

    elements: Callable[[list[Any]], list[Any]] | None = None
    argument: Callable[[Any], Any] | None = None
    batch: Callable[[Any], Any] | None = None
    part: Callable[[Any], Any] | None = None
    mend: Callable[[Exception], bool] | None = None
    uncompiled_after: tuple[type[Exception], ...] = ()
    source: Callable[[Any, bool], Any] | None = None
    input: Callable[[Callable[[], Any], bool], Any] | None = None
    before_reading: Callable[[Any, Any], None] | None = None
    before_canned: Callable[[Any], None] | None = None
    rules: Mapping[Any, Callable[[Callable[..., Any], Any, Any], Any]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()

    def shown_part(self, value: Any) -> Any:
        """Return what a program gets for a part or a result of a ragged or sparse tensor."""
        return value if self.part is None else self.part(value)


_PLAIN = Frontend()
_installed = _PLAIN


def install(frontend: Frontend | None) -> Frontend | None:
    """Let programs of this process see what a front end shows them.

    Args:
        frontend: The front end; None for muster as it is.

    Returns:
        The one that was installed before, to return to; None if there was none.

    Raises:
        ValueError: Another front end is installed: two would show the same values in two ways.
    """
    global _installed
    before = None if _installed is _PLAIN else _installed
    if frontend is not None and before is not None and before != frontend:
        raise ValueError(f"A front end is installed already, {before}: install(None) takes it away first.")
    _installed = _PLAIN if frontend is None else frontend
    return before


def frontend() -> Frontend:
    """Return the front end that is installed; one that changes nothing if there is none."""
    return _installed
