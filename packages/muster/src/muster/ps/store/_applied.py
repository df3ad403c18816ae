"""Remember the closures that a server has applied, so that each is applied once."""

from collections.abc import Iterable


class Applied:
    """Remembers the numbers of closures that were applied.

    Closures end in any order, and one whose worker was lost comes again, perhaps twice. Those below a
    watermark have all ended, and need not be remembered one by one.

    Args:
        watermark: The number below which all closures have ended.
        numbers: Those that were applied, from there on.
    """

    def __init__(self, watermark: int = 0, numbers: Iterable[int] = ()) -> None:
        self.watermark = watermark
        self._numbers = set(numbers)

    def __contains__(self, number: int) -> bool:
        return number < self.watermark or number in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, number: int) -> None:
        """Note a closure that was applied."""
        self._numbers.add(number)

    def forget(self, watermark: int) -> None:
        """Forget the closures below a watermark, which come no more; a lower one than before says nothing."""
        if watermark > self.watermark:
            self.watermark = watermark
            self._numbers = {number for number in self._numbers if number >= watermark}

    def numbers(self) -> tuple[int, ...]:
        """Return those that are remembered."""
        return tuple(sorted(self._numbers))
