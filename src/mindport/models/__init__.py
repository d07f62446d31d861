"""The native MindSpore Transformer, built from a `TransformerConfig`."""

from mindport.models.build import build_model
from mindport.models.load import load_parameters
from mindport.models.output import ModelOutput
from mindport.models.transformer import Transformer

__all__ = ["ModelOutput", "Transformer", "build_model", "load_parameters"]
