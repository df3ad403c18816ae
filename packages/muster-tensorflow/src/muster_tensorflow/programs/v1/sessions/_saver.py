"""``tf.compat.v1.train.Saver``: for a ``Scaffold``, and for variables of eager code."""

import os
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from muster import keras
from muster.checkpoint import Checkpointer, delete_old_checkpoint, replace_folder
from muster.checkpoint.tensorflow import name_of, read_either
from muster.extend import local_path
from muster_tensorflow.programs.v1.sessions._scaffold import Saver as ScaffoldSaver


class Saver(ScaffoldSaver):
    """Saves variables by name, and restores them, also from checkpoints that TensorFlow wrote.

    A ``Scaffold`` takes its settings, and an ``init_fn`` restores by it, as by that one. In
    eager code, where the session is None, it saves and restores the variables that it is given.

    Args:
        var_list: Variables, or a dict of these by their names in checkpoints.
        **settings: As of that one.

    Source: tensorflow/python/training/saver.py, ``Saver``.
    """

    def __init__(self, var_list: Mapping[str, Any] | Iterable[Any] | None = None, **settings: Any) -> None:
        if var_list is not None and not isinstance(var_list, Mapping):
            var_list = {name_of(each) if _is_variable(each) else str(each): each for each in var_list}
        super().__init__(var_list, **settings)
        self._variables = None if var_list is None else dict(var_list)
        self._saved: list[str] = []

    @property
    def last_checkpoints(self) -> list[str]:
        """The paths of what it has saved and not deleted, the newest last."""
        return list(self._saved)

    def save(
        self,
        sess: None,
        save_path: str | os.PathLike[str],
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str:
        """Save the variables of eager code, and delete old checkpoints. There is no graph to write.

        Args:
            sess: Only None.
            save_path: The path of the checkpoint, without the step.
            global_step: The step, which is appended to the path; None appends nothing.
            latest_filename: Unused, likewise what follows.

        Returns:
            The path of the checkpoint.

        Raises:
            ValueError: There is a session, or the Saver was given no variables.
        """
        values = {name: np.array(each) for name, each in self._in_eager_code(sess, "save").items()}
        step = 0 if global_step is None else int(global_step)
        path = local_path(save_path)
        path = path if global_step is None else f"{path}-{step}"
        directory, name = os.path.split(path)
        os.makedirs(directory or ".", exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory or ".", prefix=f".{name}-") as folder:
            with Checkpointer(folder, max_to_keep=None) as writer:
                saved = writer.save(step, values, {}, wait=True)
            replace_folder(path, saved, os.path.join(folder, "replaced"))
        self._saved = [each for each in self._saved if each != path] + [path]
        while self.max_to_keep and len(self._saved) > self.max_to_keep:
            delete_old_checkpoint(self._saved.pop(0))
        return path

    def restore(self, sess: Any, save_path: str | os.PathLike[str]) -> None:
        """Set variables to their values in a checkpoint, muster's or TensorFlow's.

        Args:
            sess: None in eager code; in an ``init_fn`` or a hook, what it gets.
            save_path: The checkpoint.

        Raises:
            CheckpointError: The checkpoint cannot be read.
            ValueError: It lacks a variable, a shape differs, or the Saver was given no variables.
        """
        if sess is not None:
            super().restore(sess, save_path)
            return
        variables, stored = self._in_eager_code(sess, "restore"), read_either(save_path).variables
        if missing := sorted(variables.keys() - stored.keys()):
            raise ValueError(
                f"Key {', '.join(missing)} not found in checkpoint {os.fspath(save_path)}. "
                "tf.train.list_variables lists those that are there."
            )
        for name, each in variables.items():
            if tuple(each.shape) != stored[name].shape:
                raise ValueError(
                    f"{name} has the shape {tuple(each.shape)}, and {stored[name].shape} in the checkpoint "
                    f"{os.fspath(save_path)}."
                )
        for name, each in variables.items():
            each.assign(stored[name])

    def _in_eager_code(self, sess: None, doing: str) -> dict[str, Any]:
        if sess is not None:
            raise ValueError(f"There are no sessions: give None for {sess!r}, and variables to the Saver.")
        if not self._variables or not all(map(_is_variable, self._variables.values())):
            raise ValueError(
                f"To {doing} in eager code, the Saver needs variables: give a list of them, or a dict by "
                f"name, as var_list, got {self._variables!r}. Estimators save by themselves."
            )
        return self._variables


def _is_variable(each: Any) -> bool:
    return isinstance(each, keras.Variable)
