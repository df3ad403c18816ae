"""Rules for matrix products, convolutions and windows."""

from muster.program.partition._sharded_equation import ShardedEquation
from muster.program.partition._sharding import Value


def dot_general(equation: ShardedEquation) -> list[Value]:
    contracted, batch = equation.param("dimension_numbers")
    axes = equation.axis(0), equation.axis(1)
    i = 0 if axes[0] is not None else 1
    axis: int = axes[i]  # type: ignore[assignment]
    for dims in (contracted, batch):
        if axis in dims[i]:
            place = dims[i].index(axis)
            args = [equation.shard(0, dims[0][place]), equation.shard(1, dims[1][place])]
            return equation.partial(*args) if dims is contracted else equation.sharded(place, *args)
    other = equation.replicated(1 - i)
    free = [
        [dim for dim in range(len(equation.shape(j))) if dim not in (*contracted[j], *batch[j])]
        for j in (0, 1)
    ]
    to = len(batch[0]) + free[i].index(axis) + (len(free[0]) if i == 1 else 0)
    shard = equation.shard(i, axis)
    return equation.sharded(to, *((shard, other) if i == 0 else (other, shard)))


def convolution(equation: ShardedEquation) -> list[Value]:
    """Convolve sharded images; or compute the gradient of a kernel, which adds over the batch."""
    numbers = equation.param("dimension_numbers")
    (images, features, *_), (_, inputs, *_) = numbers.lhs_spec, numbers.rhs_spec
    if equation.axis(0) == images and equation.param("batch_group_count") == 1:
        return equation.sharded(numbers.out_spec[0], equation.shard(0, images), equation.replicated(1))
    axes = equation.axis(0) in (None, features) and equation.axis(1) in (None, inputs)
    equation.require(axes and equation.param("feature_group_count") == 1)
    return equation.partial(equation.shard(0, features), equation.shard(1, inputs))


def windows(equation: ShardedEquation) -> list[Value]:
    """Move windows over axes that are not sharded."""
    axis, params = equation.common_axis(), equation.eqn.params
    one = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")
    equation.require(all(params[name][axis] == 1 for name in one if name in params))
    equation.require(tuple(params["padding"][axis]) == (0, 0))
    return equation.sharded(axis, *[equation.shard(i, axis) for i in range(len(equation.operands))])
