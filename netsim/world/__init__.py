"""What changes in time, the same for every method: channels, availability, losses, energy sources and heat."""
