"""The population of a cell, and the work that a round asks of it."""
