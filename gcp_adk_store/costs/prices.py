"""Prices as data: the list of one location, and the free quota."""

import json
import math
from dataclasses import dataclass, fields
from datetime import date
from typing import Any, Final, Self

from gcp_adk_store.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """List prices of one location, in one currency.

    Raises:
        InvalidInputError: a price is not a number of at least 0, *as_of* is not a date, or another field is
            not a text.
    """

    location: str
    """Of the database and the bucket, as ``us-central1``."""
    currency: str
    as_of: str
    """Date of the list, ``YYYY-MM-DD``."""
    source: str
    """The source of the prices."""
    reads_per_100k: float
    """100,000 documents read, Firestore Standard edition in native mode."""
    writes_per_100k: float
    deletes_per_100k: float
    firestore_gib_month: float
    """A GiB of documents for a month."""
    class_a_per_1k: float
    """1,000 operations of Class A, Standard storage."""
    class_b_per_1k: float
    storage_gib_month: float
    """A GiB of objects of Standard storage for a month."""

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            if name in _TEXTS:
                if not isinstance(value, str) or not value:
                    raise InvalidInputError(f"{name} must be a text, not {str(value)[:80]!r}")
            elif isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
                raise InvalidInputError(f"{name} is {str(value)[:80]!r}, it must be a number of 0 or more")
        try:
            date.fromisoformat(self.as_of)
        except ValueError as exc:
            raise InvalidInputError(f"as_of is {self.as_of[:80]!r}, it must be a date, YYYY-MM-DD") from exc

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a JSON object with exactly the fields of this class.

        Raises:
            InvalidInputError: a field is missing, unknown or has a wrong value.
        """
        try:
            given: Any = json.loads(text)
        except ValueError as exc:
            raise InvalidInputError(f"no JSON: {exc}") from exc
        if not isinstance(given, dict):
            raise InvalidInputError(f"must be a JSON object, not of type {type(given).__name__}")
        names = [field.name for field in fields(cls)]
        if missing := [name for name in names if name not in given]:
            raise InvalidInputError(f"lacks {', '.join(missing)}")
        if unknown := sorted(name[:80] for name in given if name not in names):
            raise InvalidInputError(
                f"has {', '.join(unknown)}, which no price is; it may have {', '.join(names)}"
            )
        return cls(**given)


_TEXTS: Final = frozenset({"location", "currency", "as_of", "source"})

US_CENTRAL1: Final = Prices(
    location="us-central1",
    currency="USD",
    as_of="2026-09-13",
    source=(
        "Google Cloud, 'Query interfaces overview' of Firestore (operations), 'Firestore pricing' "
        "(USD 0.000205479 a GiB-hour), 'Pricing examples' and 'Cloud Storage pricing' of Cloud Storage "
        "(Class A and B, USD 0.000027397 a GiB-hour); a month has 730 hours"
    ),
    reads_per_100k=0.03,
    writes_per_100k=0.09,
    deletes_per_100k=0.01,
    firestore_gib_month=0.15,
    class_a_per_1k=0.005,
    class_b_per_1k=0.0004,
    storage_gib_month=0.02,
)
"""List prices of Iowa."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeQuota:
    """The free quota: of Firestore operations a day, of stored documents and Cloud Storage a month."""

    reads_per_day: float = 0
    writes_per_day: float = 0
    deletes_per_day: float = 0
    firestore_gib: float = 0
    class_a_per_month: float = 0
    class_b_per_month: float = 0
    storage_gib: float = 0


NOTHING_FREE: Final = FreeQuota()

FREE_QUOTA: Final = FreeQuota(
    reads_per_day=50_000,
    writes_per_day=20_000,
    deletes_per_day=20_000,
    firestore_gib=1,
    class_a_per_month=5_000,
    class_b_per_month=50_000,
    storage_gib=5e9 / 2**30,
)
"""Of one database a project, and of buckets in us-central1, us-east1 and us-west1 of one billing account.

From 'Quotas and limits' of Firestore and 'Cloud Storage pricing', Always Free, read 2026-09-20.
"""
