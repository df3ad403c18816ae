"""One process with a Session: placeholders, a rate that is fed, a Saver, summaries, and tests every 20 steps."""

import os
import tempfile

import numpy as np

import muster_tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
LOGS = tempfile.mkdtemp()
rng = np.random.RandomState(0)
labels = rng.randint(0, 3, 400)
images = rng.rand(400, 9).astype(np.float32)
images[np.arange(400), 2 * labels] += 1

x = tf.placeholder(tf.float32, [None, 9], name="x")
y_ = tf.placeholder(tf.int64, [None], name="y_")
keep_prob = tf.placeholder(tf.float32)
net = tf.layers.dense(x, 16, tf.nn.relu, name="hidden")
net = tf.nn.dropout(net, keep_prob)
y = tf.layers.dense(net, 3, name="logits")
cross_entropy = tf.losses.sparse_softmax_cross_entropy(labels=y_, logits=y)
tf.summary.scalar("cross_entropy", cross_entropy)
global_step = tf.train.get_or_create_global_step()
rate = tf.train.exponential_decay(0.05, global_step, 50, 0.9)
train_step = tf.train.AdamOptimizer(rate).minimize(cross_entropy, global_step=global_step)
accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(y, 1), y_), tf.float32))
merged = tf.summary.merge_all()
saver = tf.train.Saver(max_to_keep=2)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    writer = tf.summary.FileWriter(LOGS, sess.graph)
    for i in range(61):
        if i % 20 == 0:
            found = sess.run(accuracy, feed_dict={x: images[300:], y_: labels[300:], keep_prob: 1.0})
            print("step %d, test accuracy %g" % (i, found))
            saver.save(sess, os.path.join(LOGS, "model"), global_step=i)
        chosen = rng.randint(0, 300, 32)
        feed = {x: images[chosen], y_: labels[chosen], keep_prob: 0.8}
        summary, _ = sess.run([merged, train_step], feed_dict=feed)
        writer.add_summary(summary, i)
    writer.close()
print("ok")
