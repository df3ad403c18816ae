"""Functions of datasets that use the flags of a program: workers have their values."""

import pickle

from absl import flags

from muster.distribute.coordinator._pickling import pickled

FLAGS = flags.FlagValues()
flags.DEFINE_integer("rows", 3, "How many.", flag_values=FLAGS)


def test_workers_have_the_values_of_flags():
    FLAGS(["program", "--rows=5"])
    flag_values = FLAGS
    made = pickle.loads(pickled(lambda: [flag_values.rows]))
    assert made() == [5]
