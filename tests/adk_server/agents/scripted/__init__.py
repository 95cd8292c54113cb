"""An agent whose model does what a test tells it to."""
