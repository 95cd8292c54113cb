"""New sessions from old ones, at a point of their past."""
