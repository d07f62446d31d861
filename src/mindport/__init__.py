"""Mindport: move the training of Transformer models from PyTorch to MindSpore, and prove that it arrived."""

from mindport.errors import MindportError
from mindport.version import __version__

__all__ = ["MindportError", "__version__"]
