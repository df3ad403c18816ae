"""Parameter servers in this process: all that real ones do, without sockets."""

import itertools

import jax
import numpy as np

from muster.distribute.engine._shards import Division
from muster.distribute.servers._remote_servers import plans_of
from muster.ps import Held
from muster.ps import _messages as messages
from muster.ps._bundles import packed, unbundled
from muster.ps._flat_layout import FlatLayout
from muster.ps._machine import Machine
from muster.ps._messages import Caller
from muster.ps._plan import fingerprint
from muster.ps._replies import Asked
from muster.ps.contents import FunctionLayout
from muster.ps.contents.updates import JaxDevice
from served_steps import divided

CHIEF = Caller("chief 0", "run")


class MachineServers:
    """What servers hold of a program's variables, and a chief that trains them.

    Args:
        program: The program.
        placed: Path -> its rows on servers, as of ``Division``.
        count: The number of servers.
        batch: A batch of the shapes to come.
        by_rows: Whether rows of large tables travel alone.
    """

    def __init__(self, program, placed, count, *batch, by_rows=False):
        step = divided(program, *batch)
        shared = {
            v.path: jax.ShapeDtypeStruct(v.shape, v.dtype)
            for v in program.variables
            if v.path not in step.local
        }
        self.division = Division(step, shared, placed, count, batch if by_rows else None)
        self.plans = plans_of(self.division)
        self.machines = [
            Machine(JaxDevice(), name=f"ps {n}", run=str(n), keeps_step=n == 0, versions={})
            for n in range(count)
        ]
        self._local = [program.initial[path] for path in step.local]
        self._work = jax.jit(self.division.work)
        self._sequences = itertools.count(1)
        for machine, plan, held in zip(
            self.machines, self.plans, self.division.split(program.initial), strict=True
        ):
            self._ask(machine, messages.Join(plan=fingerprint(plan), starts=True))
            self._ask(machine, messages.Offer(), [np.frombuffer(plan.encode(), np.uint8)])
            for spec, pieces in zip(plan.columns, held.columns, strict=True):
                self._ask(machine, messages.AssignRows(name=spec.name, start=0), [np.concatenate([*pieces])])
            self._ask(machine, messages.Initialize(), [*held.pulled.values(), *held.kept.values()])

    def step(self, *batch):
        """Pull, compute and push; return the step's results."""
        pulled = [
            dict(zip(FlatLayout(plan.pulled).sizes, self._ask(machine, messages.Pull()).arrays, strict=True))
            for machine, plan in zip(self.machines, self.plans, strict=True)
        ]
        lookups = self.division.lookups
        asked = self.division.asked({} if lookups is None else lookups.ids(self._local, batch))
        of_servers = zip(self.machines, self.plans, asked.ids(len(self.plans)), strict=True)
        rows = asked.taken([self._look_up(*each) for each in of_servers])
        pushes, self._local, outputs = self._work(pulled, rows, self._local, batch)
        sequence = next(self._sequences)
        for machine, plan, push in zip(
            self.machines, self.plans, self.division.pushed(pushes, asked), strict=True
        ):
            counts = tuple(len(ids) for ids, _ in push.rows)
            arrays = FunctionLayout(plan.signature).pack_pushed([*push.flat.values(), *push.whole], push.rows)
            self._ask(machine, messages.Push(number=sequence, counts=counts), arrays)
        return outputs

    def values(self):
        """Return all variables by path."""
        held = []
        for machine, plan in zip(self.machines, self.plans, strict=True):
            names = [spec.name for specs in (*plan.buffers(), plan.columns) for spec in specs]
            read = self._ask(machine, messages.Read(), [packed(names)]).arrays
            arrays = iter([array for _, array in unbundled(read)])
            layouts = FlatLayout(plan.pulled), FlatLayout(plan.kept)
            pulled, kept = ({dtype: next(arrays) for dtype in layout.sizes} for layout in layouts)
            held.append(Held(pulled, kept, [*arrays]))
        return self.division.read(held)

    def _look_up(self, machine, plan, ids):
        if not ids:
            return []
        counts = tuple(map(len, ids))
        rows = self._ask(
            machine, messages.Pull(counts=counts, whole=False), FunctionLayout(plan.signature).pack_ids(ids)
        ).arrays
        return FunctionLayout(plan.signature).unpack_taken(rows, counts, whole=False)

    def _ask(self, machine, message, arrays=()):
        (reply,) = machine.handle([Asked(CHIEF, message, arrays)], 0.0)
        assert not isinstance(reply.message, messages.Refused), reply.message.text
        return reply
