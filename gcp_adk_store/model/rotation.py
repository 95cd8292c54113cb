"""Describe what a rotation of keys did."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationReport:
    """What became of the wrapped data keys of a store."""

    keys: int = 0
    """Data keys that were looked at."""
    rewrapped: int = 0
    """Of these, those that the newest version of the key wraps now, and an older one did before."""
    forgotten: int = 0
    """Notes of keys that were destroyed more than a day ago, which were removed."""
    failed: int = 0
    """Data keys that could not be unwrapped: they were changed, or the version that wrapped them is gone."""
