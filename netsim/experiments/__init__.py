"""Many runs: sweeps over scenarios, and the paper's tables and figures with one command each."""
