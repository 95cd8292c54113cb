"""Keep what users said beyond one session, and find it again: ADK's memory service."""
