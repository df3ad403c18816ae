"""A trainer of Ray Train whose workers train in step, and what reports to it."""

import functools
import json
import os
import tempfile
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from muster._extras import extra_module
from muster._keras import keras
from muster.distribute import embedded
from muster.net import SECRET, make_secret


class MusterTrainer:
    """Trains in step on the workers of Ray Train: each calls a function, and finds the others.

    Ray starts the workers, gives them room, and starts all of them again when one is lost, as its
    ``FailureConfig`` says. In the function, ``MultiWorkerMirroredStrategy()`` finds the other workers, and
    ``ray.train`` has what it always has: ``report``, ``get_checkpoint``, ``get_dataset_shard``. The function
    runs in a block of `muster.distribute.embedded`: a worker that has lost another gets PeerLostError, which
    Ray takes for a failure. Needs the extra ``ray-train`` and Ray Train's second version, as Ray has it since
    2.51, or with ``RAY_TRAIN_V2_ENABLED=1``.

    Args:
        train_loop_per_worker: The function, of no argument, or of ``train_loop_config``.
        train_loop_config: What the function is given.
        **options: Those of ``ray.train.data_parallel_trainer.DataParallelTrainer``, such as
            ``scaling_config=ray.train.ScalingConfig(num_workers=2)``, ``run_config``, ``datasets``.

    Example:
        ```py
        def train(config):
            strategy = muster.distribute.MultiWorkerMirroredStrategy()
            with strategy.scope():
                model = build(config["rate"])
            model.fit(dataset, epochs=3, callbacks=[muster.ray.ReportCallback()])

        trainer = muster.ray.MusterTrainer(
            train, {"rate": 0.1}, scaling_config=ray.train.ScalingConfig(num_workers=2)
        )
        result = trainer.fit()
        ```
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        train_loop_config: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._loop = train_loop_per_worker
        self._config = None if train_loop_config is None else dict(train_loop_config)
        self._options = options

    def fit(self) -> Any:
        """Train, and return the ``ray.train.Result``.

        Raises:
            ImportError: Ray Train is not installed.
            ray.train.TrainingFailedError: The workers have failed more often than the failure config allows.
        """
        trainers: Any = extra_module(
            "ray.train.v2.api.data_parallel_trainer", "ray-train", "muster.ray.MusterTrainer"
        )
        trainer = trainers.DataParallelTrainer(
            _as_guest(self._loop),
            train_loop_config=self._config,
            backend_config=_backend_config(),
            **self._options,
        )
        return trainer.fit()


def _as_guest(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another in a block of `embedded`, with the signature of that one."""

    @functools.wraps(loop)
    def run(*args: Any) -> Any:
        with embedded():
            return loop(*args)

    return run


def _backend_config() -> Any:
    """Return what Ray Train prepares workers with: each is told the addresses of all."""
    backends: Any = extra_module("ray.train.backend", "ray-train", "muster.ray.MusterTrainer")
    secret = make_secret()

    class MusterBackend(backends.Backend):  # type: ignore[misc]
        def on_start(self, worker_group: Any, backend_config: Any) -> None:
            """Tell each worker the addresses of all, and what proves that it belongs to them."""
            addresses = worker_group.execute(_free_address)
            job = uuid.uuid4().hex[:8]
            for rank in range(len(addresses)):
                worker_group.execute_single(rank, _set_place, addresses, rank, job, secret)

    class MusterConfig(backends.BackendConfig):  # type: ignore[misc]
        @property
        def backend_cls(self) -> type:
            return MusterBackend

        def to_dict(self) -> dict[str, Any]:
            return {}

    return MusterConfig()


def _free_address() -> str:
    """Return an address of this worker that nobody uses."""
    import socket

    ray: Any = extra_module("ray", "ray-train", "muster.ray.MusterTrainer")
    host = ray.util.get_node_ip_address()
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
        sock.bind((host, 0))
        port = sock.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _set_place(addresses: list[str], rank: int, job: str, secret: str) -> None:
    """Set the variables by which a worker finds the others, in its process."""
    place = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
    os.environ |= {"TF_CONFIG": json.dumps(place), "MUSTER_JOB_ID": job, SECRET: secret}


class ReportCallback(keras.callbacks.Callback):  # type: ignore[misc]  # keras is untyped
    """Reports the metrics of each epoch of ``fit`` to Ray Train, and the model as a checkpoint.

    All workers must have it. The checkpoint is a folder with ``model.keras``, the whole model as
    ``keras.saving.load_model`` reads it. To go on after a failure use ``keras.callbacks.BackupAndRestore``,
    which also knows the place in the input.

    Args:
        checkpoint_every: After how many epochs there is a checkpoint; None for never.

    Raises:
        ValueError: ``checkpoint_every`` is less than 1.
    """

    def __init__(self, checkpoint_every: int | None = 1) -> None:
        super().__init__()
        if checkpoint_every is not None and checkpoint_every < 1:
            raise ValueError(
                f"checkpoint_every must be 1 or more, or None for no checkpoints, given: {checkpoint_every}."
            )
        self._every = checkpoint_every

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Report."""
        train: Any = extra_module("ray.train", "ray-train", "muster.ray.ReportCallback")
        metrics = {name: float(value) for name, value in (logs or {}).items()} | {"epoch": epoch}
        saves = self._every is not None and (epoch + 1) % self._every == 0
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if saves and train.get_context().get_world_rank() == 0:
                self.model.save(Path(folder, "model.keras"))
                checkpoint = train.Checkpoint.from_directory(folder)
            train.report(metrics, checkpoint=checkpoint)
