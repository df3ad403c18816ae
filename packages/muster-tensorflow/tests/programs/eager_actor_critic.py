"""Learn to walk to a goal: an agent of an actor and a critic, by an eager tape around each episode."""

import numpy as np

import muster_tensorflow as tf
from muster_tensorflow.keras import layers

SEED = 42
tf.random.set_seed(SEED)
np.random.seed(SEED)
eps = np.finfo(np.float32).eps.item()
SIZE = 4


class Corridor:
    """Places in a row; the goal is at the right end, and each step costs a little."""

    def reset(self):
        self.place, self.steps = 0, 0
        return self.observe()

    def observe(self):
        seen = np.zeros(SIZE, np.float32)
        seen[self.place] = 1
        return seen

    def step(self, action):
        self.place = min(SIZE - 1, max(0, self.place + (1 if action == 1 else -1)))
        self.steps += 1
        reached = self.place == SIZE - 1
        return self.observe(), 1.0 if reached else -0.05, reached or self.steps >= 10


class ActorCritic(tf.keras.Model):
    def __init__(self, num_actions, num_hidden_units):
        super().__init__()
        self.common = layers.Dense(num_hidden_units, activation="relu")
        self.actor = layers.Dense(num_actions)
        self.critic = layers.Dense(1)

    def call(self, inputs):
        x = self.common(inputs)
        return self.actor(x), self.critic(x)


env = Corridor()
model = ActorCritic(2, 32)
optimizer = tf.keras.optimizers.Adam(learning_rate=0.03)
huber_loss = tf.keras.losses.Huber(reduction="sum")


def run_episode():
    state = tf.constant(env.reset(), dtype=tf.float32)
    action_probs, values, rewards = [], [], []
    done = False
    while not done:
        action_logits_t, value = model(tf.expand_dims(state, 0))
        action_probs_t = tf.nn.softmax(action_logits_t)
        action = np.random.choice(2, p=action_probs_t.numpy()[0] / action_probs_t.numpy()[0].sum())
        values.append(tf.squeeze(value))
        action_probs.append(action_probs_t[0, action])
        observed, reward, done = env.step(action)
        state = tf.constant(observed)
        rewards.append(reward)
    return action_probs, values, rewards


def get_expected_return(rewards, gamma=0.95):
    returns, discounted_sum = [], 0.0
    for reward in rewards[::-1]:
        discounted_sum = reward + gamma * discounted_sum
        returns.append(discounted_sum)
    returns = np.array(returns[::-1], np.float32)
    return (returns - returns.mean()) / (returns.std() + eps)


def train_step():
    with tf.GradientTape() as tape:
        action_probs, values, rewards = run_episode()
        returns = get_expected_return(rewards)
        loss = tf.constant(0.0)
        for probability, value, expected in zip(action_probs, values, returns, strict=True):
            advantage = expected - value
            loss -= tf.math.log(probability) * tf.stop_gradient(advantage)
            loss += huber_loss([expected], [value])
    grads = tape.gradient(loss, model.trainable_variables)
    assert all(grad is not None for grad in grads)
    optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
    return sum(rewards), len(rewards)


lengths = []
for episode in range(40):
    episode_reward, length = train_step()
    lengths.append(length)
    if episode % 10 == 0:
        print(f"episode {episode}: {length} steps, reward {episode_reward:.2f}")
print("the last ones took", lengths[-10:])
assert np.mean(lengths[-10:]) < 6
state = env.reset()
for _ in range(SIZE - 1):
    logits, _ = model(state[None])
    state, _, done = env.step(int(tf.argmax(logits, axis=1).numpy()[0]))
assert done
print("ok")
