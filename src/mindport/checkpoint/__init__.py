"""Reading, planning and writing checkpoints without a framework."""
