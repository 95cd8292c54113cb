"""Read sessions, and the large content that they refer to."""
