"""Warm start: trainable variables start from another model's checkpoint."""

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster._arrays import AnyArray, dtype_named
from muster._errors import CheckpointMismatchError
from muster._paths import local_path
from muster.checkpoint.tensorflow import TENSORFLOW, find_checkpoint, match_names, read_either
from muster.estimator.loop._hashed_values import hashed_columns, saved_column, stored_shape
from muster.estimator.loop._vocab_info import VocabInfo
from muster.program.variables import VariableKind, VariableSpec

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WarmStartSettings:
    """The checkpoint and the variables of a warm start.

    Source: ``WarmStartSettings`` (tensorflow_estimator/python/estimator/estimator.py).

    Args:
        ckpt_to_initialize_from: A checkpoint of muster or TensorFlow, or a directory, whose newest one is
            taken, or the folder of an exported model; bytes or ``pathlib.Path``, too.
        vars_to_warm_start: A regular expression, which the path of a trainable variable must match from its
            beginning; or a list of them, one of which the path of a trainable variable, or of any other of
            a layer, such as a moving average, must match. TensorFlow's list takes slots of optimizers, too.
            A path matches also with ``:0`` behind it, which TensorFlow's names have, as for
            ``"dense/kernel[^/]"``. None warm-starts only variables with a vocabulary.
        var_name_to_vocab_info: Path -> how the vocabulary of its entries has changed, where it has.
        var_name_to_prev_var_name: Path in this model -> path in the checkpoint, where they differ.

    Raises:
        ValueError: There is no checkpoint to start from, or an expression cannot be read.

    Example:
        ```python
        settings = muster.estimator.WarmStartSettings("runs/old", vars_to_warm_start="dnn/hiddenlayer_.*")
        columns = [muster.feature_column.numeric_column("x")]
        muster.estimator.DNNClassifier([8], columns, model_dir="runs/new", warm_start_from=settings)
        ```
    """

    ckpt_to_initialize_from: str | bytes | os.PathLike[str]
    vars_to_warm_start: str | Sequence[str] | None = ".*"
    var_name_to_vocab_info: Mapping[str, VocabInfo] | None = None
    var_name_to_prev_var_name: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if not self.ckpt_to_initialize_from:
            raise ValueError("`ckpt_to_initialize_from` MUST be set in WarmStartSettings")
        object.__setattr__(
            self, "ckpt_to_initialize_from", local_path(self.ckpt_to_initialize_from, remote=True)
        )
        try:
            self._patterns()
        except re.error as exc:
            raise ValueError(
                f"vars_to_warm_start {self.vars_to_warm_start!r} cannot be read: {exc}."
            ) from exc

    def _patterns(self) -> list[re.Pattern[str]]:
        patterns = self.vars_to_warm_start
        return [re.compile(each) for each in ([patterns] if isinstance(patterns, str) else patterns or [])]

    @property
    def _vocabularies(self) -> Mapping[str, VocabInfo]:
        return self.var_name_to_vocab_info or {}

    def _starts(self, variable: VariableSpec, patterns: list[re.Pattern[str]]) -> bool:
        if self.vars_to_warm_start is None:
            return variable.path in self._vocabularies
        # As in TensorFlow one expression is for trainable variables, and a list is for others, too.
        in_layer = variable.kind is VariableKind.WEIGHT and not isinstance(self.vars_to_warm_start, str)
        names = (variable.path, f"{variable.path}:0")
        wanted = any(each.match(name) for each in patterns for name in names)
        return wanted and (variable.trainable or in_layer)

    def values(self, variables: Sequence[VariableSpec], initial: Mapping[str, Any]) -> dict[str, AnyArray]:
        """Return the initial values of the variables that are warm-started, by path; large ones in files.

        Args:
            variables: All variables of the model.
            initial: What they would begin with otherwise, by path.

        Raises:
            CheckpointError: There is no checkpoint, or it cannot be read.
            CheckpointMismatchError: The checkpoint lacks a variable, or has it in another shape.
            ValueError: A vocabulary cannot be read, or is of no variable that is warm-started.
        """
        found = find_checkpoint(self.ckpt_to_initialize_from) or local_path(
            self.ckpt_to_initialize_from, remote=True
        )
        patterns = self._patterns()
        checkpoint = read_either(found, tables=False, mapped=True)
        stored, hashed = checkpoint.variables, hashed_columns(checkpoint)
        names: dict[str, str] = {}
        if TENSORFLOW in checkpoint.metadata:
            names = match_names(stored, [v.path for v in variables], [])
        previous = self.var_name_to_prev_var_name or {}
        values: dict[str, AnyArray] = {}
        for variable in variables:
            if not self._starts(variable, patterns):
                continue
            name = previous.get(variable.path, names.get(variable.path, variable.path))
            if (table := hashed.get(name)) is not None and stored_shape(table, name) == variable.shape:
                values[variable.path] = saved_column(initial[variable.path], table, name)
                continue
            vocabulary = self._vocabularies.get(variable.path)
            if name in stored and vocabulary is not None:
                values[variable.path] = vocabulary.start_value(variable, stored[name])
                continue
            if name not in stored or stored[name].shape != variable.shape:
                has = f"has it with the shape {stored[name].shape}" if name in stored else "lacks it"
                raise CheckpointMismatchError(
                    f"The variable {variable} cannot be warm-started: {name!r} is wanted, and {found} {has}. "
                    "Leave it out with vars_to_warm_start, or rename it with var_name_to_prev_var_name."
                )
            values[variable.path] = stored[name].astype(dtype_named(variable.dtype), copy=False)
        if unused := sorted(self._vocabularies.keys() - values.keys()):
            raise ValueError(
                f"var_name_to_vocab_info has {', '.join(unused)}, which are not warm-started. These are: "
                f"{', '.join(sorted(values)) or 'none'}."
            )
        _log.info("Warm-started %d variables from %s.", len(values), found)
        return values


def warm_start_settings(argument: object) -> WarmStartSettings | None:
    """Return the settings of an Estimator's argument ``warm_start_from``."""
    if argument is None or isinstance(argument, WarmStartSettings):
        return argument
    if isinstance(argument, str | bytes | os.PathLike):
        return WarmStartSettings(argument)
    raise ValueError(f"warm_start_from must be a string or a WarmStartSettings, instead got {argument!r}")
