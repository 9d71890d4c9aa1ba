"""The trace of a run: recording, files and checkpoints."""
