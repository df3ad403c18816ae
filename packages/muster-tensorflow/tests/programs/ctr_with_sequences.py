"""A model for click-through rates with features of sequences: columns as tuples, layers of its own, masks, attention."""

import os
import tempfile
from collections import OrderedDict, namedtuple

import numpy as np
from muster_tensorflow.keras.initializers import Zeros

import muster_tensorflow as tf
from muster_tensorflow.keras import backend as K
from muster_tensorflow.keras.layers import Concatenate, Dense, Embedding, Flatten, Input, Layer
from muster_tensorflow.keras.models import Model, load_model, save_model
from muster_tensorflow.keras.regularizers import l2


class SparseFeat(namedtuple("SparseFeat", ["name", "vocabulary_size", "embedding_dim", "embedding_name"])):
    __slots__ = ()

    def __new__(cls, name, vocabulary_size, embedding_dim=4, embedding_name=None):
        return super().__new__(cls, name, vocabulary_size, embedding_dim, embedding_name or name)

    def __hash__(self):
        return self.name.__hash__()


class VarLenSparseFeat(namedtuple("VarLenSparseFeat", ["sparsefeat", "maxlen", "combiner", "length_name"])):
    __slots__ = ()

    @property
    def name(self):
        return self.sparsefeat.name

    @property
    def embedding_name(self):
        return self.sparsefeat.embedding_name


class DenseFeat(namedtuple("DenseFeat", ["name", "dimension"])):
    __slots__ = ()


class SequencePoolingLayer(Layer):
    def __init__(self, mode="mean", supports_masking=False, **kwargs):
        if mode not in ["sum", "mean", "max"]:
            raise ValueError("mode must be sum or mean")
        self.mode = mode
        self.eps = tf.constant(1e-8, tf.float32)
        super().__init__(**kwargs)
        self.supports_masking = supports_masking

    def build(self, input_shape):
        if not self.supports_masking:
            self.seq_len_max = int(input_shape[0][1])
        super().build(input_shape)

    def call(self, seq_value_len_list, mask=None, **kwargs):
        if self.supports_masking:
            if mask is None:
                raise ValueError("When supports_masking=True,input must support masking")
            uiseq_embed_list = seq_value_len_list
            mask = tf.cast(mask, tf.float32)
            user_behavior_length = tf.reduce_sum(mask, axis=-1, keepdims=True)
            mask = tf.expand_dims(mask, axis=2)
        else:
            uiseq_embed_list, user_behavior_length = seq_value_len_list
            mask = tf.sequence_mask(user_behavior_length, self.seq_len_max, dtype=tf.float32)
            mask = tf.transpose(mask, (0, 2, 1))
        embedding_size = uiseq_embed_list.shape[-1]
        mask = tf.tile(mask, [1, 1, embedding_size])
        if self.mode == "max":
            hist = uiseq_embed_list - (1 - mask) * 1e9
            return tf.reduce_max(hist, 1, keepdims=True)
        hist = tf.reduce_sum(uiseq_embed_list * mask, 1, keepdims=False)
        if self.mode == "mean":
            hist = tf.divide(hist, tf.cast(user_behavior_length, tf.float32) + self.eps)
        return tf.expand_dims(hist, axis=1)

    def compute_output_shape(self, input_shape):
        if self.supports_masking:
            return (None, 1, input_shape[-1])
        return (None, 1, input_shape[0][-1])

    def compute_mask(self, inputs, mask):
        return None

    def get_config(self):
        config = {"mode": self.mode, "supports_masking": self.supports_masking}
        base_config = super().get_config()
        return dict(list(base_config.items()) + list(config.items()))


class FM(Layer):
    def build(self, input_shape):
        if len(input_shape) != 3:
            raise ValueError(
                "Unexpected inputs dimensions %d, expect to be 3 dimensions" % (len(input_shape))
            )
        super().build(input_shape)

    def call(self, inputs, **kwargs):
        if K.ndim(inputs) != 3:
            raise ValueError("Unexpected inputs dimensions %d, expect to be 3 dimensions" % (K.ndim(inputs)))
        square_of_sum = tf.square(tf.reduce_sum(inputs, axis=1, keepdims=True))
        sum_of_square = tf.reduce_sum(inputs * inputs, axis=1, keepdims=True)
        cross_term = square_of_sum - sum_of_square
        return 0.5 * tf.reduce_sum(cross_term, axis=2, keepdims=False)

    def compute_output_shape(self, input_shape):
        return (None, 1)


