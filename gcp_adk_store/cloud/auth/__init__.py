"""Get the tokens that requests carry."""
