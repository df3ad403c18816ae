"""Take derivatives by tapes: what is watched, persistent tapes, higher orders, Jacobians."""

import numpy as np

import muster_tensorflow as tf

# A variable, in a tensor of any shape.
x = tf.Variable(3.0)
with tf.GradientTape() as tape:
    y = x**2
dy_dx = tape.gradient(y, x)
assert dy_dx.numpy() == 6.0

tf.random.set_seed(1)
w = tf.Variable(tf.random.normal((3, 2)), name="w")
b = tf.Variable(tf.zeros(2, dtype=tf.float32), name="b")
data = [[1.0, 2.0, 3.0]]
with tf.GradientTape(persistent=True) as tape:
    y = tf.matmul(data, w) + b
    loss = tf.reduce_mean(y**2)
my_vars = {"w": w, "b": b}
grad = tape.gradient(loss, my_vars)
dl_dw, dl_db = tape.gradient(loss, [w, b])
assert dl_dw.shape == w.shape
np.testing.assert_allclose(grad["b"].numpy(), dl_db.numpy())
np.testing.assert_allclose(dl_db.numpy(), y.numpy()[0], rtol=1e-6)
del tape

# A layer's variables.
layer = tf.keras.layers.Dense(2, activation="relu")
x = tf.constant([[1.0, 2.0, 3.0]])
with tf.GradientTape() as tape:
    y = layer(x)
    loss = tf.reduce_mean(y**2)
for var, g in zip(layer.trainable_variables, tape.gradient(loss, layer.trainable_variables), strict=True):
    print(f"{var.name}, shape: {g.shape}")
    assert g.shape == var.shape

# What is watched: trainable variables that are read, and nothing else unless the tape is told.
x0 = tf.Variable(3.0, name="x0")
x1 = tf.Variable(3.0, name="x1", trainable=False)
x2 = tf.Variable(2.0, name="x2") + 1.0
x3 = tf.constant(3.0, name="x3")
with tf.GradientTape() as tape:
    y = (x0**2) + (x1**2) + (x2**2)
    print("y is", y.numpy(), "in the block, too")
watched = [var.name for var in tape.watched_variables()]
grads = tape.gradient(y, [x0, x1, x2, x3])
assert [None if g is None else g.numpy() for g in grads] == [6.0, None, None, None]
assert watched == ["x0:0"], watched

x = tf.constant(3.0)
with tf.GradientTape(watch_accessed_variables=False) as tape:
    tape.watch(x)
    y = x * x * x0
assert tape.gradient(y, {"x": x, "x0": x0}) == {"x": 18.0, "x0": None}

# Intermediate results, and a persistent tape.
x = tf.constant([1, 3.0])
with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    y = x * x
    z = y * y
assert tape.gradient(z, x).numpy().tolist() == [4.0, 108.0]
assert tape.gradient(y, x).numpy().tolist() == [2.0, 6.0]
assert tape.gradient(z, y).numpy().tolist() == [2.0, 18.0]
assert tape.gradient({"y": y, "z": z}, x).numpy().tolist() == [6.0, 114.0]
del tape

# Control flow of Python; a step of a variable in the block ends the way back.
x = tf.constant(1.0)
v0, v1 = tf.Variable(2.0), tf.Variable(2.0)
with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    if x > 0.0:
        result = v0
    else:
        result = v1**2
    result = result * 1.0
assert tape.gradient(result, [v0, v1]) == [1.0, None]
with tf.GradientTape() as tape:
    v0.assign_add(v1)
    y = v0 * 2
assert tape.gradient(y, [v0, v1]) == [2.0, None]

# None, or zeros.
x, y = tf.Variable([2.0, 2.0]), tf.Variable(3.0)
with tf.GradientTape(persistent=True) as tape:
    z = y**2
assert tape.gradient(z, x) is None
zeros = tape.gradient(z, x, unconnected_gradients=tf.UnconnectedGradients.ZERO)
assert zeros.numpy().tolist() == [0, 0]

# Not recorded.
with tf.GradientTape() as t:
    z = y * y
    with t.stop_recording():
        hidden = y**2
    stopped = tf.stop_gradient(y) * y
assert t.gradient([z, hidden, stopped], y).numpy() == 6 + 0 + 3


@tf.custom_gradient
def clip_gradients(y):
    def backward(dy):
        return tf.clip_by_norm(dy, 0.5)

    return y, backward


v = tf.Variable(2.0)
with tf.GradientTape() as t:
    output = clip_gradients(v * v)
np.testing.assert_allclose(t.gradient(output, v).numpy(), 0.5 * 4)

# Higher orders: a tape in a tape.
x = tf.Variable(1.0)
with tf.GradientTape() as t2:
    with tf.GradientTape() as t1:
        y = x * x * x
    dy_dx = t1.gradient(y, x)
d2y_dx2 = t2.gradient(dy_dx, x)
assert (dy_dx.numpy(), d2y_dx2.numpy()) == (3.0, 6.0)

# The gradient's size as part of a loss.
x = tf.random.normal([7, 5])
layer = tf.keras.layers.Dense(10, activation=tf.nn.relu)
with tf.GradientTape() as t2:
    with tf.GradientTape(watch_accessed_variables=False) as t1:
        t1.watch(x)
        out = tf.reduce_sum(layer(x) ** 2)
    g1 = t1.gradient(out, x)
    g1_mag = tf.norm(g1)
dg1_mag = t2.gradient(g1_mag, layer.trainable_variables)
assert [g.shape for g in dg1_mag] == [(5, 10), (10,)]

# Jacobians.
x = tf.linspace(-10.0, 10.0, 21)
delta = tf.Variable(0.0)
with tf.GradientTape() as tape:
    y = tf.nn.sigmoid(x + delta)
dy_dx = tape.jacobian(y, delta)
np.testing.assert_allclose(dy_dx.numpy(), (y * (1 - y)).numpy(), rtol=1e-4, atol=1e-6)

x = tf.random.normal([7, 5])
layer = tf.keras.layers.Dense(10, activation=tf.nn.elu)
with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    y = layer(x)
j = tape.jacobian(y, layer.kernel)
assert j.shape == (7, 10, 5, 10)
np.testing.assert_allclose(
    tape.gradient(y, layer.kernel).numpy(), tf.reduce_sum(j, axis=[0, 1]).numpy(), rtol=1e-3, atol=1e-5
)
jb = tape.batch_jacobian(y, x)
assert jb.shape == (7, 10, 5)
summed = tf.reduce_sum(jb, axis=1).numpy()
np.testing.assert_allclose(summed, tape.gradient(y, x).numpy(), rtol=1e-3, atol=1e-5)

# A step of Newton's method, by the Hessian.
p = tf.Variable([2.0, -1.0])
with tf.GradientTape() as t2:
    with tf.GradientTape() as t1:
        f = p[0] ** 2 + 3.0 * p[0] * p[1] + 4.0 * p[1] ** 2
    g = t1.gradient(f, p)
h = t2.jacobian(g, p)
np.testing.assert_allclose(h.numpy(), [[2, 3], [3, 8]])
p.assign_sub(np.linalg.solve(h.numpy(), g.numpy()))
np.testing.assert_allclose(p.numpy(), [0, 0], atol=1e-6)
print("ok")
