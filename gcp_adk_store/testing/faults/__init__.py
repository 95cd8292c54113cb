"""Let chosen calls fail, get lost, hang or wait."""
