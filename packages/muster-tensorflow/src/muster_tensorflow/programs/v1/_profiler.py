"""``tf.compat.v1.profiler``: the parameters of the model that a model_fn has built so far, as a tree.

TensorFlow's profiler reads a graph; here the model is the trainable variables of the step that is traced.
What operations cost is not known before XLA has compiled them: JAX's profiler, `tf.profiler.experimental`,
measures it.
"""

import dataclasses
import logging
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from muster import keras, program
from muster.extend import local_path

_log = logging.getLogger(__name__)

_REST_NOT_COUNTED = (
    "tf.profiler.profile counts parameters alone: %s are 0 here. XLA changes and merges operations when it "
    "compiles a step. To see what they cost, write a profile of training by tf.estimator.ProfilerHook or "
    "tf.profiler.experimental."
)


class ProfileOptionBuilder:
    """Makes the options of `profile`; each method returns this.

    Args:
        options: Where to begin; None for nothing to show.

    Source: tensorflow/python/profiler/option_builder.py, ``ProfileOptionBuilder``.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._options: dict[str, Any] = {
            **dict.fromkeys(("min_bytes", "min_micros", "min_params", "min_float_ops", "min_occurrence"), 0),
            "max_depth": 10000,
            "order_by": "name",
            "account_type_regexes": [".*"],
            "start_name_regexes": [".*"],
            "trim_name_regexes": [],
            "show_name_regexes": [".*"],
            "hide_name_regexes": [],
            "account_displayed_op_only": False,
            "select": ["micros"],
            "step": -1,
            "output": "stdout",
            **(options or {}),
        }

    @staticmethod
    def trainable_variables_parameter() -> dict[str, Any]:
        """Return the options by which the parameters of trainable variables are counted and shown."""
        counted = {"account_type_regexes": ["_trainable_variables"], "account_displayed_op_only": True}
        return ProfileOptionBuilder({**counted, "select": ["params"]}).build()

    @staticmethod
    def float_operation() -> dict[str, Any]:
        """Return options for floating-point operations, which `profile` takes and does not count."""
        shown = {"min_float_ops": 1, "select": ["float_ops"], "order_by": "float_ops"}
        return ProfileOptionBuilder({**shown, "account_displayed_op_only": True}).build()

    @staticmethod
    def time_and_memory(min_micros: int = 1, min_bytes: int = 1, **others: int) -> dict[str, Any]:
        """Return options for time and memory, which `profile` takes and does not measure."""
        shown = {"select": ["micros", "bytes"], "order_by": "micros", "account_displayed_op_only": True}
        return ProfileOptionBuilder(
            {"min_micros": min_micros, "min_bytes": min_bytes, **others, **shown}
        ).build()

    def build(self) -> dict[str, Any]:
        """Return the options."""
        return dict(self._options)

    def with_max_depth(self, max_depth: int) -> Self:
        """Show scopes down to a depth."""
        return self._with(max_depth=max_depth)

    def with_min_parameters(self, min_params: int) -> Self:
        """Show variables and scopes of at least so many parameters."""
        return self._with(min_params=min_params)

    def with_min_memory(self, min_bytes: int = 0, **others: int) -> Self:
        """Take a limit of memory, which is not measured."""
        return self._with(min_bytes=min_bytes, **others)

    def with_min_execution_time(self, min_micros: int = 0, **others: int) -> Self:
        """Take a limit of time, which is not measured."""
        return self._with(min_micros=min_micros, **others)

    def with_min_float_operations(self, min_float_ops: int) -> Self:
        """Take a limit of operations, which are not counted."""
        return self._with(min_float_ops=min_float_ops)

    def with_min_occurrence(self, min_occurrence: int) -> Self:
        """Take a limit of occurrences, which are not counted."""
        return self._with(min_occurrence=min_occurrence)

    def with_accounted_types(self, account_type_regexes: Sequence[str]) -> Self:
        """Take the types of what is counted: it is always trainable variables."""
        return self._with(account_type_regexes=list(account_type_regexes))

    def with_node_names(
        self,
        start_name_regexes: Sequence[str] = (".*",),
        show_name_regexes: Sequence[str] = (".*",),
        hide_name_regexes: Sequence[str] = (),
        trim_name_regexes: Sequence[str] = (),
    ) -> Self:
        """Count the variables whose names match some of ``show_name_regexes`` and none of the others."""
        return self._with(
            start_name_regexes=list(start_name_regexes),
            show_name_regexes=list(show_name_regexes),
            hide_name_regexes=list(hide_name_regexes),
            trim_name_regexes=list(trim_name_regexes),
        )

    def account_displayed_op_only(self, is_true: bool) -> Self:
        """Take whether what is hidden is left out of the sums: it is."""
        return self._with(account_displayed_op_only=is_true)

    def order_by(self, attribute: str) -> Self:
        """Show the largest first for ``"params"``, else by name."""
        return self._with(order_by=attribute)

    def select(self, attributes: Sequence[str]) -> Self:
        """Choose what to show: ``"params"``."""
        return self._with(select=list(attributes))

    def with_step(self, step: int) -> Self:
        """Take a step, of which there is none here."""
        return self._with(step=step)

    def with_stdout_output(self) -> Self:
        """Print the tree."""
        return self._with(output="stdout")

    def with_empty_output(self) -> Self:
        """Show nothing."""
        return self._with(output="none")

    def with_file_output(self, outfile: str | os.PathLike[str]) -> Self:
        """Write the tree to a file."""
        return self._with(output=f"file:outfile={local_path(outfile)}")

    def _with(self, **changes: Any) -> Self:
        self._options |= changes
        return self


@dataclasses.dataclass
class GraphNodeProto:
    """A variable, or a scope of variables.

    Attributes:
        name: The path.
        shape: That of the variable; None for a scope.
        parameters: How many elements the variable has; 0 for a scope.
        total_parameters: How many it has with all below it.
        float_ops: Always 0: operations are not counted.
        total_float_ops: Always 0.
        children: What is below it.
    """

    name: str
    shape: tuple[int, ...] | None = None
    parameters: int = 0
    total_parameters: int = 0
    float_ops: int = 0
    total_float_ops: int = 0
    children: list["GraphNodeProto"] = dataclasses.field(default_factory=list)


def profile(
    graph: Any = None,
    run_meta: Any = None,
    op_log: Any = None,
    cmd: str = "scope",
    options: Mapping[str, Any] | None = None,
) -> GraphNodeProto:
    """Count the parameters of the trainable variables that the model_fn has created so far.

    Args:
        graph: Accepted; it is the step that is traced.
        run_meta: Accepted.
        op_log: Accepted.
        cmd: Only ``"scope"`` has a tree of its own; others give the same.
        options: What a `ProfileOptionBuilder` returns; None for the parameters.

    Raises:
        TraceError: No model_fn is being traced.

    Source: tensorflow/python/profiler/model_analyzer.py, ``profile``.
    """
    chosen = ProfileOptionBuilder(options or ProfileOptionBuilder.trainable_variables_parameter()).build()
    shown = [re.compile(each) for each in chosen["show_name_regexes"]]
    hidden = [re.compile(each) for each in chosen["hide_name_regexes"]]
    others = [each for each in chosen["select"] if each != "params"]
    if others:
        _log.warning(_REST_NOT_COUNTED, " and ".join(others))
    root = _tree(
        variable
        for variable in program.trainable_variables()
        if any(each.match(variable.path) for each in shown)
        and not any(each.match(variable.path) for each in hidden)
    )
    if "params" in chosen["select"]:
        largest_first = chosen["order_by"] == "params"
        lines = _lines(root, chosen["max_depth"], chosen["min_params"], largest_first=largest_first)
        _show("\n".join(["node name | # parameters", *lines]), chosen["output"])
    return root


def print_model_analysis(
    graph: Any,
    run_meta: Any = None,
    op_log: Any = None,
    tfprof_cmd: str = "scope",
    tfprof_options: Mapping[str, Any] | None = None,
) -> GraphNodeProto:
    """Count parameters, as `profile` does.

    Source: tensorflow/contrib/tfprof/model_analyzer.py, ``print_model_analysis``.
    """
    return profile(graph, run_meta, op_log, tfprof_cmd, tfprof_options)


def _tree(variables: Iterable[keras.Variable]) -> GraphNodeProto:
    root = GraphNodeProto("_TFProfRoot")
    nodes = {"": root}
    for variable in sorted(variables, key=lambda variable: str(variable.path)):
        size, path = math.prod(variable.shape), ""
        root.total_parameters += size
        for part in variable.path.split("/"):
            above, path = nodes[path], f"{path}/{part}".removeprefix("/")
            if path not in nodes:
                nodes[path] = GraphNodeProto(path)
                above.children.append(nodes[path])
            nodes[path].total_parameters += size
        nodes[path].parameters, nodes[path].shape = size, tuple(variable.shape)
    return root


def _lines(node: GraphNodeProto, depth: int, least: int, *, largest_first: bool) -> list[str]:
    if node.total_parameters < least:
        return []
    shape = "--" if node.shape is None else "x".join(map(str, node.shape)) or "scalar"
    own = f"({shape}, {node.parameters}" if node.parameters else f"({shape}"
    lines = [f"{node.name} {own}/{node.total_parameters} params)"]
    below = sorted(node.children, key=lambda each: -each.total_parameters if largest_first else 0)
    for each in below if depth > 0 else ():
        lines += [f"  {line}" for line in _lines(each, depth - 1, least, largest_first=largest_first)]
    return lines


def _show(report: str, output: str) -> None:
    kind, _, file = output.partition(":outfile=")
    if kind == "stdout":
        print(report)
    elif kind == "file":
        with open(file, "w", encoding="utf-8") as written:
            written.write(f"{report}\n")
