"""One declaration per Hugging Face architecture, and the registry that finds them."""

from mindport.architectures.registry import (
    architecture,
    class_defaults,
    code_of,
    model_types,
    register_classes,
    source_of,
    use_declarations,
)
from mindport.architectures.vocabulary import Architecture, HFClass

__all__ = [
    "Architecture",
    "HFClass",
    "architecture",
    "class_defaults",
    "code_of",
    "model_types",
    "register_classes",
    "source_of",
    "use_declarations",
]
