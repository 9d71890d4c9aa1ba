"""Handwritten digits, learned together: a Flower app that knows nothing of netsim."""
