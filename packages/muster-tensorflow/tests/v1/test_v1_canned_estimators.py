"""TensorFlow 1's canned Estimators: their optimizers and reductions, replicas, and what they refuse."""

import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf
from canned_models import BATCH, CLASSES, COMBINED, STEPS, X, check_same, values_of
from muster.data import Dataset
from muster.distribute import MirroredStrategy
from muster.estimator import RunConfig
from muster.feature_column import numeric_column
from noted_losses import Losses

pytestmark = [
    pytest.mark.usefixtures("compiled_once"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras' own
]

ROWS = np.random.default_rng(0).normal(size=(32, 2)).astype("float32")
FEATURES = {"a": ROWS[:, 0], "b": ROWS[:, 1], "town": np.array(["ulm", "köln"] * 16)}
NUMBERS = ROWS @ np.float32([2, -1])
COLUMNS = [numeric_column("a"), numeric_column("b")]


def batches():
    return Dataset.from_tensor_slices((FEATURES, NUMBERS)).repeat().batch(8)


def trained(folder, rows, **config):
    """The losses of some steps of a model of two parts, and the values of its variables after them."""
    seen = Losses()
    estimator = tf.estimator.DNNLinearCombinedClassifier(
        model_dir=str(folder),
        config=RunConfig(tf_random_seed=1, **config),
        **{**COMBINED, "linear_optimizer": "Ftrl", "dnn_optimizer": "Adagrad", "n_classes": 3},
    )
    data = Dataset.from_tensor_slices((X, CLASSES)).repeat().batch(rows)
    estimator.train(lambda: data, hooks=[seen], steps=STEPS)
    return seen.losses, values_of(estimator)


def test_replicas_train_as_one_device_does(tmp_path):
    two = trained(tmp_path / "two", BATCH // 2, train_distribute=MirroredStrategy(["/cpu:0", "/cpu:1"]))
    check_same(two, trained(tmp_path / "one", BATCH))


def test_optimizers_of_tensorflow_1(tmp_path):
    def weights(folder, optimizer):
        est = tf.estimator.LinearRegressor(COLUMNS, str(tmp_path / folder), optimizer=optimizer)
        return est.train(batches, steps=2).get_variable_value("linear/linear_model/a/weights")

    given = weights("given", tf.train.MomentumOptimizer(0.01, 0.9))
    made = weights("made", lambda: tf.train.MomentumOptimizer(0.01, momentum=0.9))
    assert given == made != 0
    assert weights("named", "SGD") != 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: tf.estimator.LinearClassifier(COLUMNS, partitioner=len),
            "partitioner must be None, given: .*Give one to ParameterServerStrategy",
        ),
        (
            lambda: tf.estimator.LinearClassifier(COLUMNS, optimizer="Bogus"),
            "Unsupported optimizer name: Bogus",
        ),
        (lambda: tf.estimator.BaselineRegressor(loss_reduction="none"), "Invalid loss_reduction: none"),
    ],
)
def test_arguments_that_are_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("reduction", "divisor"),
    [("SUM", 1), ("MEAN", 3.5), ("SUM_BY_NONZERO_WEIGHTS", 2), ("SUM_OVER_BATCH_SIZE", 4)],
)
def test_reductions_of_tensorflow_1(tmp_path, reduction, divisor):
    est = tf.estimator.BaselineRegressor(
        str(tmp_path), weight_column="w", loss_reduction=getattr(tf.losses.Reduction, reduction)
    )
    features = {"a": np.ones(4, "float32"), "w": np.float32([3, 0.5, 0, 0])}
    seen = Losses()
    labels = np.float32([1, 2, 3, 4])
    est.train(lambda: Dataset.from_tensors((features, labels)), hooks=[seen])
    assert seen.losses == pytest.approx([(3 * 1 + 0.5 * 4) / divisor])
    nothing = features | {"w": np.zeros(4, "float32")}
    assert est.evaluate(lambda: Dataset.from_tensors((nothing, labels)))["loss"] == 0
