"""Be a guest in a process whose signals, uncaught errors and end belong to somebody else."""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator

_End = Callable[[BaseException | None], object]

# What ends with the block, the last registered one first; one for the process, as its address in a job is.
_blocks: list[dict[_End, None]] = []
_entering = threading.Lock()
# What takes back what muster has changed in this process.
_undoing: list[Callable[[], None]] = []


@contextlib.contextmanager
def embedded() -> Iterator[None]:
    """Take part in a job from within a process that belongs to somebody else, such as a worker of Ray.

    ```python
    with muster.distribute.embedded():
        strategy = muster.distribute.MultiWorkerMirroredStrategy()
        ...
    ```

    In the block, which may be in any thread, muster changes nothing of the process: no ``sys.excepthook``, no
    exit, no function at its end but one that removes the working copies of an object store. A worker that has
    lost another one gets PeerLostError, where it otherwise would end with the exit code 175. At the end of
    the block this worker sends what it has written for an object store, and leaves the job: it waits until
    all workers have come to their ends, or tells them of the error that has left the block. Strategies that
    were made in it cannot be used afterwards. Signals are handled in the main thread alone; elsewhere, call
    `preempt`.

    Raises:
        RuntimeError: The process is in such a block already.
        RosterError: At the end of the block: another worker has failed.
    """
    with _entering:
        if _blocks:
            raise RuntimeError(
                "This process takes part in a job already, in another block of muster.distribute.embedded(). "
                "Leave that first: a process is one task of one job."
            )
        ends: dict[_End, None] = {}
        _blocks.append(ends)
    while _undoing:
        _undoing.pop()()
    try:
        try:
            yield
        except BaseException as exc:
            _end(ends, exc)
            raise
        _end(ends, None)
    finally:
        _blocks.clear()


def is_embedded() -> bool:
    """Return whether this process is in a block of `embedded`."""
    return bool(_blocks)


def undone_when_embedded(undo: Callable[[], None]) -> None:
    """Let a change of this process be taken back when a block of `embedded` begins.

    Args:
        undo: Takes it back.
    """
    _undoing.append(undo)


def at_block_end(end: Callable[[BaseException | None], object]) -> bool:
    """Let something end with the block of `embedded`, if there is one.

    Args:
        end: Called with the error that leaves the block, or with None. If it was registered before, it now
            comes as if it were the last one.

    Returns:
        Whether there is a block; if not, nothing was registered.
    """
    if _blocks:
        _blocks[0].pop(end, None)
        _blocks[0][end] = None
    return bool(_blocks)


def _end(ends: Iterable[_End], error: BaseException | None) -> None:
    """Call the functions in reverse; those after one that fails get its error."""

    def call(end: _End, kind: object, failed: BaseException | None, trace: object) -> None:
        end(failed or error)

    with contextlib.ExitStack() as stack:
        for each in ends:
            stack.push(functools.partial(call, each))
