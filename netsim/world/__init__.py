"""What changes in time, whoever looks."""
