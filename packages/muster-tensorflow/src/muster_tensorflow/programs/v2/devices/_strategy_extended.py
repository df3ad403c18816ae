"""``strategy.extended``: TensorFlow's lower-level interface of strategies."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax

from muster import keras
from muster.distribute import PerReplica, ReduceOp, ReplicaContext, Strategy
from muster.extend import current_context, map_values, origin_of
from muster_tensorflow.patches import change


class StrategyExtended:
    """Offers TensorFlow's lower-level names for a strategy.

    A variable has one value here, however many devices hold it.

    Args:
        strategy: The strategy.

    Source: tensorflow/python/distribute/distribute_lib.py, ``StrategyExtendedV2``.
    """

    experimental_require_static_shapes = False

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy

    @property
    def worker_devices(self) -> tuple[str, ...]:
        """The devices of this process' replicas."""
        return self._devices("worker_devices", self._strategy.placement.per_replica)

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        """The devices of this process that hold variables."""
        return self._devices("parameter_devices", self._strategy.placement.sharding)

    @property
    def should_checkpoint(self) -> bool:
        """True if this process writes checkpoints."""
        return self._strategy.workers.is_chief

    should_save_summary = should_checkpoint

    @property
    def experimental_between_graph(self) -> bool:
        """True if each worker runs the program, beside others."""
        return self._strategy.workers.size > 1

    def call_for_each_replica(
        self, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call a function on each replica: see ``Strategy.run``."""
        return self._strategy.run(fn, args, kwargs)

    def reduce_to(self, reduce_op: ReduceOp | str, value: Any, destinations: Any, options: Any = None) -> Any:
        """Reduce values over the replicas, for all devices: see ``Strategy.reduce``."""
        return self._strategy.reduce(reduce_op, value)

    def batch_reduce_to(
        self,
        reduce_op: ReduceOp | str,
        value_destination_pairs: Sequence[tuple[Any, Any]],
        options: Any = None,
    ) -> Any:
        """Reduce values over the replicas together: see ``Strategy.reduce``."""
        return self._strategy.reduce(reduce_op, [value for value, _ in value_destination_pairs])

    def broadcast_to(self, tensor: Any, destinations: Any) -> Any:
        """Return a value, which all devices have."""
        return tensor

    def update(
        self,
        var: keras.Variable,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        group: bool = True,
    ) -> Any:
        """Call a function of a variable in the cross-replica context, once for all devices.

        Args:
            var: The variable, the first argument of the function.
            fn: The function, which assigns to it.
            args: Further arguments, equal on all replicas.
            kwargs: Keyword arguments, equal on all replicas.
            group: Whether to return what the function returns, rather than a tuple with it for each device.
        """
        return self.update_non_slot(None, fn, (var, *args), kwargs, group)

    def update_non_slot(
        self,
        colocate_with: Any,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        group: bool = True,
    ) -> Any:
        """Call a function in the cross-replica context, once for all devices; otherwise as `update`."""
        context = current_context()
        if isinstance(context, ReplicaContext):
            result = context.merge_call(
                lambda _, *args, **kwargs: self._merged(fn, args, kwargs), args, kwargs
            )
        else:
            with self._strategy.scope():
                result = fn(*args, **(kwargs or {}))
        sharding = self._strategy.placement.sharding
        return result if group else (result,) * len(sharding.addressable_devices if sharding else (None,))

    def _merged(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call a function with the mean of what the replicas passed, which is to be equal on all."""

        def mean(value: Any) -> Any:
            return self._strategy.reduce("MEAN", value) if isinstance(value, PerReplica) else value

        args, kwargs = map_values(mean, (tuple(args), kwargs))
        return fn(*args, **kwargs)

    def non_slot_devices(self, var_list: Any) -> Any:
        """Return what to pass to `update_non_slot`."""
        return var_list

    def value_container(self, value: Any) -> Any:
        """Return a variable, which is its own container."""
        return value

    def read_var(self, v: keras.Variable) -> jax.Array:
        """Return the value of a variable."""
        return v.value  # type: ignore[no-any-return]

    def variable_created_in_scope(self, v: keras.Variable) -> bool:
        """Return whether a variable was created in this strategy's scope."""
        owner: Any = origin_of(v).owner
        return owner is self._strategy or owner is None and self._strategy.placement.sharding is None

    @contextlib.contextmanager
    def colocate_vars_with(self, colocate_with_variable: keras.Variable) -> Iterator[None]:
        """Create variables where another one is, which all of a strategy's are.

        Raises:
            ValueError: That one was created elsewhere.
        """
        if not self.variable_created_in_scope(colocate_with_variable):
            raise ValueError(
                "`colocate_vars_with` must only be passed a variable created in this "
                f"tf.distribute.Strategy.scope(), not: {colocate_with_variable.path!r}."
            )
        yield

    def _devices(self, method: str, sharding: jax.sharding.Sharding | None) -> tuple[str, ...]:
        if sharding is None:
            raise RuntimeError(f"{method}() method unsupported by default tf.distribute.Strategy.")
        devices: list[Any] = sorted(sharding.addressable_devices, key=lambda device: device.id)
        return tuple(f"/device:{each.platform.upper()}:{each.id}" for each in devices)


def _replicas_devices(self: ReplicaContext) -> tuple[str, ...]:
    """Return the device of a replica; the first one's of this process, since all run one program.

    Outside of replicas it is empty text, as TensorFlow's.

    Source: tensorflow/python/distribute/distribute_lib.py, ``ReplicaContextBase.devices``.
    """
    strategy: Any = self.strategy
    if strategy.placement.per_replica is None:
        return ("",)
    found: tuple[str, ...] = strategy.extended.worker_devices[:1]
    return found


def patch() -> None:
    """Give strategies the attribute ``extended``, and replica contexts ``devices``."""
    change(Strategy, "extended", property(StrategyExtended))
    change(ReplicaContext, "devices", property(_replicas_devices))
