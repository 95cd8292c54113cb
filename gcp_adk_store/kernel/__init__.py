"""Change what is stored while others change it: the one loop of each kind."""
