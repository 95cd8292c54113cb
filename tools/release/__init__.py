"""Build what a release has, and check it."""
