"""Sweeps: sweep files, their points, and executors on this machine or a cluster."""
