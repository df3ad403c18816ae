"""Workers in step by SyncReplicasOptimizer, with hooks of a MonitoredTrainingSession."""

import numpy as np

import muster_tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "localhost:2222", "")
flags.DEFINE_string("worker_hosts", "localhost:2223", "")
flags.DEFINE_string("job_name", None, "")
flags.DEFINE_integer("task_index", 0, "")
flags.DEFINE_string("train_dir", "/tmp/sync_replicas", "")
FLAGS = flags.FLAGS


def main(unused_argv):
    workers = FLAGS.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": workers})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    is_chief = FLAGS.task_index == 0
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
        dataset = tf.data.Dataset.from_tensor_slices((x, 3 * x + 1)).shuffle(64).repeat().batch(16)
        features, labels = tf.data.make_one_shot_iterator(dataset).get_next()
        global_step = tf.train.get_or_create_global_step()
        outputs = tf.layers.dense(features, 1, name="line")
        loss = tf.losses.mean_squared_error(labels, outputs)
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(0.2),
            replicas_to_aggregate=len(workers),
            total_num_replicas=len(workers),
        )
        train_op = optimizer.minimize(loss, global_step=global_step)
    hooks = [
        optimizer.make_session_run_hook(is_chief),
        tf.train.StopAtStepHook(last_step=40),
        tf.train.LoggingTensorHook({"loss": loss}, every_n_iter=10),
    ]
    with tf.train.MonitoredTrainingSession(
        master=server.target, is_chief=is_chief, checkpoint_dir=FLAGS.train_dir, hooks=hooks
    ) as sess:
        while not sess.should_stop():
            found, _ = sess.run([loss, train_op])
    print("loss", found)
    print("ok")


if __name__ == "__main__":
    tf.app.run()
