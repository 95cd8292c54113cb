"""What the tests run inside: the standard library alone."""
