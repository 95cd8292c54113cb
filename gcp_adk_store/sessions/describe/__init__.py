"""Titles and labels of sessions."""
