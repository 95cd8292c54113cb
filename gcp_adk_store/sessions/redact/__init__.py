"""Take the content of single events out of sessions and their copies."""
