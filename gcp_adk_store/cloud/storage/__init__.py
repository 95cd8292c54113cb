"""Speak to Cloud Storage."""
