"""Classes of a graph's nodes: messages along edges by ``tf.gather`` and ``tf.math.unsorted_segment_…``."""

import numpy as np

import muster_tensorflow as tf
from muster_tensorflow import keras
from muster_tensorflow.keras import layers

NODES, CLASSES, FEATURES = 300, 3, 8


def graph():
    """Nodes that have mostly neighbours of their own class, and noisy features of it."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, NODES)
    one, other = rng.integers(0, NODES, (2, 6000))
    kept = (labels[one] == labels[other]) | (rng.uniform(size=6000) < 0.1)
    edges = np.stack([one[kept], other[kept]]).astype("int32")
    centres = rng.normal(size=(CLASSES, FEATURES))
    features = centres[labels] + rng.normal(0, 2.0, (NODES, FEATURES))
    return features.astype("float32"), edges, labels


def create_ffn(hidden_units, name=None):
    return keras.Sequential(
        [
            layer
            for units in hidden_units
            for layer in (layers.LayerNormalization(), layers.Dense(units, tf.nn.gelu))
        ],
        name=name,
    )


class GraphConvLayer(layers.Layer):
    def __init__(self, hidden_units, aggregation_type="mean", **kwargs):
        super().__init__(**kwargs)
        self.aggregation_type = aggregation_type
        self.ffn_prepare = create_ffn(hidden_units)
        self.update_fn = create_ffn(hidden_units)

    def aggregate(self, node_indices, neighbour_messages, node_representations):
        num_nodes = node_representations.shape[0]
        aggregate = {
            "sum": tf.math.unsorted_segment_sum,
            "mean": tf.math.unsorted_segment_mean,
            "max": tf.math.unsorted_segment_max,
        }[self.aggregation_type]
        return aggregate(neighbour_messages, node_indices, num_segments=num_nodes)

    def call(self, inputs):
        node_representations, edges, edge_weights = inputs
        node_indices, neighbour_indices = edges[0], edges[1]
        neighbours = tf.gather(node_representations, neighbour_indices)
        messages = self.ffn_prepare(neighbours) * tf.expand_dims(edge_weights, -1)
        aggregated = self.aggregate(node_indices, messages, node_representations)
        embeddings = self.update_fn(tf.concat([node_representations, aggregated], axis=1))
        return tf.nn.l2_normalize(embeddings, axis=-1)


class GNNNodeClassifier(keras.Model):
    def __init__(self, graph_info, num_classes, hidden_units, **kwargs):
        super().__init__(**kwargs)
        node_features, edges, edge_weights = graph_info
        self.node_features = tf.constant(node_features)
        self.edges = tf.constant(edges)
        self.edge_weights = tf.ones(edges.shape[1]) if edge_weights is None else edge_weights
        self.edge_weights = self.edge_weights / tf.math.reduce_mean(self.edge_weights)
        self.preprocess = create_ffn(hidden_units, name="preprocess")
        self.conv1 = GraphConvLayer(hidden_units, "mean", name="graph_conv1")
        self.conv2 = GraphConvLayer(hidden_units, "mean", name="graph_conv2")
        self.postprocess = create_ffn(hidden_units, name="postprocess")
        self.compute_logits = layers.Dense(units=num_classes, name="logits")

    def call(self, input_node_indices):
        x = self.preprocess(self.node_features)
        x1 = self.conv1((x, self.edges, self.edge_weights))
        x = x1 + x
        x2 = self.conv2((x, self.edges, self.edge_weights))
        x = self.postprocess(x2 + x)
        node_embeddings = tf.gather(x, input_node_indices)
        return self.compute_logits(node_embeddings)


def main():
    keras.utils.set_random_seed(6)
    features, edges, labels = graph()
    model = GNNNodeClassifier((features, edges, None), CLASSES, [16, 16])
    assert model(tf.constant([1, 10, 100])).shape == (3, CLASSES)
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="acc")],
    )
    indices = np.arange(NODES)
    model.fit(indices[:150], labels[:150], batch_size=50, epochs=40, verbose=0)
    _, accuracy = model.evaluate(indices[150:], labels[150:], verbose=0)
    assert accuracy > 0.65, accuracy
    print("ok")


if __name__ == "__main__":
    main()
