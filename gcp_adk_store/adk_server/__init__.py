"""Let the servers and commands of ADK use the store."""
