"""Invertible layout operations and symbolic shapes. Pure array functions: no IO, no framework."""

from mindport.layout.ops import Fuse, Operation, Stack, Transpose
from mindport.layout.shape import dimension, evaluate
from mindport.layout.stored import Stored, TensorMap

__all__ = ["Fuse", "Operation", "Stack", "Stored", "TensorMap", "Transpose", "dimension", "evaluate"]
