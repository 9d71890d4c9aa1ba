"""The cases of the campaign in benchmarks/fuzz.py, a module a kind."""
