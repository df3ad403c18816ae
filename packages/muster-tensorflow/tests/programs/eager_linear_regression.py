"""Fit a line from scratch: a module with two variables, an eager tape, and updates by hand."""

import muster_tensorflow as tf

TRUE_W, TRUE_B, EXAMPLES = 3.0, 2.0, 200

tf.random.set_seed(1)
x = tf.random.normal(shape=[EXAMPLES])
noise = tf.random.normal(shape=[EXAMPLES])
y = x * TRUE_W + TRUE_B + 0.1 * noise
print("data:", x.shape, y.numpy()[:3])


class Line:
    def __init__(self):
        self.w = tf.Variable(5.0)
        self.b = tf.Variable(0.0)

    def __call__(self, x):
        return self.w * x + self.b


def loss(target, predicted):
    return tf.reduce_mean(tf.square(target - predicted))


def train(model, x, y, learning_rate):
    with tf.GradientTape() as tape:
        current = loss(y, model(x))
    dw, db = tape.gradient(current, [model.w, model.b])
    model.w.assign_sub(learning_rate * dw)
    model.b.assign_sub(learning_rate * db)
    return current


model = Line()
weights, losses = [], []
for epoch in range(40):
    losses.append(train(model, x, y, learning_rate=0.1).numpy())
    weights.append(model.w.numpy())
    if epoch % 10 == 0:
        print(f"W = {model.w.numpy():1.2f}, b = {model.b.numpy():1.2f}, loss = {losses[-1]:2.5f}")

assert abs(model.w.numpy() - TRUE_W) < 0.05
assert abs(model.b.numpy() - TRUE_B) < 0.05
assert losses[-1] < losses[0] / 50
assert weights[0] > weights[-1]

# The same by an optimizer that is given the loss as a function.
other = Line()
optimizer = tf.keras.optimizers.SGD(learning_rate=0.1)
for _ in range(40):
    optimizer.minimize(lambda: loss(y, other(x)), var_list=[other.w, other.b])
assert abs(other.w.numpy() - model.w.numpy()) < 1e-3
print("ok")
