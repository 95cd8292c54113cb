"""Send the requests of user code, to allowed addresses only."""
