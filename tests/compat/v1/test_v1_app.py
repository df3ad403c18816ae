"""``tf.compat.v1.app``."""

import sys

import pytest

import muster.compat.tensorflow.compat.v1 as tf1


def test_the_app_runs_main_and_exits_with_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    tf1.disable_v2_behavior()
    given = []
    with pytest.raises(SystemExit) as ended:
        tf1.app.run(lambda argv: given.append(argv) or 3, argv=["program", "x"])
    assert (ended.value.code, given) == (3, [["program", "x"]])
    monkeypatch.setattr(sys.modules["__main__"], "main", lambda argv: argv[0], raising=False)
    monkeypatch.setattr(sys, "argv", ["this"])
    with pytest.raises(SystemExit, match="this"):
        tf1.app.run()
