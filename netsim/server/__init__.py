"""Who dispatches jobs, waits for them and aggregates."""