class LocalActivationUnit(Layer):
    def __init__(self, hidden_units=(8, 4), l2_reg=0.0, seed=1024, **kwargs):
        self.hidden_units = hidden_units
        self.l2_reg = l2_reg
        self.seed = seed
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape):
        if not isinstance(input_shape, list) or len(input_shape) != 2:
            raise ValueError("A `LocalActivationUnit` layer should be called on a list of 2 inputs")
        size = 4 * int(input_shape[0][-1])
        units = [size] + list(self.hidden_units)
        self.kernels = [
            self.add_weight(
                name="kernel" + str(i),
                shape=(units[i], units[i + 1]),
                initializer="glorot_normal",
                regularizer=l2(self.l2_reg),
                trainable=True,
            )
            for i in range(len(self.hidden_units))
        ]
        self.bias = [
            self.add_weight(
                name="bias" + str(i), shape=(self.hidden_units[i],), initializer=Zeros(), trainable=True
            )
            for i in range(len(self.hidden_units))
        ]
        self.kernel = self.add_weight(
            shape=(self.hidden_units[-1], 1), initializer="glorot_normal", name="kernel"
        )
        super().build(input_shape)

    def call(self, inputs, training=None, **kwargs):
        query, keys = inputs
        queries = K.repeat_elements(query, keys.get_shape()[1], 1)
        x = tf.concat([queries, keys, queries - keys, queries * keys], axis=-1)
        for kernel, bias in zip(self.kernels, self.bias):
            x = tf.nn.sigmoid(tf.nn.bias_add(tf.tensordot(x, kernel, axes=(-1, 0)), bias))
        return tf.tensordot(x, self.kernel, axes=(-1, 0))

    def compute_output_shape(self, input_shape):
        return input_shape[1][:2] + (1,)

    def compute_mask(self, inputs, mask):
        return mask

    def get_config(self):
        config = {"hidden_units": self.hidden_units, "l2_reg": self.l2_reg, "seed": self.seed}
        return dict(list(super().get_config().items()) + list(config.items()))


class AttentionSequencePoolingLayer(Layer):
    def __init__(self, att_hidden_units=(8, 4), weight_normalization=True, **kwargs):
        self.att_hidden_units = att_hidden_units
        self.weight_normalization = weight_normalization
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape):
        self.local_att = LocalActivationUnit(self.att_hidden_units)
        super().build(input_shape)

    def call(self, inputs, mask=None, training=None, **kwargs):
        if mask is None:
            raise ValueError("input must support masking")
        queries, keys = inputs
        key_masks = tf.expand_dims(mask[-1], axis=1)
        attention_score = self.local_att([queries, keys], training=training)
        outputs = tf.transpose(attention_score, (0, 2, 1))
        if self.weight_normalization:
            paddings = tf.ones_like(outputs) * (-(2**32) + 1)
        else:
            paddings = tf.zeros_like(outputs)
        outputs = tf.where(key_masks, outputs, paddings)
        if self.weight_normalization:
            outputs = tf.nn.softmax(outputs)
        return tf.matmul(outputs, keys)

    def compute_output_shape(self, input_shape):
        return (None, 1, input_shape[0][-1])

    def compute_mask(self, inputs, mask):
        return None

    def get_config(self):
        config = {
            "att_hidden_units": self.att_hidden_units,
            "weight_normalization": self.weight_normalization,
        }
        return dict(list(super().get_config().items()) + list(config.items()))


