"""Erase what a store holds of a user, and tell what was erased."""
