"""The status object that ``tf.train.Checkpoint.restore`` returns, with its assertions."""

from collections.abc import Callable, Sequence


class Restored:
    """The result of ``restore``, which has matched all variables of the program, or raised an error.

    Args:
        path: The checkpoint.
        left: Functions that list the names of variables that only the checkpoint has.
    """

    def __init__(self, path: str = "", left: Sequence[Callable[[], list[str]]] = ()) -> None:
        self._path, self._left = path, left

    def assert_consumed(self) -> "Restored":
        """Check that all of the checkpoint was used.

        Raises:
            AssertionError: It has objects that are not in the program.
        """
        left = [name for names in self._left for name in names()]
        if left:
            raise AssertionError(
                f"{self._path} has {len(left)} variables that are not here, such as {left[0]}. "
                "Give their objects to the Checkpoint, too, or leave the check out."
            )
        return self

    def assert_existing_objects_matched(self) -> "Restored":
        """Pass: all variables were in the checkpoint."""
        return self

    def expect_partial(self) -> "Restored":
        """Do nothing: there is nothing to warn of."""
        return self

    def run_restore_ops(self, session: None = None) -> None:
        """Do nothing: the values are there already."""

    initialize_or_restore = run_restore_ops
