"""A task of `notebook_launcher`: calls the function, and writes what it returns in the first task."""

import json
import os
import pickle
import sys
from pathlib import Path

from muster._pickle import dumps


def main(given: str, result: str, first: str) -> None:
    """Call the function of a file.

    Args:
        given: The file: the function and its arguments, pickled.
        result: Where to write what it returns.
        first: The name of the task that writes it.
    """
    sys.path[0] = os.getcwd()  # where a notebook imports from, instead of this file's folder
    function, args = pickle.loads(Path(given).read_bytes())
    returned = function(*args)
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    if f"{task['type']} {task['index']}" == first:
        Path(result).write_bytes(dumps(returned))


if __name__ == "__main__":
    main(*sys.argv[1:])
