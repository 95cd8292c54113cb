"""What the benchmark of the sandbox runs inside."""
