"""MindFormers as a destination: its versions, and how each of its graphs lays out weights."""

from mindport.targets.mindformers.versions import FAMILIES, VERSIONS, Family, Version, version_named

__all__ = ["FAMILIES", "VERSIONS", "Family", "Version", "version_named"]
