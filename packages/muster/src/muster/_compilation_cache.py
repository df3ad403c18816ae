"""JAX's persistent compilation cache, on by default: a run loads what an earlier run compiled.

JAX looks entries up, reads them and makes their keys, from the program, the versions of JAX's parts,
``XLA_FLAGS`` and the devices. This module replaces two private functions of JAX, tried with 0.10.2:

- the one that writes entries, because of three faults: only process 0 of a job writes, although the programs
  of the others differ from its by their devices, so that the others compile anew at every start; an entry is
  written in place, so that another task may read half of it; and every failure is a warning.
- the one that compiles: processes that start at the same time would all compile the same programs. Here one
  process of a machine compiles a program, while the others wait, and load it.

If a version of JAX has other arguments there, JAX's function stays.
"""

import contextlib
import fcntl
import functools
import hashlib
import inspect
import logging
import os
import platform
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
from jax import monitoring
from jax._src import compilation_cache, compiler

from muster._paths import require_trusted, user_cache
from muster.keras_hooks import replace

_log = logging.getLogger(__name__)

# The bytes that the entries of all versions and processors may take together when a program starts.
MAX_BYTES = 2**30
# After so many seconds, a half-written entry must be from a process that was killed.
_LITTER_SECS = 3600.0
# How long a process waits for another that compiles the same program, before it does so itself.
_PATIENCE_SECS = 120.0
# After so many seconds a process says that it waits for another, as in a job it does; or that it compiles.
_SILENT_WAIT_SECS = 30.0
_SILENT_COMPILATION_SECS = 10.0
_WRITE_ARGUMENTS = (
    "cache_key",
    "compile_time_secs",
    "module_name",
    "backend",
    "executable",
    "host_callbacks",
)
_COMPILE_ARGUMENTS = (
    "backend",
    "computation",
    "executable_devices",
    "compile_options",
    "host_callbacks",
    "module_name",
    "cache_key",
)
# The fields of /proc/cpuinfo that are equal for all processors of a kind: on x86-64, then on Arm.
_CPU_FIELDS = {"vendor_id", "cpu family", "model", "model name", "stepping", "flags"} | {
    "CPU implementer",
    "CPU architecture",
    "CPU variant",
    "CPU part",
    "CPU revision",
    "Features",
}

# The user's cache directory, if that was chosen before a job's was known.
_of_user: str | None = None
# The directories of which it was said that they cannot be used.
_UNUSABLE: set[Path] = set()

_enabled = True


def use_compilation_cache(use: bool) -> None:
    """Turn the compilation cache on, the default, or off, for what is compiled from now on.

    The first Estimator that is built, strategy's scope that is entered, ``muster.function`` that is called,
    or saved model that is loaded decides for the process. In the environment,
    ``JAX_ENABLE_COMPILATION_CACHE=0`` turns it off, and ``JAX_COMPILATION_CACHE_DIR`` names another
    directory, which JAX then manages by itself.
    """
    global _enabled
    _enabled = use


def keep_compiled(job_dir: str | None) -> None:
    """Turn JAX's compilation cache on, unless the user has turned it off or chosen a directory.

    If the directory cannot be used, that is logged, and the program goes on without a cache. Loading an entry
    means running it, so a directory that another user could have written to is not used.

    Args:
        job_dir: The directory that all tasks of a job see, also after a restart; None takes the user's cache
            directory, for a process outside of a job.
    """
    global _of_user
    config: Any = jax.config
    if not (_enabled and config.jax_enable_compilation_cache):
        return
    if config.jax_compilation_cache_dir and (job_dir is None or config.jax_compilation_cache_dir != _of_user):
        return
    root = (Path(job_dir).absolute() if job_dir else user_cache()) / "compilation_cache"
    directory = root / f"jaxlib-{version('jaxlib')}-{processor()}"
    try:
        for path in (root, directory):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            require_trusted(path)
        make_room(root, MAX_BYTES)
    except OSError as exc:
        if directory not in _UNUSABLE:
            _log.warning("What is compiled is not kept for the next run: %s", exc)
        _UNUSABLE.add(directory)
        return
    if config.jax_compilation_cache_dir:
        compilation_cache.reset_cache()  # what was compiled before the job was known lies in the user's
    jax.config.update("jax_compilation_cache_dir", os.fspath(directory))
    _of_user = os.fspath(directory) if job_dir is None else None
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    original = compiler._cache_write
    if tuple(inspect.signature(original).parameters) == _WRITE_ARGUMENTS:
        replace(compiler, "_cache_write", _CacheWriter(os.fspath(directory), original))
    compiles = compiler._compile_and_write_cache
    if tuple(inspect.signature(compiles).parameters) == _COMPILE_ARGUMENTS:
        replace(compiler, "_compile_and_write_cache", _OneCompiles(os.fspath(directory), compiles))


