"""Handwritten digits by FedBuff: a Flower app that knows nothing of netsim, in numpy alone."""
