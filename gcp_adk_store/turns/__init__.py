"""One turn of a session at a time, across processes."""
