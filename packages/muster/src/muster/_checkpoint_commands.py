"""``muster inspect``, which prints checkpoints, TensorFlow's too; ``muster convert``, which rewrites one."""

import glob
import itertools
import json
import math
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

from muster._errors import (
    CheckpointError,
    CheckpointNotFoundError,
    DamagedCheckpointError,
    SummaryError,
)
from muster._paths import local_path
from muster._remote import remote_url
from muster._text import printable
from muster.checkpoint import (
    Checkpointer,
    CheckpointInfo,
    RowsInfo,
    VariableInfo,
    check_checkpoint,
    export_of,
    latest_checkpoint,
    list_checkpoints,
    list_exported,
    list_rows,
    list_tables,
    list_variables,
    read_exported,
    read_metadata,
    repair,
    stray_checkpoints,
)
from muster.checkpoint.tensorflow import (
    OBJECT_GRAPH,
    STRING,
    TENSORFLOW,
    TensorFlowCheckpoint,
    find_checkpoint,
    is_tensorflow_checkpoint,
    is_whole,
    join_parts,
    list_either,
    read_either,
)


def convert_checkpoint(source: str, model_dir: str) -> int:
    """Write a TensorFlow checkpoint into a model directory, and print what became of it.

    Variables keep TensorFlow's names: which variable of a model each is, an Estimator finds out, which
    knows the model.

    Args:
        source: The checkpoint's prefix, or the directory of checkpoints, whose newest is taken.
        model_dir: The directory; made if it is missing.

    Returns:
        The exit code of the command.

    Raises:
        CheckpointError: The checkpoint cannot be read, or is object-based, or the directory has one already.
    """
    source, model_dir = local_path(source, remote=True), local_path(model_dir, remote=True)
    found = find_checkpoint(source) or source
    if os.path.isdir(found) and not is_tensorflow_checkpoint(found):
        raise CheckpointNotFoundError(
            f"There is no TensorFlow checkpoint in {source}: give the prefix of one, its path without "
            "'.index'."
        )
    original = TensorFlowCheckpoint(found)
    if OBJECT_GRAPH in original.entries:
        raise CheckpointError(
            f"{found} is an object-based checkpoint, whose names only its model explains. Restore it into "
            "the model with tf.train.Checkpoint(model=model).restore, and save that."
        )
    if (other := latest_checkpoint(model_dir)) is not None:
        raise CheckpointError(f"{model_dir} has a checkpoint already, {other}: give another directory.")
    checkpoint = read_either(found, mapped=True)
    with closing(checkpoint), Checkpointer(model_dir, max_to_keep=None) as writer:
        path = writer.save(checkpoint.step, checkpoint.variables, {TENSORFLOW: found}, wait=True)
    print(f"Wrote {len(list_either(path))} variables of {printable(found)} to {printable(path)}.")
    if left := sorted(join_parts(original.entries).keys() - checkpoint.variables.keys()):
        print(f"Left out, as strings or parts of what is not there: {', '.join(map(printable, left))}.")
    return 0


_WIDEST_VALUE = 100
# How many metrics of evaluations stand beside checkpoints.
_MOST_METRICS = 6


