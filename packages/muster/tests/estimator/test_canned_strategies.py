"""Canned Estimators on replicas, and beside servers in this process, step by step as on one device."""

import functools

import pytest
from local_servers import servers

from canned_models import BATCH, MODELS, OF_EACH_KIND, batches, check_same, trained
from muster.distribute import FixedShardsPartitioner, MirroredStrategy

pytestmark = [
    pytest.mark.usefixtures("compiled_once"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),  # Keras' own
]


@pytest.fixture(scope="module")
def on_one_device(tmp_path_factory):
    return functools.cache(lambda name: trained(name, tmp_path_factory.mktemp("one")))


@pytest.mark.samples("RNNClassifier", "LinearRegressor", "BaselineRegressor")
@pytest.mark.parametrize("name", MODELS)
def test_replicas_train_as_one_device_does(tmp_path, name, on_one_device):
    found = trained(
        name,
        tmp_path,
        lambda: batches(name, rows=BATCH // 2),
        train_distribute=MirroredStrategy(["/cpu:0", "/cpu:1"]),
    )
    check_same(found, on_one_device(name))


@pytest.mark.samples("LinearClassifier")
@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_a_worker_beside_servers_trains_as_one_device_does(tmp_path, name, on_one_device):
    with servers(2, FixedShardsPartitioner(2)) as strategy:
        found = trained(name, tmp_path, train_distribute=strategy)
    check_same(found, on_one_device(name))
