"""The status object that ``tf.train.Checkpoint.restore`` returns, with its assertions."""

from collections.abc import Callable, Sequence


class Restored:
    """The result of ``restore``, which has matched the variables of the program, or raised an error.

    Args:
        path: The checkpoint.
        left: Functions that list the names of variables that only the checkpoint has.
        unmatched: The names of objects of the program that it cannot have, such as an optimizer.
    """

    def __init__(
        self,
        path: str = "",
        left: Sequence[Callable[[], list[str]]] = (),
        unmatched: Sequence[str] = (),
    ) -> None:
        self._path, self._left, self._unmatched = path, left, unmatched

    def assert_consumed(self) -> "Restored":
        """Check that all of the checkpoint was used.

        Raises:
            AssertionError: It has objects that are not in the program, or lacks some of those.
        """
        self.assert_existing_objects_matched()
        left = [name for names in self._left for name in names()]
        if left:
            raise AssertionError(
                f"{self._path} has {len(left)} variables that are not here, such as {left[0]}. "
                "Give their objects to the Checkpoint, too, or leave the check out."
            )
        return self

    def assert_existing_objects_matched(self) -> "Restored":
        """Check that all variables of the program were in the checkpoint.

        Raises:
            AssertionError: It is an exported model, and has no optimizer, metric or iterator.
        """
        if self._unmatched:
            raise AssertionError(
                f"{self._path} is an exported model, and has nothing of {', '.join(self._unmatched)}: these "
                "stay as they are. Leave the check out if that is meant."
            )
        return self

    def expect_partial(self) -> "Restored":
        """Do nothing: there is nothing to warn of."""
        return self

    def run_restore_ops(self, session: None = None) -> None:
        """Do nothing: the values are there already."""

    initialize_or_restore = run_restore_ops
