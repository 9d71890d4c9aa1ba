"""Federated learning of handwritten digits: a Flower app without any reference to netsim."""
