"""``tf.train.Checkpoint`` and its manager, for training loops of one's own."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from muster import checkpoint
from muster._errors import CheckpointMismatchError
from muster._keras import keras
from muster.distribute import scope_of_model, strategy_of

_NAME = "ckpt"


class CheckpointOptions(NamedTuple):
    """Accepted: the process that saves writes, and waits until it is done.

    Source: tensorflow/python/checkpoint/checkpoint_options.py, ``CheckpointOptions``.
    """

    experimental_io_device: str | None = None
    experimental_enable_async_checkpoint: bool = False


class Checkpoint:
    """Saves the variables of models, optimizers, metrics, and single ones, and restores them.

    They are saved by the argument's name and their order, as whole or absent as all checkpoints are. Each is
    an attribute of its name, too.

    Args:
        objects: what has variables, or is one.

    Source: tensorflow/python/checkpoint/checkpoint.py, ``Checkpoint``. TensorFlow restores variables that do
    not exist yet once they do. Here models and layers that are not built yet are built at once, as those were
    that were saved, and the only optimizer beside the only model for the model's trainable variables.
    """

    def __init__(self, **objects: Any) -> None:
        for name, each in objects.items():
            if not isinstance(each, keras.Variable) and not hasattr(each, "variables"):
                raise ValueError(
                    f"Checkpoint takes variables and what has some, got {name}={each!r}. Give models, "
                    "optimizers, metrics or variables."
                )
        self._objects = objects
        self.save_counter = 0

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_objects"][name]
        except KeyError:
            names = ", ".join(self.__dict__.get("_objects", {}))
            raise AttributeError(f"This checkpoint has no {name!r}: it has {names}.", name=name) from None

    def save(self, file_prefix: str | os.PathLike[str], options: Any = None) -> str:
        """Save all variables.

        Args:
            file_prefix: the directory, and ``ckpt``.
            options: accepted for TensorFlow's programs.

        Returns:
            The path of the checkpoint: the prefix and how often this was saved.

        Raises:
            ValueError: The prefix has another name than ``ckpt``.
        """
        directory, name = os.path.split(os.fspath(file_prefix))
        if name != _NAME:
            raise ValueError(
                f"Checkpoints are called {_NAME}-1, {_NAME}-2, …, got the prefix {file_prefix!r}: end it in "
                f"'/{_NAME}'."
            )
        with checkpoint.Checkpointer(directory or ".", max_to_keep=None) as writer:
            return self.save_with(writer)

    def save_with(self, writer: checkpoint.Checkpointer) -> str:
        """Save all variables by a writer of checkpoints, and wait until they are on the disk."""
        self.save_counter += 1
        values = {name: np.array(variable.value) for name, variable in self._variables().items()}
        builds = {
            name: keras.saving.serialize_keras_object(each.get_build_config())
            for name, each in self._objects.items()
            if isinstance(each, keras.Layer) and each.built
        }
        writer.save(
            self.save_counter, values, {"save_counter": self.save_counter, "builds": builds}, wait=True
        )
        return os.path.join(writer.directory, f"{_NAME}-{self.save_counter}")

    def restore(self, save_path: str | os.PathLike[str] | None, options: Any = None) -> "Restored":
        """Set all variables to what was saved; None, as where there is no checkpoint, changes nothing.

        Raises:
            CheckpointNotFoundError: There is no checkpoint at this path.
            CheckpointMismatchError: Variables are missing, or have other shapes.
        """
        if save_path is None:
            return Restored()
        found = checkpoint.read_checkpoint(save_path)
        self._build_layers(found.metadata.get("builds", {}))
        self._build_optimizer(len(found.variables))
        variables = self._variables()
        for name, variable in variables.items():
            array = found.variables.get(name)
            if array is None or array.shape != tuple(variable.shape):
                was = "is not there" if array is None else f"has shape {array.shape}"
                raise CheckpointMismatchError(
                    f"{found.path}: variable {name} ({variable.path}) {was}; here it has shape "
                    f"{tuple(variable.shape)}. The checkpoint is of other objects."
                )
        if left := sorted(found.variables.keys() - variables.keys()):
            raise CheckpointMismatchError(
                f"{found.path} has {len(left)} variables that are not here, such as {left[0]}. Build models "
                "and optimizers (`optimizer.build(model.trainable_variables)`) before they are restored."
            )
        for name, variable in variables.items():
            variable.assign(found.variables[name])
        self.save_counter = int(found.metadata.get("save_counter", found.step))
        return Restored()

    def _build_layers(self, builds: Mapping[str, Any]) -> None:
        """Build the layers that were when they were saved, for inputs of the same shapes."""
        for name, each in self._objects.items():
            if isinstance(each, keras.Layer) and not each.built and name in builds:
                with scope_of_model(each):
                    each.build_from_config(keras.saving.deserialize_keras_object(builds[name]))

    def _build_optimizer(self, saved: int) -> None:
        """Build an optimizer that has more variables in the checkpoint, if it is clear for what."""
        models = [each for each in self._objects.values() if isinstance(each, keras.Model)]
        optimizers = [each for each in self._objects.values() if isinstance(each, keras.Optimizer)]
        if len(models) != 1 or len(optimizers) != 1 or optimizers[0].built:
            return
        trained = models[0].trainable_variables
        if trained and saved > len(self._variables()):
            with strategy_of(trained[0]).scope():
                optimizers[0].build(trained)

    def _variables(self) -> dict[str, Any]:
        return {
            f"{name}/{number}": variable
            for name, each in self._objects.items()
            for number, variable in enumerate([each] if isinstance(each, keras.Variable) else each.variables)
        }


class Restored:
    """What ``restore`` returns: all was restored, or there was nothing to restore."""

    def assert_consumed(self) -> "Restored":
        """All of the checkpoint was used."""
        return self

    def assert_existing_objects_matched(self) -> "Restored":
        """All variables were in the checkpoint."""
        return self

    def expect_partial(self) -> "Restored":
        """Warn of nothing."""
        return self


class CheckpointManager:
    """Saves checkpoints in a directory, and deletes old ones.

    Args:
        checkpoint: what is saved.
        directory: where.
        max_to_keep: how many stay; None for all.
        checkpoint_name: ``ckpt``.

    Source: tensorflow/python/checkpoint/checkpoint_management.py, ``CheckpointManager``.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: str | os.PathLike[str],
        max_to_keep: int | None,
        checkpoint_name: str = _NAME,
    ) -> None:
        if checkpoint_name != _NAME:
            raise ValueError(f"Checkpoints are called {_NAME!r}, got checkpoint_name={checkpoint_name!r}.")
        self._checkpoint = checkpoint
        self._directory = os.fspath(directory)
        self._max_to_keep = max_to_keep

    @property
    def checkpoints(self) -> list[str]:
        """The paths of all there are, the newest last."""
        return [info.path for info in checkpoint.list_checkpoints(self._directory)]

    @property
    def latest_checkpoint(self) -> str | None:
        """The newest one's path; None if there is none."""
        return checkpoint.latest_checkpoint(self._directory)

    def save(self) -> str:
        """Save, and delete what is not to be kept; returns the path."""
        with checkpoint.Checkpointer(self._directory, max_to_keep=self._max_to_keep) as writer:
            return self._checkpoint.save_with(writer)

    def restore_or_initialize(self) -> str | None:
        """Restore the newest checkpoint, if there is one; returns its path."""
        latest = self.latest_checkpoint
        self._checkpoint.restore(latest)
        return latest
