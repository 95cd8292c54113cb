"""Erase what a store holds of a user, and report what was erased."""
