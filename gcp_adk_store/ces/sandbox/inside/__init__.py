"""What runs inside of the sandbox: the standard library alone, and nothing of the host's side."""