class DNN(Layer):
    def __init__(
        self, hidden_units, activation="relu", l2_reg=0, dropout_rate=0, use_bn=False, seed=1024, **kwargs
    ):
        self.hidden_units = hidden_units
        self.activation = activation
        self.l2_reg = l2_reg
        self.dropout_rate = dropout_rate
        self.use_bn = use_bn
        self.seed = seed
        super().__init__(**kwargs)

    def build(self, input_shape):
        input_size = input_shape[-1]
        hidden_units = [int(input_size)] + list(self.hidden_units)
        self.kernels = [
            self.add_weight(
                name="kernel" + str(i),
                shape=(hidden_units[i], hidden_units[i + 1]),
                initializer="glorot_uniform",
                regularizer=l2(self.l2_reg),
                trainable=True,
            )
            for i in range(len(self.hidden_units))
        ]
        self.bias = [
            self.add_weight(
                name="bias" + str(i), shape=(self.hidden_units[i],), initializer=Zeros(), trainable=True
            )
            for i in range(len(self.hidden_units))
        ]
        if self.use_bn:
            self.bn_layers = [tf.keras.layers.BatchNormalization() for _ in range(len(self.hidden_units))]
        self.dropout_layers = [
            tf.keras.layers.Dropout(self.dropout_rate, seed=self.seed + i)
            for i in range(len(self.hidden_units))
        ]
        self.activation_layers = [tf.keras.layers.Activation(self.activation) for _ in self.hidden_units]
        super().build(input_shape)

    def call(self, inputs, training=None, **kwargs):
        deep_input = inputs
        for i in range(len(self.hidden_units)):
            fc = tf.nn.bias_add(tf.tensordot(deep_input, self.kernels[i], axes=(-1, 0)), self.bias[i])
            if self.use_bn:
                fc = self.bn_layers[i](fc, training=training)
            fc = self.activation_layers[i](fc)
            deep_input = self.dropout_layers[i](fc, training=training)
        return deep_input

    def compute_output_shape(self, input_shape):
        return tuple(input_shape[:-1]) + (self.hidden_units[-1],)

    def get_config(self):
        config = {
            "activation": self.activation,
            "hidden_units": self.hidden_units,
            "l2_reg": self.l2_reg,
            "use_bn": self.use_bn,
            "dropout_rate": self.dropout_rate,
            "seed": self.seed,
        }
        return dict(list(super().get_config().items()) + list(config.items()))


class PredictionLayer(Layer):
    def __init__(self, task="binary", use_bias=True, **kwargs):
        self.task = task
        self.use_bias = use_bias
        super().__init__(**kwargs)

    def build(self, input_shape):
        if self.use_bias:
            self.global_bias = self.add_weight(shape=(1,), initializer=Zeros(), name="global_bias")
        super().build(input_shape)

    def call(self, inputs, **kwargs):
        x = inputs
        if self.use_bias:
            x = tf.nn.bias_add(x, self.global_bias, data_format="NHWC")
        if self.task == "binary":
            x = tf.sigmoid(x)
        return tf.reshape(x, (-1, 1))

    def compute_output_shape(self, input_shape):
        return (None, 1)

    def get_config(self):
        config = {"task": self.task, "use_bias": self.use_bias}
        return dict(list(super().get_config().items()) + list(config.items()))


class NoMask(Layer):
    def call(self, x, mask=None, **kwargs):
        return tf.identity(x)

    def compute_mask(self, inputs, mask):
        return None


custom_objects = {
    "SequencePoolingLayer": SequencePoolingLayer,
    "FM": FM,
    "LocalActivationUnit": LocalActivationUnit,
    "DNN": DNN,
    "AttentionSequencePoolingLayer": AttentionSequencePoolingLayer,
    "PredictionLayer": PredictionLayer,
    "NoMask": NoMask,
}


def build_input_features(feature_columns, prefix=""):
    input_features = OrderedDict()
    for fc in feature_columns:
        if isinstance(fc, SparseFeat):
            input_features[fc.name] = Input(shape=(1,), name=prefix + fc.name, dtype="int32")
        elif isinstance(fc, DenseFeat):
            input_features[fc.name] = Input(shape=(fc.dimension,), name=prefix + fc.name, dtype="float32")
        else:
            input_features[fc.name] = Input(shape=(fc.maxlen,), name=prefix + fc.name, dtype="int32")
            if fc.length_name is not None:
                input_features[fc.length_name] = Input((1,), name=prefix + fc.length_name, dtype="int32")
    return input_features


def create_embeddings(columns, l2_reg=1e-6, seed=1024):
    tables = {}
    for fc in columns:
        feat = getattr(fc, "sparsefeat", fc)
        if isinstance(feat, DenseFeat):
            continue
        masked = isinstance(fc, VarLenSparseFeat) and fc.length_name is None
        if feat.embedding_name not in tables or masked:
            emb = Embedding(
                feat.vocabulary_size,
                feat.embedding_dim,
                embeddings_initializer=tf.keras.initializers.RandomNormal(0.0, 0.1, seed=seed),
                embeddings_regularizer=l2(l2_reg),
                name="sparse_emb_" + feat.embedding_name,
                mask_zero=masked,
            )
            emb.trainable = True
            tables[feat.embedding_name] = emb
    return tables


