"""Run user code on sessions, and treat all that it answers as untrusted."""
