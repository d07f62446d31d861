"""The parity ladder: the same model in PyTorch and in MindSpore, compared in numbers."""
