"""``tf.train.Checkpoint`` and ``CheckpointManager``, for custom training loops."""

import contextlib
import itertools
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from muster import checkpoint
from muster._errors import CheckpointMismatchError
from muster._keras import keras
from muster.checkpoint import BASENAME
from muster.checkpoint.objects import Variable
from muster.checkpoint.tensorflow import is_tensorflow_checkpoint, newest_checkpoint, restore_objects
from muster.distribute import ShardedVariable, Strategy, get_strategy
from muster.distribute.fit import scope_of_model
from muster.distribute.functions import check_labels
from muster.distribute.servers import restore_variables, save_variables
from muster.distribute.strategies import strategy_of
from muster.program.variables import together


class CheckpointOptions(NamedTuple):
    """Accepted for TensorFlow's programs; a save always writes in this process, and waits for the disk.

    Source: tensorflow/python/checkpoint/checkpoint_options.py, ``CheckpointOptions``.
    """

    experimental_io_device: str | None = None
    experimental_enable_async_checkpoint: bool = False


@runtime_checkable
class _Positioned(Protocol):
    """An iterator that can go on where another one was."""

    @property
    def position(self) -> Mapping[str, Any]: ...

    def go_on(self, position: Mapping[str, Any]) -> None: ...


class Checkpoint:
    """Saves and restores variables: single ones, and those of models, optimizers and metrics.

    Variables are saved by the argument's name and their path, and matched by their order. Iterators over
    datasets go on where they were. The objects are attributes, too.

    Args:
        objects: Variables, objects that have variables, and iterators.

    Attributes:
        save_counter: The number of saves so far.
        run_calls: How many steps a PreemptionCheckpointHandler has run so far.

    Source: tensorflow/python/checkpoint/checkpoint.py, ``Checkpoint``. TensorFlow restores variables that do
    not exist yet as soon as they do. Here `restore` builds what is not built yet: layers and models for the
    shapes of inputs that they were saved with, and a single optimizer for the variables of a single model.
    """

    def __init__(self, **objects: Any) -> None:
        self._iterators = {name: each for name, each in objects.items() if isinstance(each, _Positioned)}
        self._objects = {name: each for name, each in objects.items() if name not in self._iterators}
        for name, each in self._objects.items():
            if not isinstance(each, keras.Variable) and not hasattr(each, "variables"):
                raise ValueError(
                    f"Checkpoint takes variables and what has some, got {name}={each!r}. Give models, "
                    "optimizers, metrics or variables, or iterators over a Dataset."
                )
        self.save_counter = self.run_calls = 0

    def __getattr__(self, name: str) -> Any:
        objects = {**self.__dict__.get("_objects", {}), **self.__dict__.get("_iterators", {})}
        try:
            return objects[name]
        except KeyError:
            names = ", ".join(objects)
            raise AttributeError(f"This checkpoint has no {name!r}: it has {names}.", name=name) from None

    def save(self, file_prefix: str | os.PathLike[str], options: CheckpointOptions | None = None) -> str:
        """Save all variables.

        Args:
            file_prefix: The directory, followed by ``/ckpt``.
            options: Accepted for TensorFlow's programs.

        Returns:
            The path of the checkpoint: the prefix and the number of this save.

        Raises:
            ValueError: The prefix has another name than ``ckpt``.
        """
        directory, name = os.path.split(os.fspath(file_prefix))
        if name != BASENAME:
            raise ValueError(
                f"Checkpoints are called {BASENAME}-1, {BASENAME}-2, …, got the prefix {file_prefix!r}: "
                f"end it in '/{BASENAME}'."
            )
        with checkpoint.Checkpointer(directory or ".", max_to_keep=None) as writer:
            return self.save_with(writer)

    def save_with(self, writer: checkpoint.Checkpointer) -> str:
        """Save all variables through a Checkpointer, wait until they are on the disk, and return the path.

        Raises:
            DatasetError: A function has trained on a label that is no class.
        """
        check_labels()
        self.save_counter += 1
        builds = {
            name: keras.saving.serialize_keras_object(each.get_build_config())
            for name, each in self._objects.items()
            if isinstance(each, keras.Layer) and each.built
        }
        positions = {name: each.position for name, each in self._iterators.items()}
        metadata = {
            "save_counter": self.save_counter,
            "run_calls": self.run_calls,
            "builds": builds,
            "positions": positions,
        }
        checkpoint.note_training(writer.directory)
        return save_variables(writer, self.save_counter, self._variables(), metadata, wait=True)

    def restore(
        self, save_path: str | os.PathLike[str] | None, options: CheckpointOptions | None = None
    ) -> "Restored":
        """Set all variables to their saved values.

        Args:
            save_path: The path of the checkpoint, or the prefix of an object-based one of TensorFlow's; None
                changes nothing.
            options: Accepted for TensorFlow's programs.

        Raises:
            CheckpointNotFoundError: There is no checkpoint at this path.
            CheckpointMismatchError: Variables or iterators are missing, or have other shapes.
            PositionError: An iterator is of another dataset.
        """
        if save_path is None:
            return Restored()
        if is_tensorflow_checkpoint(save_path):
            self._restore_tensorflow(os.fspath(save_path))
            return Restored()
        found = checkpoint.read_checkpoint(save_path, tables=False)
        positions = found.metadata.get("positions", {})
        if missing := [name for name in self._iterators if name not in positions]:
            raise CheckpointMismatchError(
                f"The checkpoint {found.path} has no position of the iterator {missing[0]!r}. Restore the "
                "others without it."
            )
        self._build_layers(found.metadata.get("builds", {}))
        saved = len(found.variables) + sum(len(table.columns) for table in found.tables.values())
        if saved > sum(map(len, self._variables().values())):
            self._build_optimizer()
        advice = "Build models and optimizers (`optimizer.build(model.trainable_variables)`) first."
        with self._together():
            restore_variables(found, self._variables(), advice)
        for name, each in self._iterators.items():
            each.go_on(positions[name])
        self.save_counter = int(found.metadata.get("save_counter", found.step))
        self.run_calls = int(found.metadata.get("run_calls", 0))
        return Restored()

    def strategy(self) -> Strategy:
        """Return the strategy that trains these variables; that of most processes, if there are several."""
        variables = (each for listed in self._variables().values() for each in listed)
        owners = (strategy_of(each) for each in variables if isinstance(each, keras.Variable))
        return max(owners, key=lambda each: each.workers.size, default=get_strategy())

    def _restore_tensorflow(self, prefix: str) -> None:
        """Set all variables to their values in a checkpoint that TensorFlow wrote."""
        self._build_optimizer()
        wanted = []
        for each in self._objects.values():
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
            restore_objects(prefix, {**self._objects, "save_counter": counter}, wanted)
        self.save_counter = int(counter.value)

    def _build_layers(self, builds: Mapping[str, object]) -> None:
        """Build the layers that were built when they were saved, for inputs of the same shapes."""
        for name, each in self._objects.items():
            if isinstance(each, keras.Layer) and not each.built and name in builds:
                with scope_of_model(each):
                    each.build_from_config(keras.saving.deserialize_keras_object(builds[name]))

    def _build_optimizer(self) -> None:
        """Build a single optimizer, if it is not built, for a single model."""
        models = [each for each in self._objects.values() if isinstance(each, keras.Model)]
        optimizers = [each for each in self._objects.values() if isinstance(each, keras.Optimizer)]
        if len(models) != 1 or len(optimizers) != 1 or optimizers[0].built:
            return
        trained = models[0].trainable_variables
        if trained:
            with strategy_of(trained[0]).scope():
                optimizers[0].build(trained)

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
            name: [each] if isinstance(each, keras.Variable | ShardedVariable) else each.variables
            for name, each in self._objects.items()
        }


