"""The dtypes that MindFormers' attention names, for `stand_ins`: float16 is float32.

A module of its own, as graph mode finds a module by its name.
"""

from mindspore import bfloat16, float32, uint8

float16 = float32

__all__ = ["bfloat16", "float16", "float32", "uint8"]
