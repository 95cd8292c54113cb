"""Access to Cloud Storage."""
