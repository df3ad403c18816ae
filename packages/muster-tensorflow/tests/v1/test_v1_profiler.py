"""The parameters of a model_fn, counted and shown as by TensorFlow 2.15."""

import pytest

import muster_tensorflow as tf
from muster import TraceError
from muster.program.trace import Program

tf1 = tf.compat.v1
Options = tf1.profiler.ProfileOptionBuilder

TREE = """node name | # parameters
_TFProfRoot (--/41 params)
  net (--/41 params)
    net/a (--/16 params)
      net/a/bias (4, 4/4 params)
      net/a/kernel (3x4, 12/12 params)
    net/b (--/25 params)
      net/b/bias (5, 5/5 params)
      net/b/kernel (4x5, 20/20 params)
"""


def profiled(options, **others):
    def build():
        with tf1.variable_scope("net"):
            y = tf1.layers.dense(tf.ones((2, 3)), 4, name="a")
            y = tf1.layers.dense(y, 5, name="b")
        return {"y": y}, tf1.profiler.profile(tf1.get_default_graph(), options=options, **others)

    return Program(build).static


def test_the_tree_is_tensorflows(capsys):
    root = profiled(Options.trainable_variables_parameter())
    assert capsys.readouterr().out == TREE
    assert (root.name, root.total_parameters, root.parameters) == ("_TFProfRoot", 41, 0)
    assert [(each.name, each.total_parameters) for each in root.children] == [("net", 41)]


def test_options_choose_what_is_counted_and_shown(tmp_path, capsys):
    made = Options(Options.trainable_variables_parameter()).with_max_depth(2).order_by("params")
    assert profiled(made.with_file_output(tmp_path / "tree").build()).total_parameters == 41
    lines = (tmp_path / "tree").read_text().splitlines()[2:]
    assert lines == ["  net (--/41 params)", "    net/b (--/25 params)", "    net/a (--/16 params)"]
    kernels = (
        made.with_node_names(show_name_regexes=[".*kernel"]).with_min_parameters(20).with_stdout_output()
    )
    assert profiled(kernels.with_max_depth(9).with_stdout_output().build()).total_parameters == 32
    assert capsys.readouterr().out.splitlines()[-1] == "      net/b/kernel (4x5, 20/20 params)"
    profiled(made.with_empty_output().build())
    assert not capsys.readouterr().out


def test_what_is_not_counted_is_said(caplog, capsys):
    assert profiled(Options.float_operation()).total_float_ops == 0
    assert [each.split(" XLA")[0] for each in caplog.messages] == [
        "tf.profiler.profile counts parameters alone: float_ops are 0 here."
    ]
    assert not capsys.readouterr().out


def test_there_must_be_a_model_fn():
    with pytest.raises(TraceError, match="model_fn"):
        tf1.profiler.profile()


def test_contribs_names_are_the_same(capsys):
    analyzer = tf.contrib.tfprof.model_analyzer

    def build():
        y = tf1.layers.dense(tf.ones((2, 3)), 4)
        options = analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS
        return {"y": y}, analyzer.print_model_analysis(tf1.get_default_graph(), tfprof_options=options)

    assert Program(build).static.total_parameters == 16
    assert "dense/kernel (3x4, 12/12 params)" in capsys.readouterr().out
