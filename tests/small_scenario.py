"""A small scenario as a file has it, for tests to change."""

SMALL = """
[cell]
radius = "100 m"
bandwidth = "1 MHz"

[[population]]
name = "node"
count = 4
cpu = { min = "0.5 GHz", max = "1 GHz", cycles_per_sample = 100 }
radio = { power = "20 dBm" }
budget = { dist = "uniform", low = "1 mJ", high = "2 mJ" }

[learning]
bits = "10 kbit"

[selection]
method = "fedavg"
cohort = 2
"""
