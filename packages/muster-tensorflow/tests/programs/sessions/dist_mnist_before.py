"""Workers and parameter servers by replica_device_setter and a MonitoredTrainingSession that is fed."""

import numpy as np

import muster_tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "localhost:2222", "Comma-separated list of hostname:port pairs")
flags.DEFINE_string("worker_hosts", "localhost:2223", "Comma-separated list of hostname:port pairs")
flags.DEFINE_string("job_name", None, "job name: worker or ps")
flags.DEFINE_integer("task_index", 0, "Worker task index, should be >= 0")
flags.DEFINE_integer("hidden_units", 16, "Number of units in the hidden layer")
flags.DEFINE_integer("train_steps", 60, "Number of global training steps")
flags.DEFINE_integer("batch_size", 32, "Training batch size")
flags.DEFINE_float("learning_rate", 0.05, "Learning rate")
flags.DEFINE_string("train_dir", "/tmp/dist_mnist", "Checkpoints")
FLAGS = flags.FLAGS


def read_data(count=320, seed=0):
    rng = np.random.RandomState(seed)
    labels = rng.randint(0, 4, count)
    images = rng.rand(count, 16).astype(np.float32) * 0.5
    images[np.arange(count), 3 * labels] += 1
    return images, np.eye(4, dtype=np.float32)[labels]


def main(unused_argv):
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    images, labels = read_data()
    with tf.device(
        tf.train.replica_device_setter(
            worker_device="/job:worker/task:%d" % FLAGS.task_index, ps_device="/job:ps", cluster=cluster
        )
    ):
        global_step = tf.Variable(0, name="global_step", trainable=False)
        hid_w = tf.Variable(tf.truncated_normal([16, FLAGS.hidden_units], stddev=0.25), name="hid_w")
        hid_b = tf.Variable(tf.zeros([FLAGS.hidden_units]), name="hid_b")
        sm_w = tf.Variable(tf.truncated_normal([FLAGS.hidden_units, 4], stddev=0.25), name="sm_w")
        sm_b = tf.Variable(tf.zeros([4]), name="sm_b")
        x = tf.placeholder(tf.float32, [None, 16])
        y_ = tf.placeholder(tf.float32, [None, 4])
        hid = tf.nn.relu(tf.nn.xw_plus_b(x, hid_w, hid_b))
        y = tf.nn.softmax(tf.nn.xw_plus_b(hid, sm_w, sm_b))
        cross_entropy = -tf.reduce_mean(tf.reduce_sum(y_ * tf.log(tf.clip_by_value(y, 1e-10, 1.0)), 1))
        correct = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
        accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
        train_step = tf.train.AdamOptimizer(FLAGS.learning_rate).minimize(
            cross_entropy, global_step=global_step
        )
    rng, local_step = np.random.RandomState(FLAGS.task_index), 0
    with tf.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=FLAGS.task_index == 0,
        checkpoint_dir=FLAGS.train_dir,
        hooks=[tf.train.StopAtStepHook(last_step=FLAGS.train_steps)],
        save_summaries_steps=None,
        save_summaries_secs=None,
    ) as sess:
        while not sess.should_stop():
            chosen = rng.randint(0, len(images), FLAGS.batch_size)
            feed = {x: images[chosen], y_: labels[chosen]}
            _, step, found = sess.run([train_step, global_step, accuracy], feed_dict=feed)
            local_step += 1
    print("local steps", local_step, "global step", step, "accuracy", found)
    print("ok")


if __name__ == "__main__":
    tf.app.run()
