"""Many runs: sweep files, the points of a sweep, where they run."""
