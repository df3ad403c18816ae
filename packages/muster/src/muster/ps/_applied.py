"""Which requests were applied, of those that are numbered: each counts once."""

from collections.abc import Iterable


class Applied:
    """The numbers of one source's requests that were applied.

    They come in any order: a closure whose worker was lost comes again, perhaps twice, and so does the push
    of a worker whose connection broke. Those below a watermark need not be remembered one by one.

    Args:
        watermark: The number below which all have been applied, or come no more.
        numbers: Those that were applied, from there on.

    Attributes:
        watermark: The lowest number that has not been applied.
    """

    def __init__(self, watermark: int = 0, numbers: Iterable[int] = ()) -> None:
        self.watermark = watermark
        self._numbers = set(numbers)
        self._settle()

    @classmethod
    def except_for(cls, open: Iterable[int], count: int) -> "Applied":
        """Return as many numbers as a count, from 0 on, without those that are open."""
        left = set(open)
        stop = count + len(left)
        start = min(left, default=stop)
        return cls(start, set(range(start, stop)) - left)

    def __contains__(self, number: int) -> bool:
        return number < self.watermark or number in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def count(self) -> int:
        """The number of those that were applied."""
        return self.watermark + len(self._numbers)

    @property
    def open(self) -> tuple[int, ...]:
        """Those that were not, below the last one that was."""
        return tuple(
            number
            for number in range(self.watermark, max(self._numbers, default=self.watermark))
            if number not in self._numbers
        )

    def add(self, number: int) -> bool:
        """Note a request, and return whether it is to be applied: not for a second time."""
        if number in self:
            return False
        self._numbers.add(number)
        self._settle()
        return True

    def forget(self, watermark: int) -> None:
        """Forget those below a watermark, which come no more; a lower one than before says nothing."""
        if watermark > self.watermark:
            self.watermark = watermark
            self._numbers = {number for number in self._numbers if number >= watermark}
            self._settle()

    def numbers(self) -> tuple[int, ...]:
        """Return those that are remembered one by one."""
        return tuple(sorted(self._numbers))

    def _settle(self) -> None:
        while self.watermark in self._numbers:
            self._numbers.remove(self.watermark)
            self.watermark += 1
