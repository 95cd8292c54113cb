"""Bound, count and trace the calls of the services."""
