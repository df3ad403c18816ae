"""``tf.keras.layers``: Keras 3's, with lookups of text that do not need TensorFlow."""

from typing import Any

from muster import keras
from muster.feature_column import DenseFeatures as DenseFeatures
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v2.layers._hashing import HashedCrossing as HashedCrossing
from muster_tensorflow.programs.v2.layers._hashing import Hashing as Hashing
from muster_tensorflow.programs.v2.layers._lookups import IntegerLookup as IntegerLookup
from muster_tensorflow.programs.v2.layers._lookups import StringLookup as StringLookup
from muster_tensorflow.programs.v2.layers._older_layers import AbstractRNNCell as AbstractRNNCell
from muster_tensorflow.programs.v2.layers._older_layers import LocallyConnected1D as LocallyConnected1D
from muster_tensorflow.programs.v2.layers._older_layers import LocallyConnected2D as LocallyConnected2D
from muster_tensorflow.programs.v2.layers._older_layers import RandomFourierFeatures as _RandomFourierFeatures
from muster_tensorflow.programs.v2.layers._older_layers import ThresholdedReLU as ThresholdedReLU
from muster_tensorflow.programs.v2.layers._older_layers import deserialize as deserialize
from muster_tensorflow.programs.v2.layers._random_sizes import RandomHeight as RandomHeight
from muster_tensorflow.programs.v2.layers._random_sizes import RandomWidth as RandomWidth
from muster_tensorflow.programs.v2.layers._text_vectorization import TextVectorization as TextVectorization
from muster_tensorflow.programs.v2.saved._saved_layer import TFSMLayer as TFSMLayer

_PREPROCESSING = (
    *("CategoryEncoding", "CenterCrop", "Discretization", "Normalization"),
    *("RandomContrast", "RandomCrop", "RandomFlip", "RandomRotation", "RandomTranslation", "RandomZoom"),
    *("Rescaling", "Resizing"),
)
experimental = _Names(
    "tf.keras.layers.experimental",
    EinsumDense=keras.layers.EinsumDense,
    RandomFourierFeatures=_RandomFourierFeatures,
    SyncBatchNormalization=keras.layers.BatchNormalization,  # fit sees all rows anyway
    preprocessing=_Names(
        "tf.keras.layers.experimental.preprocessing",
        HashedCrossing=HashedCrossing,
        Hashing=Hashing,
        IntegerLookup=IntegerLookup,
        RandomHeight=RandomHeight,
        RandomWidth=RandomWidth,
        StringLookup=StringLookup,
        TextVectorization=TextVectorization,
        **{name: getattr(keras.layers, name) for name in _PREPROCESSING},
    ),
)


def __getattr__(name: str) -> Any:
    return _passed_on(
        keras.layers,
        __name__,
        name,
        "AbstractRNNCell",
        "DenseFeatures",
        "HashedCrossing",
        "Hashing",
        "IntegerLookup",
        "LocallyConnected1D",
        "LocallyConnected2D",
        "RandomHeight",
        "RandomWidth",
        "StringLookup",
        "TFSMLayer",
        "TextVectorization",
        "ThresholdedReLU",
        "experimental",
    )
