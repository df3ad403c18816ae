"""``tf.contrib.learn``."""

from muster.estimator import ModeKeys as _ModeKeys
from muster.estimator import RunConfig as RunConfig
from muster_tensorflow.library.contrib import learn as _learn
from muster_tensorflow.library.contrib.learn import DNNClassifier as DNNClassifier
from muster_tensorflow.library.contrib.learn import DNNLinearCombinedClassifier as DNNLinearCombinedClassifier
from muster_tensorflow.library.contrib.learn import DNNLinearCombinedRegressor as DNNLinearCombinedRegressor
from muster_tensorflow.library.contrib.learn import DNNRegressor as DNNRegressor
from muster_tensorflow.library.contrib.learn import Estimator as Estimator
from muster_tensorflow.library.contrib.learn import Experiment as Experiment
from muster_tensorflow.library.contrib.learn import InputFnOps as InputFnOps
from muster_tensorflow.library.contrib.learn import LinearClassifier as LinearClassifier
from muster_tensorflow.library.contrib.learn import LinearRegressor as LinearRegressor
from muster_tensorflow.library.contrib.learn import MetricSpec as MetricSpec
from muster_tensorflow.library.contrib.learn import ModelFnOps as ModelFnOps
from muster_tensorflow.library.contrib.learn import SKCompat as SKCompat
from muster_tensorflow.library.contrib.learn import _datasets
from muster_tensorflow.library.contrib.learn import (
    infer_real_valued_columns_from_input as infer_real_valued_columns_from_input,
)
from muster_tensorflow.library.contrib.learn import (
    infer_real_valued_columns_from_input_fn as infer_real_valued_columns_from_input_fn,
)
from muster_tensorflow.library.contrib.learn import make_export_strategy as make_export_strategy
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v1.input._documents import ByteProcessor as _ByteProcessor
from muster_tensorflow.programs.v1.input._documents import VocabularyProcessor as _VocabularyProcessor
from muster_tensorflow.programs.v1.input._documents import tokenizer as _tokenizer
from muster_tensorflow.programs.v1.mnist_input import read_data_sets as _read_data_sets

ModeKeys = _Names(
    "tf.contrib.learn.ModeKeys", EVAL=_ModeKeys.EVAL, INFER=_ModeKeys.PREDICT, TRAIN=_ModeKeys.TRAIN
)
learn_runner = _Names("tf.contrib.learn.learn_runner", run=_learn.run)
datasets = _Names(
    "tf.contrib.learn.datasets",
    DATASETS=_datasets.DATASETS,
    base=_Names(
        "tf.contrib.learn.datasets.base",
        Dataset=_datasets.Dataset,
        Datasets=_datasets.Datasets,
        load_csv_with_header=_datasets.load_csv_with_header,
        load_csv_without_header=_datasets.load_csv_without_header,
    ),
    load_dataset=_datasets.load_dataset,
    mnist=_Names(
        "tf.contrib.learn.datasets.mnist",
        load_mnist=_datasets.load_mnist,
        read_data_sets=_read_data_sets,
    ),
)
preprocessing = _Names(
    "tf.contrib.learn.preprocessing",
    ByteProcessor=_ByteProcessor,
    VocabularyProcessor=_VocabularyProcessor,
    tokenizer=_tokenizer,
)
utils = _Names(
    "tf.contrib.learn.utils",
    input_fn_utils=_Names(
        "tf.contrib.learn.utils.input_fn_utils",
        InputFnOps=InputFnOps,
        build_default_serving_input_fn=_learn.build_default_serving_input_fn,
        build_parsing_serving_input_fn=_learn.build_parsing_serving_input_fn,
    ),
    saved_model_export_utils=_Names(
        "tf.contrib.learn.utils.saved_model_export_utils", make_export_strategy=make_export_strategy
    ),
)
