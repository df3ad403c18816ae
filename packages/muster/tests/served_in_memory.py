"""Parameter servers in this process, without sockets: they hold what plans say, and run updates."""

import numpy as np

from muster.distribute.engine._flat_arrays import RowRange
from muster.distribute.servers._remote_servers import plans_of
from muster.ps import FlatLayout, Held, Pulled
from muster.ps import _messages as messages
from muster.ps._store import Store
from muster.ps.contents import FunctionLayout
from muster.ps.contents.updates import JaxDevice


class MemoryServers:
    """Servers in this process: they hold what plans say, and run updates."""

    count = 2
    current = upcoming = None  # batches, where a test says so
    fetches_ahead = True
    shared = None

    def __init__(self):
        self.plans, self.pushes, self.lookups, self.looked_up = [], 0, 0, 0

    def start(self, division, values):
        assert not self.plans
        self.plans = plans_of(division)
        self.held = [Store(JaxDevice()) for _ in self.plans]
        for plan, held, given in zip(self.plans, self.held, division.split(values), strict=True):
            held.take_plan(plan.encode())
            for spec, pieces in zip(plan.columns, given.columns, strict=True):
                held.change(messages.AssignRows(name=spec.name, start=0), [np.concatenate([*pieces])])
            held.change(messages.Initialize(), [*given.pulled.values(), *given.kept.values()])
        return self.pull()

    def look_up(self, ids):
        self.lookups += 1
        return self._rows(ids)

    def _rows(self, ids):
        rows = []
        for plan, held, asked in zip(self.plans, self.held, ids, strict=True):
            counts = tuple(map(len, asked))
            self.looked_up += sum(counts)
            layout, name = FunctionLayout(plan.signature), held.fingerprint
            found = held.contents.asked(name, counts, layout.pack_ids(asked) if asked else ())
            rows.append([look_up() for look_up in found])
        return rows

    def push_and_pull(self, pushed):
        self.pushes += 1
        for plan, held, push in zip(self.plans, self.held, pushed, strict=True):
            arrays = FunctionLayout(plan.signature).pack_pushed([*push.flat.values(), *push.whole], push.rows)
            counts, name = tuple(len(ids) for ids, _ in push.rows), held.fingerprint
            held.contents.run(name, held.contents.prepare(name, counts, arrays))
        rows = self._rows([push.asks for push in pushed])
        return [Pulled(None, *each) for each in zip(self.pull(), rows, strict=True)]

    def pull(self):
        layouts = [FlatLayout(plan.pulled) for plan in self.plans]
        pulled = [[array.copy() for array in held.contents.pull(held.fingerprint)] for held in self.held]
        return [
            dict(zip(layout.sizes, each, strict=True)) for layout, each in zip(layouts, pulled, strict=True)
        ]

    def save(self, folder, token, files):
        return None  # they see no folder

    def read(self):
        return [_everything(*each) for each in zip(self.plans, self.held, strict=True)]


def _everything(plan, held):
    names = [spec.name for spec in (*held.buffers(), *plan.columns)]
    arrays = iter([array.copy() for _, array in held.contents.values.read(names)])
    pulled, kept = (
        {name: next(arrays) for name in FlatLayout(each).sizes} for each in (plan.pulled, plan.kept)
    )
    return Held(pulled, kept, [*arrays])


def place(variables):
    """Divide what has four rows and more; the rest in turn."""
    placed = {}
    for number, spec in enumerate(variables):
        if spec.shape and spec.shape[0] >= 4:
            placed[spec.path] = [RowRange(0, 0, 3), RowRange(1, 3, spec.shape[0])]
        else:
            placed[spec.path] = [RowRange(number % 2)]
    return placed