def make_room(root: Path, max_bytes: int) -> None:
    """Remove the least recently used entries until the others take at most ``max_bytes``.

    Args:
        root: The directory with a folder for each version. Other tasks may use and clear it meanwhile.
        max_bytes: The bytes that may stay.
    """
    entries = []
    for path in root.glob("*/*-cache*"):
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue  # another task clears too
        used = max(stat.st_atime, stat.st_mtime)
        if not path.name.endswith("-cache"):
            if time.time() - used > _LITTER_SECS:
                path.unlink(missing_ok=True)
        elif stat.st_size == 0:
            path.unlink(missing_ok=True)  # the machine went down before its content was on the disk
        else:
            entries.append((used, stat.st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= max_bytes:
            break
        path.unlink(missing_ok=True)
        total -= size


class _CacheWriter:
    """Replaces JAX's ``_cache_write``: every process writes, and entries appear atomically.

    Args:
        directory: The directory of the entries.
        original: JAX's function, for another directory that the user may choose later.
    """

    def __init__(self, directory: str, original: Callable[..., None]) -> None:
        self._directory = directory
        self._original = original
        self._gave_up = False

    def __call__(
        self,
        cache_key: str,
        compile_time_secs: float,
        module_name: str,
        backend: Any,
        executable: Any,
        host_callbacks: Sequence[Any],
    ) -> None:
        config: Any = jax.config
        if config.jax_compilation_cache_dir != self._directory:
            self._original(cache_key, compile_time_secs, module_name, backend, executable, host_callbacks)
            return
        if host_callbacks or self._gave_up:
            return  # a callback is an address in this process
        try:
            serialized = executable.serialize()
        except jax.errors.JaxRuntimeError as exc:
            _log.debug("%s cannot be kept: %s", module_name, exc)
            return
        content = compilation_cache.compress_executable(
            compilation_cache.combine_executable_and_time(serialized, int(compile_time_secs))
        )
        monitoring.record_event("/jax/compilation_cache/cache_misses")
        try:
            _write(Path(self._directory, f"{cache_key}-cache"), content)
        except OSError as exc:
            self._gave_up = True
            _log.warning("What is compiled from now on is not kept for the next run: %s", exc)


class _OneCompiles:
    """Replaces JAX's ``_compile_and_write_cache``: of processes that need a program, one compiles it.

    Args:
        directory: The directory of the entries.
        original: JAX's function, which compiles and writes.
    """

    def __init__(self, directory: str, original: Callable[..., Any]) -> None:
        self._directory = directory
        self._original = original

    def __call__(
        self,
        backend: Any,
        computation: Any,
        executable_devices: Any,
        compile_options: Any,
        host_callbacks: Sequence[Any],
        module_name: str,
        cache_key: str,
    ) -> Any:
        compile_it = functools.partial(
            self._original,
            backend,
            computation,
            executable_devices,
            compile_options,
            host_callbacks,
            module_name,
            cache_key,
        )
        config: Any = jax.config
        if config.jax_compilation_cache_dir != self._directory or host_callbacks:
            return compile_it()
        entry = Path(self._directory, f"{cache_key}-cache")
        with _turn(entry.with_name(f"{entry.name}.turn")) as is_first:
            if entry.exists():  # written since JAX has looked
                executable, _ = compiler._cache_read(
                    module_name, cache_key, compile_options, backend, executable_devices
                )
                if executable is not None:
                    monitoring.record_event("/jax/compilation_cache/cache_hits")
                    return executable
            if is_first:
                with _saying_if_long(module_name):
                    return compile_it()
        # What the first has compiled could not be written: the others need not wait in turn.
        with _saying_if_long(module_name):
            return compile_it()


@contextlib.contextmanager
def _saying_if_long(name: str) -> Iterator[None]:
    """Log that a program is being compiled, if the block takes long: nothing else is said meanwhile."""
    said = "XLA has been compiling %s for %.0f s. The next run loads it, if nothing of it is changed."
    timer = threading.Timer(_SILENT_COMPILATION_SECS, _log.info, (said, name, _SILENT_COMPILATION_SECS))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextlib.contextmanager
def _turn(path: Path) -> Iterator[bool]:
    """Hold a lock, which the kernel releases if this process is killed; give whether it was free at once.

    After `_PATIENCE_SECS`, or where nothing can be locked, go on without it. The file says which process has
    the lock, so that one that waits for long can name it: it may be stopped, or get little of the processors.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        yield True
        return
    try:
        free = _is_locked(descriptor)
        held = free or _wait_for(descriptor)
        if held:
            with contextlib.suppress(OSError):  # a full disk
                os.pwrite(descriptor, f"{os.getpid():<20}".encode(), 0)
        try:
            yield free
        finally:
            if held:
                path.unlink(missing_ok=True)
                # A forked process may have the file, too: to close it is not enough.
                with contextlib.suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int) -> bool:
    """Lock a file when the process that has locked it is done, if it is soon; whether that is done."""
    began, said = time.monotonic(), False
    while (waited := time.monotonic() - began) < _PATIENCE_SECS:
        time.sleep(0.01)
        if _is_locked(descriptor):
            return True
        if waited >= _SILENT_WAIT_SECS and not said:
            said = True
            _log.warning(
                "Waiting for process %s, which compiles the same program; after %.0f s it is compiled here. "
                "If that process is stopped, end it.",
                os.pread(descriptor, 20, 0).decode().strip() or "(unknown)",
                _PATIENCE_SECS,
            )
    return False


def _is_locked(descriptor: int) -> bool:
    """Lock a file for this process, unless another has; whether that is done."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    return True


def _write(path: Path, content: bytes) -> None:
    descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


@functools.cache
def processor() -> str:
    """Name this machine's kind of processor: programs for another may use instructions that it lacks."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        first = ""
    fields = [line for line in first.splitlines() if line.partition(":")[0].strip() in _CPU_FIELDS]
    described = "\n".join([platform.machine(), *fields])
    return f"{platform.machine()}-{hashlib.sha256(described.encode()).hexdigest()[:12]}"
