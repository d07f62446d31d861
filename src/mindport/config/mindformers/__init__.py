"""The training YAML of MindFormers."""
