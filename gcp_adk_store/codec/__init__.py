"""The stored format of ids, values, events and artifacts. No I/O, no SDK."""
