"""An agent whose model does what a test asks of it."""
