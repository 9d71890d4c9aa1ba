"""What a trace says about a run: where time and energy went, and what set its length. Never imports simpy or torch."""
