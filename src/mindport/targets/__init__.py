"""Destinations: which parameters each has, and of which slots they are made."""

from mindport.targets.native import NATIVE
from mindport.targets.target import Target

__all__ = ["NATIVE", "TARGETS", "Target"]

TARGETS: dict[str, Target] = {target.name: target for target in (NATIVE,)}
"""Name on the command line -> target."""
