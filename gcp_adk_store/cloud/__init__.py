"""Speak to Google Cloud: the only room that imports its SDKs."""
