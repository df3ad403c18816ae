"""Writers of parts of a checkpoint, for tests."""

import os

import numpy as np

from muster.checkpoint import (
    PartRecord,
    Piece,
    VariableRecord,
    changed_rows,
    link_base,
    sees_folder,
    write_part,
)

TABLE = np.arange(10, dtype=np.float32).reshape(5, 2)
OWN = {"seed": np.array(3, np.uint32)}
EXPECTED = {"table": TABLE, "count": np.array(4, np.int32), **OWN}


class TwoWriters:
    """The rows of a table on two writers, and a number on the second."""

    writers = ("ps-0", "ps-1")

    def __init__(self, sees=True, fails=None):
        self.sees, self.fails = sees, fails
        self.folders = []

    def records(self, files):
        return {
            "table": VariableRecord(
                (5, 2), "float32", (Piece(files[0], "t[0:3]", 0, 3), Piece(files[1], "t[3:5]", 3, 5))
            ),
            "count": VariableRecord((), "int32", (Piece(files[1], "count", 0, 1),)),
        }

    def begin(self, folder, token, files):
        self.folders.append(folder)
        assert sees_folder(folder, token)
        assert not sees_folder(os.path.dirname(folder), token)
        self.begun = folder, files
        return self if self.sees else None

    def wait(self):
        folder, files = self.begun
        arrays = {"t[0:3]": TABLE[:3]}, {"t[3:5]": TABLE[3:], "count": EXPECTED["count"]}
        records = [PartRecord(write_part(folder, *each)) for each in zip(files, arrays, strict=True)]
        if self.fails:
            raise self.fails
        return records

    def read(self):
        return {"table": TABLE, "count": EXPECTED["count"]}


class OneTable:
    """A writer of a table, which writes only rows that have changed when it can."""

    writers = ("ps-0",)

    def __init__(self, table):
        self.table, self.saved, self.base = table, None, None

    def records(self, files):
        return {"table": VariableRecord(self.table.shape, "float32", (Piece(files[0], "t", 0, 5),))}

    def begin(self, folder, token, files):
        self.begun = folder, *files
        return self

    def wait(self):
        folder, file = self.begun
        if self.base is None or not link_base(folder, self.base[0]):
            record = write_part(folder, file, {"t": self.table})
            self.base, self.saved = (os.path.join(folder, file), record), self.table.copy()
            return [PartRecord(record)]
        numbers = np.flatnonzero((self.table != self.saved).any(1))
        record = write_part(folder, file, {"t": self.table[numbers], changed_rows("t"): numbers})
        base = os.path.join(folder, os.path.basename(self.base[0]))
        self.base = base, self.base[1]
        return [PartRecord(record, ["t"], (os.path.basename(base), self.base[1]))]
