"""What muster changes in JAX and Keras: `muster.keras_hooks` names it all, and nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import muster.keras_hooks


@pytest.fixture(scope="module")
def changed() -> Any:
    folder = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, folder / "keras_hooks_child.py"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.processes
@pytest.mark.parametrize("when", ["always", "in scopes", "under tapes"])
def test_what_is_changed_is_named(changed: Any, when: str) -> None:
    hooks = [hook for hook in muster.keras_hooks.HOOKS if hook.when == when]
    assert changed[when] == sorted(f"{hook.owner} {name}" for hook in hooks for name in hook.names)


@pytest.mark.processes
def test_nothing_stays_of_what_is_there_in_scopes(changed: Any) -> None:
    assert changed["afterwards"] == []


def test_every_hook_has_a_reason() -> None:
    for hook in muster.keras_hooks.HOOKS:
        assert hook.why.endswith(".")
        assert hook.by.startswith("muster.")


def test_what_is_not_named_is_refused() -> None:
    kind = type("Layer", (), {})
    with pytest.raises(RuntimeError, match=r"does not name \S+Layer\.call: say there why"):
        muster.keras_hooks.install(kind, "call", None)
    assert not hasattr(kind, "call")
