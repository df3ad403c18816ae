"""``tf.compat.v1.app``."""

import sys

import pytest
from absl import flags

import muster_tensorflow.compat.v1 as tf1


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


@pytest.fixture
def no_flags():
    saved = flags.FLAGS.__dict__["__flags"].copy(), flags.FLAGS.is_parsed()
    flags.FLAGS.unparse_flags()
    yield
    for name in set(flags.FLAGS) - set(saved[0]):
        delattr(flags.FLAGS, name)
    flags.FLAGS.__dict__["__flags"].update(saved[0])
    if saved[1]:
        flags.FLAGS.mark_as_parsed()


def test_a_flag_that_is_read_before_parses_the_command_line(monkeypatch, no_flags):
    monkeypatch.setattr(sys, "argv", ["program", "--early_steps=5"])
    tf1.flags.DEFINE_integer("early_steps", 3, "Steps.")
    FLAGS = tf1.flags.FLAGS
    assert FLAGS is tf1.app.flags.FLAGS
    assert not flags.FLAGS.is_parsed()
    assert FLAGS.early_steps == 5
    assert flags.FLAGS.is_parsed()
    FLAGS.early_steps = 6
    assert ("early_steps" in FLAGS, FLAGS["early_steps"].value, len(FLAGS) > 0) == (True, 6, True)
    assert FLAGS.flag_values_dict()["early_steps"] == flags.FLAGS.early_steps == 6
    assert FLAGS(["program", "--early_steps=7", "x"]) == ["program", "x"]
    del FLAGS.early_steps
    assert "early_steps" not in list(FLAGS)
    with pytest.raises(AttributeError, match="early_steps"):
        getattr(FLAGS, "early_steps")  # noqa: B009


def test_a_program_defines_a_flag_that_absl_has_for_its_log(monkeypatch, no_flags):
    monkeypatch.setattr(sys, "argv", ["program"])
    tf1.flags.DEFINE_string("log_dir", "summaries", "Where summaries go.")
    assert tf1.flags.FLAGS.log_dir == "summaries"
    tf1.flags.DEFINE_string("mine", "once", "Mine.")
    with pytest.raises(flags.DuplicateFlagError):
        tf1.flags.DEFINE_string("mine", "twice", "Mine.")


def test_looking_for_a_flag_that_nobody_defined_parses_nothing(monkeypatch, no_flags):
    monkeypatch.setattr(sys, "argv", ["program", "--write"])
    assert not hasattr(tf1.flags.FLAGS, "learning_rate_of_nobody")
    assert not flags.FLAGS.is_parsed()
