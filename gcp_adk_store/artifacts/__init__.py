"""Save and load versioned artifacts in Cloud Storage."""
