"""One declaration per Hugging Face architecture, and the registry that finds them."""

from mindport.architectures.registry import architecture, class_defaults, model_types
from mindport.architectures.vocabulary import Architecture, HFClass

__all__ = ["Architecture", "HFClass", "architecture", "class_defaults", "model_types"]
