"""Prices as data: the list of one location, and the free quota."""

from dataclasses import asdict, replace
from datetime import date
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from gcp_adk_store.errors import InvalidInputError


def _dated(text: str) -> str:
    date.fromisoformat(text)
    return text


Text = Annotated[str, Field(min_length=1)]
Price = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(strict=True, extra="forbid"))
class Prices:
    """List prices of one location, in one currency."""

    location: Text
    """Of the database and the bucket, as ``us-central1``."""
    currency: Text
    as_of: Annotated[str, AfterValidator(_dated)]
    """Date of the list, ``YYYY-MM-DD``."""
    source: Text
    """The source of the prices."""
    reads_per_100k: Price
    """100,000 documents read, Firestore Standard edition in native mode."""
    writes_per_100k: Price
    deletes_per_100k: Price
    firestore_gib_month: Price
    """A GiB of documents for a month."""
    class_a_per_1k: Price
    """1,000 operations of Class A, Standard storage."""
    class_b_per_1k: Price
    storage_gib_month: Price
    """A GiB of objects of Standard storage for a month."""

    def in_currency(self, currency: str, rate: float) -> Self:
        """Return these prices in *currency*, of which one unit of the list's is *rate*.

        Raises:
            InvalidInputError: one of them would be too large.
        """
        converted: dict[str, Any] = {
            name: value * rate for name, value in asdict(self).items() if isinstance(value, float)
        }
        try:
            return replace(self, currency=currency, **converted)
        except ValidationError as exc:
            raise _refused(exc) from exc

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a JSON object with exactly the fields of this class.

        Raises:
            InvalidInputError: a field is missing, unknown or has a wrong value.
        """
        try:
            return TypeAdapter(cls).validate_json(text)
        except ValidationError as exc:
            raise _refused(exc) from exc


def _refused(exc: ValidationError) -> InvalidInputError:
    problem = exc.errors(include_context=False, include_url=False)[0]
    where = ".".join(str(step)[:80] for step in problem["loc"]) or "the list of prices"
    held = "" if problem["type"] == "missing" else f" (found {problem['input']!r:.80})"
    return InvalidInputError(f"{where}: {problem['msg']}{held}")


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
