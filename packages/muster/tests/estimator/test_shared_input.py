"""Workers beside parameter servers share a pass: each batch belongs to a ticket. One worker, here."""

from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pytest
from local_servers import servers
from shared_input import COUNT, input_fn, model_fn, shared

from jobs import free_addresses
from muster.cluster import ClusterSpec
from muster.data import Dataset
from muster.distribute import AsynchronousStrategy, InputContext, MirroredStrategy, Server
from muster.distribute.input import Position, StepSource
from muster.distribute.servers import TicketedSteps
from muster.estimator import Estimator, RunConfig, SessionRunHook
from muster.estimator.loop._training_input import open_training_input, place_of
from muster.ps import open_tickets
from muster.ps._tickets import Tickets

STEPS = COUNT // 4


class Stop(SessionRunHook):
    """Kills the training, as it were, after so many steps."""

    def __init__(self, steps):
        self.left = steps

    def after_run(self, run_context, run_values):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def train(folder, returns=input_fn, hooks=(), **limits):
    """Train beside a server until the data or the steps end; return what was visited, and the step."""
    with servers(1) as strategy:
        config = RunConfig(str(folder), train_distribute=strategy, save_checkpoints_steps=20)
        estimator = Estimator(model_fn, config=config)
        try:
            estimator.train(returns, hooks=list(hooks), **limits)
        except KeyboardInterrupt:
            pass
        seen = estimator.get_variable_value("visits/seen")
        return seen, int(estimator.get_variable_value("global_step"))


@pytest.mark.samples("False")
@pytest.mark.parametrize("known", [True, False])
def test_training_ends_with_the_data(tmp_path, known):
    seen, step = train(tmp_path, lambda: input_fn(2, known))
    assert seen.tolist() == [2.0] * COUNT
    assert step == 2 * STEPS


def test_a_training_that_was_interrupted_goes_on_in_the_same_pass(tmp_path):
    seen, step = train(tmp_path, hooks=[Stop(50)])
    assert step == 50
    assert seen.sum() == 200
    assert seen.max() == 1
    seen, step = train(tmp_path)
    assert step == STEPS
    assert seen.tolist() == [1.0] * COUNT
    seen, step = train(tmp_path, max_steps=STEPS + 10)  # the next one begins another pass
    assert step == STEPS + 10
    assert seen.sum() == COUNT + 40
    assert seen.max() == 2
    seen, step = train(tmp_path, steps=10)
    assert step == STEPS + 20


def test_steps_may_end_before_the_data(tmp_path):
    seen, step = train(tmp_path, max_steps=7)
    assert (step, seen.sum(), seen.max()) == (7, 28, 1)


def test_rounds_do_not_go_with_shared_input(tmp_path):
    with servers(1, max_staleness=0) as strategy:
        estimator = Estimator(model_fn, config=RunConfig(str(tmp_path), train_distribute=strategy))
        with pytest.raises(ValueError, match='max_staleness=0 and dispatch="dynamic" exclude each other'):
            estimator.train(input_fn)


def test_workers_that_train_in_step_divide_their_input_by_hand(tmp_path):
    two = SimpleNamespace(
        input_context=InputContext(num_input_pipelines=2),
        local_replicas=1,
        steps=StepSource(),
        workers=SimpleNamespace(share=None),
    )
    with pytest.raises(ValueError, match="The 2 workers .* train in step: divide"):
        open_training_input(None, two, lambda context: input_fn(), None, None)


@pytest.mark.parametrize("chief_shares", [True, False])
def test_all_tasks_share_their_input_or_none_does(tmp_path, chief_shares):
    def own():
        return Dataset.range(COUNT).batch(4)

    inputs = (input_fn, own) if chief_shares else (own, input_fn)
    cluster = ClusterSpec({"chief": free_addresses(1), "worker": free_addresses(1), "ps": free_addresses(1)})
    with ExitStack() as stack:
        for task in ("ps", "chief", "worker"):
            server = stack.enter_context(Server(cluster, task))
            if task == "ps":
                continue
            strategy = AsynchronousStrategy(server, starts=task == "chief")
            stack.callback(strategy.close)
            config = RunConfig(str(tmp_path / task), train_distribute=strategy)
            estimator = Estimator(model_fn, config=config)
            if task == "chief":
                estimator.train(inputs[0], steps=3)
                continue
            with pytest.raises(ValueError, match='dispatch="dynamic", and that of the chief has'):
                estimator.train(inputs[1], steps=3)


def test_without_servers_the_dataset_is_read_as_it_is(tmp_path):
    strategy = MirroredStrategy(["/cpu:0"])
    estimator = Estimator(model_fn, config=RunConfig(str(tmp_path), train_distribute=strategy))
    estimator.train(input_fn)
    assert estimator.get_variable_value("visits/seen").tolist() == [1.0] * COUNT


def test_an_empty_input_is_said(tmp_path):
    with pytest.raises(Exception, match=r"(?i)no (batch|example|data)|empty"):
        train(tmp_path, lambda: shared(Dataset.range(0).batch(4)))


def test_batches_of_several_shapes_are_computed(tmp_path):
    seen, step = train(tmp_path, lambda: shared(Dataset.range(COUNT).batch(7)))
    assert np.array_equal(seen, np.ones(COUNT))
    assert step == -(-COUNT // 7)


class Saved:
    """A checkpoint named after step 20, whose values had come to step 23, with tickets 21 and 24 open."""

    step = 20
    variables = {"global_step": np.int64(23), "open_tickets": open_tickets([21, 24])}


def test_where_a_pass_goes_on():
    numbers = TicketedSteps(SimpleNamespace(max_staleness=None))
    assert place_of(None, None, numbers) == Position(begin=0, drawn=0)
    assert place_of(Saved(), None, numbers) == Position(begin=20, drawn=20)
    own = Position(pipelines=[{"elements": 3}])
    assert place_of(Saved(), own, numbers) == Position(begin=20, drawn=20)
    shared = Position(pipelines=[{"elements": 0}], begin=10)
    further_back = Position(pipelines=[{"elements": 0}], begin=7, drawn=20, open=[18, 21])
    assert place_of(Saved(), shared, numbers) == further_back
    tickets = Tickets(20, [18, 21])
    assert [tickets.ticket(caller, None) - 7 for caller in "abcd"] == [21 - 10, 24 - 10, 25 - 10, 26 - 10]
