"""List sessions, and the events and usage of a user over all of them."""
