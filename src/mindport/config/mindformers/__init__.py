"""MindFormers' training YAML: writing one for a model, reading one back, and finding what it would lose in silence."""

from mindport.config.mindformers.emit import emit
from mindport.config.mindformers.read import Reading, read, read_yaml
from mindport.config.mindformers.relocate import Moved, relocate
from mindport.config.mindformers.settings import RunSettings

__all__ = ["Moved", "Reading", "RunSettings", "emit", "read", "read_yaml", "relocate"]
