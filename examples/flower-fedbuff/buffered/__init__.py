"""FedBuff on handwritten digits in numpy: a Flower app without any reference to netsim."""
