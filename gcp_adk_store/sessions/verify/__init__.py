"""Prove what the history of a session is, and whether it changed."""
