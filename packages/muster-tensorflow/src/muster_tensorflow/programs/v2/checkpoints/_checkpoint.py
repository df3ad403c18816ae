"""``tf.train.Checkpoint``, for custom training loops."""

import contextlib
import functools
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from muster import CheckpointMismatchError, checkpoint, keras
from muster.checkpoint import BASENAME
from muster.checkpoint.tensorflow import (
    is_tensorflow_checkpoint,
    meant_path,
    name_of,
    newest_checkpoint,
    restore_objects,
)
from muster.distribute import ShardedVariable, Strategy, get_strategy
from muster.extend import (
    RNN_STATE,
    Variable,
    check_labels,
    join_loop,
    local_path,
    named_variables,
    restore_variables,
    save_variables,
    scope_of_model,
    strategy_of,
    together,
)
from muster_tensorflow.programs.v2._module import OwnModule
from muster_tensorflow.programs.v2.checkpoints._checkpoint_objects import (
    Count,
    Objects,
    Positioned,
    is_savable,
    require_savable,
)
from muster_tensorflow.programs.v2.checkpoints._deferred import (
    WaitingList,
    set_waiting,
    variables_by_path,
    wait_for,
)
from muster_tensorflow.programs.v2.checkpoints._named_checkpoints import numbered
from muster_tensorflow.programs.v2.checkpoints._restored import Restored
from muster_tensorflow.programs.v2.checkpoints._saved_optimizers import build_optimizers


class CheckpointOptions(NamedTuple):
    """Accepted for TensorFlow's programs; a save always writes in this process, and waits for the disk.

    Source: tensorflow/python/checkpoint/checkpoint_options.py, ``CheckpointOptions``.
    """

    experimental_io_device: str | None = None
    experimental_enable_async_checkpoint: bool = False
    experimental_write_callbacks: object = None
    enable_async: bool = False


_OWN = ("save_counter", "run_calls")  # attributes of a Checkpoint itself
# What a worker that joins others has its state from, for messages.
_OTHERS = "the state of the other workers"


