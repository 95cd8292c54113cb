"""Append events to sessions: queue, encode, decide and commit."""
