"""Create, keep alive, expire and delete sessions."""