class Checkpoint(Objects):
    """Saves and restores variables: single ones, and those of models, optimizers and metrics.

    Variables are saved by the object's name and their path, and matched by their order. Iterators over
    datasets go on where they were. The objects are attributes, too, and can be added as such. An attribute
    that has no variables, such as a number or a function, is kept, and not saved.

    Args:
        root: An object, which is called ``root``; None for none.
        objects: Variables, objects that have variables, and iterators; or lists, dicts and Checkpoints of
            such.

    Attributes:
        save_counter: The number of saves so far.
        run_calls: How many steps a PreemptionCheckpointHandler has run so far.
        is_managed: Whether a CheckpointManager saves it.

    Source: tensorflow/python/checkpoint/checkpoint.py, ``Checkpoint``. TensorFlow restores variables that do
    not exist yet as soon as they do. So does `restore` here with those of modules, and of Checkpoints that
    get an object; and it builds what is not built yet: layers and models for the shapes of inputs that they
    were saved with, and a single optimizer for the variables of a single model.
    """

    save_counter: int
    run_calls: int
    is_managed: bool

    def __init__(self, root: Any = None, **objects: Any) -> None:
        vars(self).update(_objects={}, save_counter=Count(), run_calls=Count(), is_managed=False)
        for name, each in (objects if root is None else {"root": root, **objects}).items():
            require_savable(name, each)
            setattr(self, name, each)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or not is_savable(name, value):
            self._objects.pop(name, None)
            object.__setattr__(self, name, Count(value) if name in _OWN else value)
        else:
            vars(self).pop(name, None)
            self._objects[name] = WaitingList(value) if type(value) is list else value
            set_waiting()

    def __getattr__(self, name: str) -> Any:
        objects = vars(self).get("_objects", {})
        try:
            return objects[name]
        except KeyError:
            names = ", ".join(objects) or "none"
            raise AttributeError(f"This checkpoint has no {name!r}: it has {names}.", name=name) from None

    def save(self, file_prefix: str | os.PathLike[str], options: CheckpointOptions | None = None) -> str:
        """Save all variables.

        Args:
            file_prefix: The directory and the name of the checkpoints, such as ``training/ckpt``.
            options: Accepted for TensorFlow's programs.

        Returns:
            The path of the checkpoint: the prefix and the number of this save.
        """
        prefix = local_path(file_prefix)
        directory, name = os.path.split(prefix)
        if name != BASENAME:
            return self._save_as(f"{prefix}-{self.save_counter + 1}")
        with checkpoint.Checkpointer(directory or ".", max_to_keep=None) as writer:
            return self.save_with(writer)

    def write(self, file_prefix: str | os.PathLike[str], options: CheckpointOptions | None = None) -> str:
        """Save all variables to a path without a number, which `read` reads; it is no save that counts.

        Args:
            file_prefix: The path.
            options: Accepted for TensorFlow's programs.

        Returns:
            The path.
        """
        count = self.save_counter
        try:
            return self._save_as(local_path(file_prefix))
        finally:
            self.save_counter = count

    def _save_as(self, path: str) -> str:
        """Save to a path of any name: in a folder beside it, which takes its place when it is complete."""
        directory, name = os.path.split(path)
        os.makedirs(directory or ".", exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory or ".", prefix=f".{name}-") as folder:
            with checkpoint.Checkpointer(folder, max_to_keep=None) as writer:
                saved = self.save_with(writer, directory)
            checkpoint.replace_folder(path, saved, os.path.join(folder, "replaced"))
        return path

    def save_with(self, writer: checkpoint.Checkpointer, directory: str | None = None) -> str:
        """Save all variables through a Checkpointer, wait until they are on the disk, and return the path.

        Args:
            writer: The Checkpointer.
            directory: Where it is noted that a program trains; None for the Checkpointer's.

        Raises:
            DatasetError: A function has trained on a label that is no class.
        """
        check_labels()
        self.save_counter += 1
        metadata = self._metadata()
        checkpoint.note_training(writer.directory if directory is None else directory or ".")
        return save_variables(writer, self.save_counter, self._variables(), metadata, wait=True)

    def _metadata(self) -> dict[str, Any]:
        """Return what a checkpoint has beside the variables."""
        builds = {
            name: keras.saving.serialize_keras_object(each.get_build_config())
            for name, each in self._owners().items()
            if isinstance(each, keras.Layer) and each.built
        }
        positions = {name: each.position for name, each in self._iterators().items()}
        paths = {id(variable): path for path, variable in reversed(self._paths().items())}
        named = named_variables(self._variables())
        return {
            "paths": {name: paths[id(each)] for name, each in named.items() if id(each) in paths},
            "save_counter": self.save_counter,
            "run_calls": self.run_calls,
            "builds": builds,
            "positions": positions,
        }

    def restore(
        self, save_path: str | os.PathLike[str] | None, options: CheckpointOptions | None = None
    ) -> Restored:
        """Set all variables to their saved values; objects that only the checkpoint has are left alone.

        Of a CheckpointManager's Checkpoint, a worker that comes to an elastic job gets the state of those who
        train in place of the saved one, whatever the path is.

        Args:
            save_path: The path of the checkpoint, or the prefix of one of TensorFlow's, whose objects it has,
                or variables of the same names; or the folder of an exported model, which has no optimizers,
                metrics or iterators: those stay as they are. None changes nothing.
            options: Accepted for TensorFlow's programs.

        Raises:
            CheckpointNotFoundError: There is no checkpoint at this path.
            CheckpointMismatchError: Variables or iterators are missing, or have other shapes.
            PositionError: An iterator is of another dataset.
        """
        if self.is_managed and join_loop(self.strategy(), self._state, self._take, self._all_variables):
            return Restored(_OTHERS)
        if save_path is None:
            return Restored()
        if (export := checkpoint.export_of(save_path)) is not None:
            return self._restore_export(export)
        save_path = meant_path(save_path)
        if is_tensorflow_checkpoint(save_path):
            self._restore_tensorflow(local_path(save_path))
            return Restored()
        found = checkpoint.read_checkpoint(save_path, tables=False)
        if "paths" not in found.metadata and self._restore_by_names(found.variables):
            return Restored(found.path)
        return self._restore_found(found)

    def _restore_found(self, found: checkpoint.Checkpoint) -> Restored:
        """Set all variables to those of a checkpoint that a Checkpoint saved."""
        positions = found.metadata.get("positions", {})
        iterators = self._iterators()
        if missing := [name for name in iterators if name not in positions]:
            raise CheckpointMismatchError(
                f"The checkpoint {found.path} has no position of the iterator {missing[0]!r}. Restore the "
                "others without it."
            )
        self._build_layers(found.metadata.get("builds", {}))
        waiting, variables = self._waiting(found)
        apart = {name for group in waiting.values() for name in group}
        every = found.variables
        found = replace(found, variables={k: v for k, v in every.items() if k not in apart})
        saved = len(found.variables) + sum(len(table.columns) for table in found.tables.values())
        if saved > sum(map(len, variables.values())):
            self._build_optimizers(found.variables)
            variables = {name: each for name, each in self._variables().items() if name in variables}
        advice = "Build models and optimizers (`optimizer.build(model.trainable_variables)`) first."
        with self._together():
            restore_variables(found, variables, advice)
        left = [
            self._wait(found.path, name, group, found.metadata.get("paths", {}), every)
            for name, group in waiting.items()
        ]
        for name, each in iterators.items():
            each.go_on(positions[name])
        self.save_counter = int(found.metadata.get("save_counter", found.step))
        self.run_calls = int(found.metadata.get("run_calls", 0))
        return Restored(found.path, left)

    def _state(self) -> tuple[Any, list[np.ndarray[Any, Any]]]:
        """Return what a worker needs that joins this one: what `save` would write."""
        named = named_variables(self._variables())
        about = {"metadata": self._metadata(), "names": [*named]}
        return about, [np.array(each.value, order="C") for each in named.values()]

    def _take(self, about: Mapping[str, Any], arrays: Sequence[np.ndarray[Any, Any]]) -> None:
        """Set all to what `_state` has returned on another worker."""
        variables = dict(zip(about["names"], arrays, strict=True))
        metadata = dict(about["metadata"])
        self._restore_found(checkpoint.Checkpoint(_OTHERS, metadata["save_counter"], variables, metadata))

    def _all_variables(self) -> list[Variable]:
        return [each for listed in self._variables().values() for each in listed]

    def read(self, save_path: str | os.PathLike[str], options: CheckpointOptions | None = None) -> Restored:
        """Set all variables to those of a path that `write` wrote; as `restore` without ``save_counter``.

        Raises:
            CheckpointError: As for `restore`.
        """
        count = self.save_counter
        restored = self.restore(save_path, options)
        self.save_counter = count
        return restored

    def strategy(self) -> Strategy:
        """Return the strategy that trains these variables; that of most processes, if there are several."""
        variables = (each for listed in self._variables().values() for each in listed)
        owners = (strategy_of(each) for each in variables if isinstance(each, keras.Variable))
        return max(owners, key=lambda each: each.workers.size, default=get_strategy())

    def _restore_by_names(self, saved: Mapping[str, Any]) -> bool:
        """Set all variables to those that a Saver has saved by the same names, if it has all of them.

        Source: tensorflow/python/checkpoint/checkpoint.py, ``_NameBasedRestoreCoordinator``.
        """
        named = [(name_of(each), each) for listed in self._variables().values() for each in listed]
        if not named or any(name not in saved or saved[name].shape != tuple(v.shape) for name, v in named):
            return False
        with self._together():
            for name, variable in named:
                variable.assign(saved[name])
        return True

    def _restore_tensorflow(self, prefix: str) -> None:
        """Set all variables to their values in a checkpoint that TensorFlow wrote."""
        self._build_optimizers(())  # a TensorFlow checkpoint has other names
        wanted = []
        for each in self._owners().values():
            if isinstance(each, keras.Variable):
                wanted.append(each)
            elif not (weights := getattr(each, "weights", each.variables)):
                raise CheckpointMismatchError(
                    f"{each!r} has no variables to restore into: build it first, as by calling it on a batch."
                )
            else:
                wanted += weights
        counter = keras.Variable(0, dtype="int32", trainable=False, name="save_counter")
        with self._together():
            if self._objects.keys() == {"root"}:
                restore_objects(prefix, self.nested()["root"], wanted)
                return
            restore_objects(prefix, {**self.nested(), "save_counter": counter}, wanted)
        self.save_counter = int(counter.value)

    def _restore_export(self, folder: str) -> Restored:
        """Set the weights of models, and variables, to those of an exported model."""
        left, variables = [*self._iterators()], self._variables()
        for name, each in self._owners().items():
            if isinstance(each, keras.Optimizer | keras.metrics.Metric):
                left.append(name)
                del variables[name]
        wanted = [*itertools.chain.from_iterable(variables.values())]
        if not wanted:
            raise CheckpointMismatchError(
                f"{folder} is an exported model, and this Checkpoint has no variables that it could have: "
                "give the model, and build it first, as by calling it on a batch."
            )
        found = checkpoint.read_exported(folder, mapped=True)
        try:
            if not found.variables:
                raise CheckpointMismatchError(
                    f"{folder} is an exported module, whose variables have no names. Load it by "
                    "tf.saved_model.load, and assign the variables of what that returns."
                )
            with self._together():
                checkpoint.assign_exported(wanted, found)
        finally:
            found.close()
        return Restored(folder, unmatched=left)

    def _build_layers(self, builds: Mapping[str, object]) -> None:
        """Build the layers that were built when they were saved, for inputs of the same shapes."""
        for name, each in self._owners().items():
            if isinstance(each, keras.Layer) and not each.built and name in builds:
                with scope_of_model(each):
                    each.build_from_config(keras.saving.deserialize_keras_object(builds[name]))

    def _build_optimizers(self, saved: Iterable[str]) -> None:
        """Build a single optimizer, if it is not built, for a single model; of several those that match."""
        build_optimizers(self._owners(), saved)
        owners = self._owners().values()
        models = [each for each in owners if isinstance(each, keras.Model)]
        optimizers = [each for each in owners if isinstance(each, keras.Optimizer)]
        if len(models) != 1 or len(optimizers) != 1 or optimizers[0].built:
            return
        trained = models[0].trainable_variables
        if trained:
            with strategy_of(trained[0]).scope():
                optimizers[0].build(trained)

    def _waiting(
        self, found: checkpoint.Checkpoint
    ) -> tuple[dict[str, list[str]], dict[str, list[Variable]]]:
        """Return what is matched by the names of attributes, and not by the order of variables.

        Returns:
            The names of saved variables that are not here, by the module whose attributes they will be, or
            "" for those of no object that is here; and the variables of each object that are matched.
        """
        paths, owners, variables = found.metadata.get("paths", {}), self._owners(), self._variables()
        saved: dict[str, list[str]] = {}
        for name in found.variables:
            saved.setdefault(name.partition("/")[0], []).append(name)
        waiting = {
            name: group
            for name, group in saved.items()
            if isinstance(owners.get(name), OwnModule)
            and len(group) > len(variables[name])
            and {*group} <= {*paths}
        }
        waiting[""] = [each for name, group in saved.items() if name not in owners for each in group]
        known = {paths.get(name) for name in waiting[""]}
        here = {id(each): path for path, each in self._paths().items()}
        return waiting, {
            name: each
            for name, each in variables.items()
            if name not in waiting
            and (name in saved or not each or any(here.get(id(variable)) not in known for variable in each))
        }

    def _wait(
        self, path: str, name: str, group: list[str], paths: Mapping[str, str], saved: Mapping[str, Any]
    ) -> Callable[[], list[str]]:
        """Set saved variables that are here, and others later; return what lists those that are not set."""
        values: dict[str, Callable[[], Any]]
        if name:
            copies = {each: saved[each].copy() for each in group}
            values = {paths[each]: functools.partial(copies.get, each) for each in group if each in paths}
        else:  # most are never asked for, such as an optimizer's where a model is restored alone
            values = {paths[each]: functools.partial(_read, path, each) for each in group if each in paths}
        if values and name:
            wait_for(self._owners()[name], lambda module: dict(variables_by_path(name, module)), values)
        elif values:
            wait_for(self, Checkpoint._paths, values)
        return lambda: [each for each in group if paths.get(each, each) in values or each not in paths]

    def _paths(self) -> dict[str, Any]:
        """Return the variables that are reached from the objects, by the names of attributes on the way."""
        found: dict[str, Any] = {}
        for path, each in variables_by_path("", self.nested()):
            found.setdefault(path, each)
        return found

    def _together(self) -> contextlib.AbstractContextManager[None]:
        """Read and write the variables that are on servers in few messages meanwhile."""
        variables = itertools.chain.from_iterable(self._variables().values())
        return together(
            shard
            for each in variables
            for shard in (each.variables if isinstance(each, ShardedVariable) else [each])
        )

    def _variables(self) -> dict[str, list[Variable]]:
        return {
            name: [each]
            if isinstance(each, keras.Variable | ShardedVariable)
            else [variable for variable in each.variables if variable.name != RNN_STATE]
            for name, each in self._owners().items()
        }

    def _owners(self) -> dict[str, Any]:
        """Return what has variables, by name."""
        return {name: each for name, each in self.flat().items() if not isinstance(each, Positioned)}

    def _iterators(self) -> dict[str, Positioned]:
        return {name: each for name, each in self.flat().items() if isinstance(each, Positioned)}


def _read(path: str, name: str) -> Any:
    return checkpoint.read_checkpoint(path, tables=False).variables[name]