def build_model(columns, history, dnn_hidden_units=(16, 8)):
    features = build_input_features(columns)
    inputs_list = list(features.values())
    tables = create_embeddings(columns)
    sparse = [fc for fc in columns if isinstance(fc, SparseFeat)]
    embeddings = [tables[fc.embedding_name](features[fc.name]) for fc in sparse]
    pooled = []
    for fc in columns:
        if isinstance(fc, VarLenSparseFeat):
            sequence = tables[fc.embedding_name](features[fc.name])
            if fc.name in history:
                query = tables[history[fc.name]](features[history[fc.name]])
                pooled.append(AttentionSequencePoolingLayer()([query, sequence]))
            elif fc.length_name is not None:
                pooled.append(SequencePoolingLayer(fc.combiner)([sequence, features[fc.length_name]]))
            else:
                pooled.append(SequencePoolingLayer(fc.combiner, supports_masking=True)(sequence))
    stacked = Concatenate(axis=1)([NoMask()(e) for e in embeddings + pooled])
    dense = [features[fc.name] for fc in columns if isinstance(fc, DenseFeat)]
    deep_input = Concatenate()([Flatten()(stacked)] + dense)
    deep = DNN(dnn_hidden_units, use_bn=True, dropout_rate=0.1)(deep_input)
    deep_logit = Dense(1, use_bias=False, kernel_initializer=tf.keras.initializers.glorot_normal(1))(deep)
    linear_logit = Dense(1)(dense[0])
    logit = tf.keras.layers.add([FM()(stacked), deep_logit, linear_logit])
    return Model(inputs=inputs_list, outputs=PredictionLayer("binary")(logit))


tf.random.set_seed(5)
rng = np.random.default_rng(0)
N = 400
columns = [
    SparseFeat("user", 20),
    SparseFeat("item_id", 30, embedding_name="item_id"),
    SparseFeat("gender", 3),
    DenseFeat("pay_score", 1),
    VarLenSparseFeat(SparseFeat("hist_item_id", 30, embedding_name="item_id"), 5, "mean", None),
    VarLenSparseFeat(SparseFeat("genres", 10), 4, "mean", None),
    VarLenSparseFeat(SparseFeat("tags", 12), 6, "max", "tags_length"),
]
hist = rng.integers(1, 30, (N, 5)) * (np.arange(5) < rng.integers(1, 6, (N, 1)))
genres = rng.integers(1, 10, (N, 4)) * (np.arange(4) < rng.integers(1, 5, (N, 1)))
lengths = rng.integers(1, 7, (N, 1))
x = {
    "user": rng.integers(0, 20, N),
    "item_id": rng.integers(1, 30, N),
    "gender": rng.integers(0, 3, N),
    "pay_score": rng.random(N),
    "hist_item_id": hist,
    "genres": genres,
    "tags": rng.integers(1, 12, (N, 6)) * (np.arange(6) < lengths),
    "tags_length": lengths,
}
y = ((x["item_id"] % 3 == 0) | (genres == 2).any(1)).astype(int)
model = build_model(columns, {"hist_item_id": "item_id"})
model.compile(
    tf.keras.optimizers.Adam(0.02),
    "binary_crossentropy",
    metrics=["binary_crossentropy", tf.keras.metrics.AUC(name="auc")],
)
history = model.fit(x, y, verbose=0, epochs=10, batch_size=32, validation_split=0.2)
print({k: round(v[-1], 2) for k, v in sorted(history.history.items())})
predicted = model.predict(x, batch_size=64)
print("shape", predicted.shape, model.count_params())
path = os.path.join(tempfile.mkdtemp(), "ctr.h5")
save_model(model, path)
again = load_model(path, custom_objects)
np.testing.assert_allclose(again.predict(x, batch_size=64), predicted, rtol=1e-4, atol=1e-5)
by_name = model.get_layer("sparse_emb_item_id").get_weights()[0]
print("table", by_name.shape, [i.name for i in model.inputs])
inner = Model(inputs=model.inputs, outputs=model.get_layer("dnn").output)
print("inner", inner.predict(x, verbose=0).shape)
assert history.history["auc"][-1] > 0.8
print("ok")
