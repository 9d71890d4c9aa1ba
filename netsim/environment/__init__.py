"""Time-varying environment, independent of the algorithm: channels, availability, losses, energy sources and heat."""
