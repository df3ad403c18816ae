"""The names of files that match a pattern."""

import glob
import os

import numpy as np

from muster._errors import DatasetError
from muster.data.files._files import Paths, files_label, paths_of
from muster.data.pipeline._handles import Handles, Loaded, Stacked
from muster.data.pipeline._node import Run, Table
from muster.data.pipeline._spec import TensorSpec


class FileNames(Table):
    """The names of files, as text.

    Args:
        names: Paths.
    """

    element_spec = TensorSpec((), str)

    def __init__(self, names: list[str]):
        super().__init__()
        self.names = np.array(names, dtype=str)

    @classmethod
    def matching(cls, patterns: Paths) -> "FileNames":
        """Find the files that match a pattern, or one of several, sorted by name.

        Raises:
            DatasetError: No file matches.
        """
        globs = paths_of("list_files", patterns)
        names = sorted({name for pattern in globs for name in glob.glob(pattern)})
        if not names:
            folders = {
                os.path.dirname(pattern) or "."
                for pattern in globs
                if not glob.has_magic(os.path.dirname(pattern))
            }
            absent = sorted(folder for folder in folders if not os.path.isdir(folder))
            why = f" There is no folder {', '.join(absent)}." if absent else ""
            raise DatasetError(f"No files matched pattern: {', '.join(globs)}.{why}")
        return cls(names)

    @property
    def label(self) -> str:
        return files_label("list_files", self.names.tolist())

    @property
    def cardinality(self) -> int:
        return len(self.names)

    def load(self, run: Run, handles: Handles) -> Loaded:
        return Stacked(self.names.take(handles, axis=0), len(handles))
