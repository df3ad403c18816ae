"""What muster changes in JAX and Keras: `muster.keras_hooks` names it all, and nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import muster.keras_hooks
from muster._keras import keras


@pytest.mark.processes
def test_what_is_changed_is_named_and_undone(tmp_path: Path) -> None:
    """And a model that no strategy trains gives the same bits, in steps that take as long.

    They run the same programs, which are not compiled again, and between these as many functions. One test,
    for its process takes 20 seconds.
    """
    done = subprocess.run(
        [sys.executable, Path(__file__).parent / "keras_hooks_child.py", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    changed: dict[str, Any] = json.loads(done.stdout)
    for when in ("always", "in scopes", "under tapes"):
        hooks = [hook for hook in muster.keras_hooks.HOOKS if hook.when == when]
        assert changed[when] == sorted(f"{hook.owner} {name}" for hook in hooks for name in hook.names), when
    assert changed["afterwards"] == changed["uninstalled"] == []
    assert changed["installed again"] == changed["always"]
    without, with_it = changed["trained"]
    assert with_it == without
    without, with_it = changed["programs"]
    assert with_it == without
    assert len(without) == 5
    without, with_it = changed["calls of a step"]
    assert with_it == pytest.approx(without, rel=0.01), without


def test_every_hook_has_a_reason_and_a_test() -> None:
    for hook in muster.keras_hooks.HOOKS:
        assert hook.why.endswith(".")
        assert hook.by.startswith("muster.")
        assert (Path(__file__).parent / hook.test).is_file(), hook
    assert set(muster.keras_hooks.TRIED) == {"jax", "keras"}


def test_hooks_stay_while_a_scope_or_a_tape_needs_them() -> None:
    with (
        muster.keras_hooks.patched_keras(),
        pytest.raises(RuntimeError, match="a strategy's scope is active"),
    ):
        muster.keras_hooks.uninstall()


def test_what_is_registered_later_is_set_at_once_and_undone_in_the_opposite_order() -> None:
    kind = keras.Layer
    own, inherited = vars(kind)["add_weight"], keras.layers.Embedding.add_weight
    patches = muster.keras_hooks.Patches()
    patches.begin()
    patches.add(kind, "add_weight", lambda original: ("first", original))
    patches.add(kind, "add_weight", lambda original: ("second", original))
    assert kind.add_weight == ("second", ("first", own))
    patches.begin()
    patches.end()
    assert kind.add_weight == ("second", ("first", own))
    patches.end()
    assert vars(kind)["add_weight"] is own is inherited
    assert not patches.are_in_use


def test_what_is_not_named_is_refused() -> None:
    kind = type("Layer", (), {})
    with pytest.raises(RuntimeError, match=r"does not name \S+Layer\.call: say there why"):
        muster.keras_hooks.replace(kind, "call", None)
    assert not hasattr(kind, "call")
