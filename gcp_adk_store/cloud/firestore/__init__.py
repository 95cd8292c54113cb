"""Speak to Firestore."""
