"""MLflow and Weights & Biases."""

import os
from collections.abc import Mapping
from typing import Any

from muster._extras import extra_module
from muster.distribute import Strategy
from muster.integrations._tracker import Tracker


class MLflow(Tracker):
    """A run of MLflow.

    Args:
        experiment: The name of the experiment; None for the one that is set.
        run_name: The name of the run.
        tracking_uri: The address of the server, or a folder; None for what ``MLFLOW_TRACKING_URI`` says.
        params: See `Tracker`, and so are the others.
        folder: See there.
        strategy: See there.

    Raises:
        ImportError: The package ``mlflow`` is not installed.

    Example:
        ```py
        with MLflow(experiment="digits", params={"units": 64}) as tracker:
            model.fit(images, labels, epochs=3, callbacks=[tracker.callback()])
        ```
    """

    name = "mlflow"

    def __init__(
        self,
        experiment: str | None = None,
        *,
        run_name: str | None = None,
        tracking_uri: str | None = None,
        params: Mapping[str, Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
        strategy: Strategy | None = None,
    ) -> None:
        super().__init__(params=params, folder=folder, strategy=strategy)
        self._mlflow: Any = extra_module("mlflow", "mlflow", "MLflow")
        self._experiment, self._run_name, self._uri = experiment, run_name, tracking_uri
        self._client: Any = None

    def _open(self, run: str | None) -> str:
        # A client of its own: runs that the program itself begins stay what they are.
        self._client = self._mlflow.MlflowClient(tracking_uri=self._uri)
        if run is not None:
            self._client.update_run(run, status="RUNNING")
            return run
        begun = self._client.create_run(self._experiment_id(), run_name=self._run_name)
        identifier: str = begun.info.run_id
        for name, value in self.params.items():
            self._client.log_param(identifier, name, value)
        return identifier

    def _experiment_id(self) -> str:
        name = (
            self._experiment or self._mlflow.environment_variables.MLFLOW_EXPERIMENT_NAME.get() or "Default"
        )
        found = self._client.get_experiment_by_name(name)
        identifier: str = self._client.create_experiment(name) if found is None else found.experiment_id
        return identifier

    def _send(self, metrics: dict[str, float], step: int) -> None:
        entity, now = self._mlflow.entities.Metric, self._mlflow.utils.time.get_current_time_millis()
        sent = [entity(name, value, now, step) for name, value in metrics.items()]
        self._client.log_batch(self._run, metrics=sent)

    def _close(self, failed: bool) -> None:
        self._client.set_terminated(self._run, "FAILED" if failed else "FINISHED")


class WandB(Tracker):
    """A run of Weights & Biases.

    Args:
        project: The name of the project.
        params: See `Tracker`, and so are the next two.
        folder: See there.
        strategy: See there.
        **options: Passed on to ``wandb.init``, such as ``mode="offline"``, ``name`` or ``tags``.

    Raises:
        ImportError: The package ``wandb`` is not installed.

    Example:
        ```py
        with WandB("digits", params={"units": 64}) as tracker:
            estimator.train(input_fn, max_steps=1000, hooks=[tracker.hook(every_n_steps=50)])
        ```
    """

    name = "wandb"

    def __init__(
        self,
        project: str | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        folder: str | os.PathLike[str] | None = None,
        strategy: Strategy | None = None,
        **options: Any,
    ) -> None:
        super().__init__(params=params, folder=folder, strategy=strategy)
        self._wandb: Any = extra_module("wandb", "wandb", "WandB")
        self._options = {"project": project, **options}
        self._opened: Any = None

    def _open(self, run: str | None) -> str:
        again = {} if run is None else {"id": run, "resume": "allow"}
        self._opened = self._wandb.init(config=self.params, **{**self._options, **again})
        # Metrics of one step may come from training and from an evaluation: W&B's own steps only go forward.
        self._opened.define_metric("step")
        self._opened.define_metric("*", step_metric="step")
        identifier: str = self._opened.id
        return identifier

    def _send(self, metrics: dict[str, float], step: int) -> None:
        self._opened.log({**metrics, "step": step})

    def _close(self, failed: bool) -> None:
        self._opened.finish(exit_code=1 if failed else 0)
