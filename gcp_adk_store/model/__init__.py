"""Values and rules of sessions and artifacts: pure functions without I/O or wire names."""