class Restored:
    """The result of ``restore``, which has matched all variables or raised an error: every check passes."""

    def assert_consumed(self) -> "Restored":
        """Pass: all of the checkpoint was used."""
        return self

    def assert_existing_objects_matched(self) -> "Restored":
        """Pass: all variables were in the checkpoint."""
        return self

    def expect_partial(self) -> "Restored":
        """Do nothing: there is nothing to warn of."""
        return self


class CheckpointManager:
    """Saves checkpoints in a directory, and deletes old ones.

    Args:
        checkpoint: The objects to save.
        directory: The directory of the checkpoints.
        max_to_keep: The number of newest checkpoints to keep; None keeps all.
        checkpoint_name: The only name is ``ckpt``.

    Source: tensorflow/python/checkpoint/checkpoint_management.py, ``CheckpointManager``.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: str | os.PathLike[str],
        max_to_keep: int | None,
        checkpoint_name: str = BASENAME,
    ) -> None:
        if checkpoint_name != BASENAME:
            raise ValueError(f"Checkpoints are called {BASENAME!r}, got checkpoint_name={checkpoint_name!r}.")
        if not isinstance(checkpoint, Checkpoint):
            raise TypeError(f"CheckpointManager needs a tf.train.Checkpoint, got {checkpoint!r}.")
        self._checkpoint = checkpoint
        self._directory = os.fspath(directory)
        self._max_to_keep = max_to_keep

    @property
    def checkpoint(self) -> Checkpoint:
        """The objects to save."""
        return self._checkpoint

    @property
    def directory(self) -> str:
        """The directory of the checkpoints."""
        return self._directory

    @property
    def checkpoints(self) -> list[str]:
        """The paths of all checkpoints, the newest last."""
        return [info.path for info in checkpoint.list_checkpoints(self._directory)]

    @property
    def latest_checkpoint(self) -> str | None:
        """The path of the newest checkpoint, or None."""
        return newest_checkpoint(self._directory)

    def save(self) -> str:
        """Save, delete old checkpoints, and return the path."""
        with checkpoint.Checkpointer(self._directory, max_to_keep=self._max_to_keep) as writer:
            return self._checkpoint.save_with(writer)

    def restore_or_initialize(self) -> str | None:
        """Restore the newest checkpoint, if there is one, and return its path."""
        latest = self.latest_checkpoint
        if latest is None:
            checkpoint.restore_latest(
                self._directory, tables=False
            )  # an error where there is something of one
        self._checkpoint.restore(latest)
        return latest