def inspect_checkpoints(path: str, *, step: int | None, variables: bool, restore: bool) -> int:
    """Print the checkpoints of a model directory, or one checkpoint.

    Every byte of the listed checkpoints is read and checked.

    Args:
        path: The directory of the model or of the checkpoint; or the prefix of TensorFlow's, or its directory
            if muster has written none there.
        step: The step of the checkpoint to print; None for all of them.
        variables: Whether to list the variables of that checkpoint, or of the newest.
        restore: Whether to restore first what can be restored, and print what was done.

    Returns:
        The exit code of the command.

    Raises:
        CheckpointError: The directory or a file in it cannot be read.
    """
    path = local_path(path, remote=True)
    found = find_checkpoint(path)
    if found is not None and is_tensorflow_checkpoint(found):
        original = TensorFlowCheckpoint(found)
        if step not in (None, original.step()):
            return _complain(f"The newest checkpoint in {path} is of step {original.step()}, not {step}.", 1)
        return _inspect_tensorflow(original, variables)
    if found is not None and export_of(found) is not None:
        return _inspect_export(found, variables)
    if not os.path.isdir(path):
        return _complain(
            f"{remote_url(path)} is not a directory: give the model_dir of an Estimator, or a ckpt-N in it, "
            "or the prefix of a TensorFlow checkpoint.",
            2,
        )
    if restore:
        print("".join(f"{printable(line)}\n" for line in repair(path)), end="")
    itself = os.path.abspath(path)
    infos = [info for info in list_checkpoints(os.path.dirname(itself)) if info.path == itself]
    strays = {} if infos else stray_checkpoints(path)
    infos = infos or list_checkpoints(path)
    if step is None:
        for stray, reason in strays.items():
            named = printable(f"{stray}: {reason}")
            print(f"No reader takes {named}. `muster inspect --repair {path}` restores what it can.")
    if not infos:
        return _complain(
            f"There is no checkpoint in {path}: give the model_dir of an Estimator, or a ckpt-N in it.", 1
        )
    if step is not None:
        there = ", ".join(str(info.step) for info in infos)
        infos = [info for info in infos if info.step == step]
        if not infos:
            return _complain(f"There is no checkpoint of step {step} in {path}. There are: {there}.", 1)
    damage = {}
    for info in infos:
        try:
            check_checkpoint(info.path)
        except DamagedCheckpointError as exc:
            damage[info.step] = str(exc)
    evaluated = _evaluations(os.path.dirname(infos[0].path))
    metrics = [*dict.fromkeys(name for info in infos for name in evaluated.get(info.step, {}))][
        :_MOST_METRICS
    ]
    rows = [
        (
            str(info.step),
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(info.time)),
            _bytes(_size_of(info.path)),
            *(_metric(evaluated.get(info.step, {}).get(name)) for name in metrics),
            "damaged" if info.step in damage else "intact",
        )
        for info in infos
    ]
    header = ("step", "written", "size", *metrics, "state")
    # In a narrow terminal the last metrics go first, and the step and the state stay.
    spare = [*range(2 + len(metrics), 0, -1)]
    _print_table(header, rows, right={0, *range(2, 3 + len(metrics))}, spare=spare)
    for problem in damage.values():
        print(f"Damaged: {printable(problem)}")
    chosen = infos[-1]
    if chosen.step not in damage:
        _print_contents(chosen, variables)
    return 1 if damage or (strays and step is None) else 0


def _evaluations(model_dir: str) -> dict[int, dict[str, float]]:
    """Return the metrics of evaluations by step, of all that are kept in ``eval`` and ``eval_NAME``."""
    from muster.summary import read_events  # it takes a while to import

    found: dict[int, dict[str, float]] = {}
    for folder in sorted(glob.glob(os.path.join(glob.escape(model_dir), "eval*"))):
        _, _, name = os.path.basename(folder).partition("_")
        try:
            for event in read_events(folder):
                if isinstance(event.value, float) and event.tag != "global_step":
                    tag = f"{name}/{event.tag}" if name else event.tag
                    found.setdefault(event.step, {})[tag] = event.value
        except SummaryError:
            continue  # checkpoints are what this is about
    return found


