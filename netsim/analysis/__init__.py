"""Analysis of traces: latency and energy breakdown, critical path, counterfactuals. Never imports simpy or torch."""
