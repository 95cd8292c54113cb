"""Credentials and tokens of requests."""
