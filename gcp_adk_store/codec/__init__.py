"""Spell the wire: how ids, values, events and artifacts look in storage. No I/O, no SDK."""
