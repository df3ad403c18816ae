"""Saved models: folders that any process with JAX can load and call, without Keras and the user's code.

A folder has ``saved_model.json``, a manifest with checksums of the other files; the weights in the
safetensors format; for each different computation a StableHLO module, for any number of rows, on CPU and
CUDA; and what the host does around it as data: parsing Examples, looking up and hashing text, and the names
of classes. What a model_fn computes with text is there as Python code.
"""

from muster.saved_model._arguments import Axes as Axes
from muster.saved_model._arguments import Feature as Feature
from muster.saved_model._arguments import feature_spec as feature_spec
from muster.saved_model._arguments import named_axes as named_axes
from muster.saved_model._arguments import symbolic_arguments as symbolic_arguments
from muster.saved_model._describe import show_saved_model as show_saved_model
from muster.saved_model._folder import contains_saved_model as contains_saved_model
from muster.saved_model._load import SavedModel as SavedModel
from muster.saved_model._load import load as load
from muster.saved_model._manifest import CLASSIFY as CLASSIFY
from muster.saved_model._manifest import EVAL as EVAL
from muster.saved_model._manifest import PREDICT as PREDICT
from muster.saved_model._manifest import REGRESS as REGRESS
from muster.saved_model._manifest import TRAIN as TRAIN
from muster.saved_model._modules import PLATFORMS as PLATFORMS
from muster.saved_model._modules import Computation as Computation
from muster.saved_model._modules import any_number_of_rows as any_number_of_rows
from muster.saved_model._modules import trace as trace
from muster.saved_model._save import Output as Output
from muster.saved_model._save import SignatureToSave as SignatureToSave
from muster.saved_model._save import save as save
from muster.saved_model._signature import Signature as Signature
