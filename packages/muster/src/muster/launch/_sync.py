"""Pack the folder of a program, for hosts that lack it."""

import io
import tarfile
from pathlib import Path

from muster._errors import ClusterError

_MOST_BYTES = 64 << 20


def pack_folder(program: tuple[str, ...], folder: Path | None = None) -> bytes:
    """Return a tar archive of the folder that a program is started in, without what is hidden in it.

    Args:
        program: The words after the interpreter: a file in that folder, or ``-m`` and a module.
        folder: The folder; None for the working directory.

    Raises:
        ClusterError: The program is elsewhere, or the folder is too large.
    """
    folder = Path.cwd() if folder is None else folder
    if program[0] != "-m" and not (folder / program[0]).resolve().is_relative_to(folder.resolve()):
        raise ClusterError(f"--sync sends {folder}, and {program[0]} is not in it. Start it from its folder.")
    packed = io.BytesIO()
    size = 0
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if any(part.startswith(".") or part == "__pycache__" for part in inside.parts):
                continue
            if path.is_file() and not path.is_symlink():
                size += path.stat().st_size
                if size > _MOST_BYTES:
                    raise ClusterError(
                        f"--sync sends at most {_MOST_BYTES >> 20} MiB, and {folder} has more. Start the "
                        "program in a folder of its own, or put it where all hosts see it."
                    )
                archive.add(path, inside.as_posix(), recursive=False)
    return packed.getvalue()
