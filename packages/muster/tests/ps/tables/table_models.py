"""Tables of plain dictionaries, and an update in NumPy, for tests."""

import numpy as np

from muster.ps.tables import Column, Constant, PaddedRows, RowBuffers, SlotSpec, TableSpec

SPEC = TableSpec(
    name="users",
    shape=(2,),
    initial=Constant(1.0),
    slots=(SlotSpec("sum", (2,), initial=0.5), SlotSpec("count", ())),
)
RATE = np.float32(0.5)


class Sums:
    """An update of gradient descent that keeps the sum of gradients, and how many there were, of each row."""

    def __init__(self):
        self.sizes = set()

    def __call__(self, rows, pushed, others):
        (gradients,) = pushed
        self.sizes.add(len(gradients))
        weights, sums, counts = rows
        return weights - others[0] * gradients, sums + gradients, counts + 1


def train(columns, places, given, update=None):
    """Update rows at places by gradients."""
    update_rows(PaddedRows(columns, [Column((2,), np.dtype(np.float32))]), places, given, update or Sums())


def update_rows(padded, places, given, update):
    """Update rows at places by what is pushed for them, as a store does."""
    for begin in range(0, len(places), padded.most):
        some = slice(begin, begin + padded.most)
        (taken,) = RowBuffers([padded], [padded.size(len(places[some]))]).tables
        padded.take(places[some], [given[some]], taken)
        padded.put(places[some], update(taken.rows, taken.pushed, [RATE]))


def summed(ids, given):
    """The ids in order, each once, and the sums of their gradients."""
    unique, where = np.unique(np.array(ids, np.int64), return_inverse=True)
    sums = np.zeros((len(unique), 2), np.float32)
    np.add.at(sums, where, given)
    return unique, sums


def train_hashed(table, ids, given):
    """Push to a hashed table."""
    unique, sums = summed(ids, given)
    places, have_rows = table.prepare(unique)()
    if len(places):
        train(table.columns, places, sums[have_rows])


def gradients(ids, seed=0):
    """Gradients that are sums of powers of two, so that no order of additions matters."""
    values = np.random.default_rng(seed).integers(-8, 8, (len(ids), 2))
    return values.astype(np.float32) / 4


class Rows:
    """Rows by id."""

    def __init__(self, initial=1.0):
        self.initial = initial
        self.rows = {}

    def new(self):
        return [np.full(2, self.initial, np.float32), np.full(2, 0.5, np.float32), np.float32(0)]

    def apply(self, ids, given):
        for each in dict.fromkeys(ids):
            gradient = sum(one for key, one in zip(ids, given, strict=True) if key == each)
            weights, sums, count = self.rows.get(each) or self.new()
            self.rows[each] = [weights - RATE * gradient, sums + gradient, count + 1]

    def look_up(self, ids):
        return np.array([(self.rows.get(each) or self.new())[0] for each in ids]).reshape(-1, 2)


class KeptRows(Rows):
    """Rows that are admitted and given up as `Keeping` says."""

    def __init__(self, keeping):
        super().__init__()
        self.keeping = keeping
        self.clock = 0
        self.last, self.counts = {}, {}  # of ids with rows, and of candidates

    def apply(self, ids, given):
        self.clock += 1
        old = set(self.rows)
        for each in set(ids):
            self.last[each], self.counts[each] = self.clock, self.counts.get(each, 0) + 1
        used = {each for each in ids if each in old or self.counts[each] >= self.keeping.admit_after}
        self._make_room(used)
        pairs = [(key, one) for key, one in zip(ids, given, strict=True) if key in used]
        super().apply([key for key, _ in pairs], [one for _, one in pairs])
        max_age = self.keeping.max_age
        if max_age is not None and self.clock % max(1, max_age // 8) == 0:
            for each in [key for key, at in self.last.items() if self.clock - at > max_age]:
                self.forget(each)

    def look_up(self, ids):
        found = super().look_up(ids)
        for row, each in zip(found, ids, strict=True):
            if each not in self.rows and self.counts.get(each, 0) + 1 < self.keeping.admit_after:
                row[:] = 0
        return found

    def forget(self, each):
        self.rows.pop(each, None)
        del self.last[each], self.counts[each]

    def _make_room(self, used):
        most = self.keeping.max_rows
        if most is None or (over := len(used | set(self.rows)) - most) <= 0:
            return
        others = [each for each in self.rows if each not in used]
        if self.keeping.evict == "recently":
            others.sort(key=lambda each: (self.last[each], each))
        else:
            others.sort(key=lambda each: (self.counts[each], self.last[each], each))
        for each in others[: over + most // 16]:
            self.forget(each)
