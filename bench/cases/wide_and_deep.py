"""A wide-and-deep model: eight categorical columns with up to 100,000 values, thirteen numeric ones."""

import numpy as np
from bench.cases._shared import dense, embedding, start

BATCH = 256
STEPS = 200
LEARNING_RATE = 0.1
VOCABULARIES = (100_000, 100_000, 50_000, 20_000, 10_000, 1_000, 100, 24)
NUMERIC = 13
UNITS = 16
HIDDEN = (256, 128, 64)
CLASSES = 2
_DEEP = len(VOCABULARIES) * UNITS + NUMERIC
LAYERS = (
    embedding(BATCH * len(VOCABULARIES), CLASSES),
    dense(BATCH, NUMERIC, CLASSES, trains_input=False),
    embedding(BATCH * len(VOCABULARIES), UNITS),
    *(dense(BATCH, *pair) for pair in zip((_DEEP, *HIDDEN), (*HIDDEN, CLASSES), strict=True)),
)


def data(batches):
    rng = np.random.default_rng(0)
    features = {"numeric": rng.standard_normal((batches * BATCH, NUMERIC), np.float32)}
    score = features["numeric"] @ rng.standard_normal(NUMERIC, np.float32)
    for i, vocabulary in enumerate(VOCABULARIES):
        ids = (rng.random(batches * BATCH) ** 3 * vocabulary).astype(np.int32)  # small ones are frequent
        features[f"id{i}"] = ids
        score += rng.standard_normal(vocabulary, np.float32)[ids]
    return features, (score > 0).astype(np.int32)


def keras_model(keras):
    layers = keras.layers
    numeric = keras.Input((NUMERIC,), name="numeric")
    ids = [keras.Input((), dtype="int32", name=f"id{i}") for i in range(len(VOCABULARIES))]
    wide, deep = [layers.Dense(CLASSES, kernel_initializer=start(1))(numeric)], [numeric]
    for i, (column, vocabulary) in enumerate(zip(ids, VOCABULARIES, strict=True)):
        wide.append(layers.Embedding(vocabulary, CLASSES, embeddings_initializer=start(10 + i, 0.0))(column))
        deep.append(layers.Embedding(vocabulary, UNITS, embeddings_initializer=start(20 + i, 0.1))(column))
    x = layers.Concatenate()(deep)
    for i, units in enumerate(HIDDEN):
        x = layers.Dense(units, activation="relu", kernel_initializer=start(2 + i))(x)
    logits = layers.Add()([layers.Dense(CLASSES, kernel_initializer=start(9))(x), *wide])
    return keras.Model({"numeric": numeric, **{f"id{i}": ids[i] for i in range(len(ids))}}, logits)


def torch_model(torch, load):
    nn = torch.nn

    def table(vocabulary, units, seed, scale):
        values = torch.tensor(start(seed, scale)((vocabulary, units)))
        return nn.Embedding.from_pretrained(values, freeze=False, sparse=True)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = load(nn.Linear(NUMERIC, CLASSES), start(1)((NUMERIC, CLASSES)))
            self.wide = nn.ModuleList(table(v, CLASSES, 10 + i, 0.0) for i, v in enumerate(VOCABULARIES))
            self.deep = nn.ModuleList(table(v, UNITS, 20 + i, 0.1) for i, v in enumerate(VOCABULARIES))
            sizes = (_DEEP, *HIDDEN)
            self.hidden = nn.ModuleList(
                load(nn.Linear(*sizes[i : i + 2]), start(2 + i)(sizes[i : i + 2])) for i in range(len(HIDDEN))
            )
            self.logits = load(nn.Linear(HIDDEN[-1], CLASSES), start(9)((HIDDEN[-1], CLASSES)))

        def forward(self, features):
            ids = [features[f"id{i}"] for i in range(len(VOCABULARIES))]
            wide = [table(column) for table, column in zip(self.wide, ids, strict=True)]
            deep = [table(column) for table, column in zip(self.deep, ids, strict=True)]
            x = torch.cat([features["numeric"], *deep], 1)
            for layer in self.hidden:
                x = torch.relu(layer(x))
            return self.logits(x) + self.linear(features["numeric"]) + sum(wide)

    return Net()
