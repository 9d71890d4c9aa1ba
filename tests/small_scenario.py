"""Small scenarios as files have them, for tests to change, and changes that several tests make."""

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

# The devices come from a file beside it.
FLEET = """
[cell]
radius = "200 m"
bandwidth = "20 MHz"
[[population]]
devices = "fleet.csv"
cpu = { min = "0.2 GHz", max = "2 GHz", cycles_per_sample = 1e4 }
[learning]
bits = "100 kbit"
[selection]
method = "fedavg"
cohort = 1
"""

# Of the scenario "paper": twenty phones for eight rounds, and what happens to them.
TWENTY_PHONES = ["selection.method=fedavg", "population.phone.count=20", "selection.cohort=6", "rounds.first=cohort",
                 "end.rounds=8"]
ON_OFF = 'population.phone.availability={model="on-off",on="500 ms",off="100 ms",work="pause"}'
CRASH = 'population.phone.crash={every="1 s",repair="50 ms",work="lose"}'