def _metric(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _inspect_export(folder: str, variables: bool) -> int:
    """Print the weights of an exported model, and return the exit code."""
    try:
        weights = read_exported(folder).variables
    except DamagedCheckpointError as exc:
        print(f"Damaged: {printable(str(exc))}")
        return 1
    count = sum(value.size for value in weights.values())
    print(
        f"{printable(folder)} is an exported model: {len(weights)} weights with {count:,} values. Every byte "
        "of them is as it was written. `muster saved-model show` prints its signatures."
    )
    if variables:
        print()
        _print_variables(list_exported(folder))
    return 0


def _inspect_tensorflow(checkpoint: TensorFlowCheckpoint, variables: bool) -> int:
    """Print a checkpoint that TensorFlow wrote, and return the exit code."""
    tensors = join_parts(checkpoint.entries)
    count = sum(math.prod(entry.shape) for entry in tensors.values())
    print(
        f"TensorFlow wrote {printable(checkpoint.prefix)}: step {checkpoint.step()}, {len(tensors)} tensors "
        f"with {count:,} values."
    )
    problems = []
    for name, entry in tensors.items():
        try:
            if not is_whole(entry):
                print(f"Of {printable(name)} only a part is there.")
            elif entry.is_numeric or entry.dtype == STRING:
                checkpoint.check(name, entry)
        except DamagedCheckpointError as exc:
            problems.append(str(exc))
    print("Every byte is as it was written." if not problems else f"{len(problems)} tensors are damaged.")
    for problem in problems:
        print(f"Damaged: {printable(problem)}")
    if variables:
        print()
        _print_variables({name: VariableInfo(entry.shape, entry.dtype) for name, entry in tensors.items()})
    return 1 if problems else 0


def _print_contents(info: CheckpointInfo, variables: bool) -> None:
    found = list_variables(info.path)
    count = sum(math.prod(variable.shape) for variable in found.values())
    print(f"\nStep {info.step} has {len(found)} variables with {count:,} values.")
    for line in _metadata_lines(read_metadata(info.path)):
        print(printable(line))
    for name, table in list_tables(info.path).items():
        waiting = f"; {table.waiting:,} ids wait for theirs" if table.waiting else ""
        print(f"{printable(name)} is a hashed table of {len(table):,} rows{waiting}.")
    rows = list_rows(info.path)
    held = Counter[str]()
    for each in itertools.chain.from_iterable(rows.values()):
        held[each.writer] += each.nbytes
    if served := [f"{_task(name)} {_bytes(held[name])}" for name in sorted(held, key=_numbered) if name]:
        rest = f", the chief {_bytes(held[''])}" if held[""] else ""
        print(f"Parameter servers wrote what they held: {', '.join(served)}{rest}.")
    if variables:
        print()
        more = {"rows on": [_places(rows[name]) for name in found]} if served else {}
        _print_variables(found, **more)


def _print_variables(found: Mapping[str, VariableInfo], **more: Sequence[str]) -> None:
    columns = {
        "variable": [*map(printable, found)],
        "shape": [_shape(each.shape) for each in found.values()],
        "dtype": [each.dtype for each in found.values()],
        **more,
    }
    _print_table([*columns], [*zip(*columns.values(), strict=True)])


def _places(rows: Sequence[RowsInfo]) -> str:
    """Return which tasks held which rows of a variable."""
    if len(rows) == 1:
        return _task(rows[0].writer)
    return ", ".join(f"{_task(each.writer)} [{each.start}:{each.stop}]" for each in rows)


def _task(writer: str) -> str:
    """Return the name of the task that wrote a data file."""
    return writer.replace("-", " ") or "chief"


def _numbered(writer: str) -> tuple[str, int]:
    kind, _, index = writer.partition("-")
    return kind, int(index or 0)


def _metadata_lines(metadata: Mapping[str, Any]) -> Iterable[str]:
    """Return readable lines for an Estimator's entries, and shortened JSON for any other entry."""
    for key, value in metadata.items():
        match key, value:
            case "input", {"pipelines": [{"elements": int(), "pipeline": str()}, *_] as pipelines}:
                counts = dict.fromkeys(str(each.get("elements")) for each in pipelines)
                whose = "the input" if len(pipelines) == 1 else f"the inputs of {len(pipelines)} workers"
                yield f"Of {whose} {' and '.join(counts)} batches were taken: {pipelines[0]['pipeline']}"
            case "ended", bool():
                yield "Training had ended." if value else "Training was going on."
            case _:
                text = json.dumps(value)
                yield f"{key}: {text if len(text) <= _WIDEST_VALUE else f'{text[:_WIDEST_VALUE]}…'}"


def _print_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Iterable[int] = (),
    spare: Iterable[int] = (),
) -> None:
    """Print a table.

    Args:
        head: The names of columns.
        rows: The cells.
        right: The columns whose cells end at the same place.
        spare: The columns that a terminal may leave out that is too narrow for all, in this order.
    """
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    shown = dict(enumerate(widths))
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf
    for column in spare:
        if sum(shown.values()) + 2 * (len(shown) - 1) <= room:
            break
        del shown[column]
    for row in (head, *rows):
        cells = [row[i].rjust(width) if i in right else row[i].ljust(width) for i, width in shown.items()]
        print("  ".join(cells).rstrip())


def _size_of(directory: str) -> int:
    """Return the size of a checkpoint's files in bytes."""
    return sum(entry.stat().st_size for entry in os.scandir(directory))


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))})"


def _complain(message: str, code: int) -> int:
    print(f"muster: {message}", file=sys.stderr)
    return code
