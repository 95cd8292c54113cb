"""Move the oldest events of a session into the bucket, and leave them out of reads."""
