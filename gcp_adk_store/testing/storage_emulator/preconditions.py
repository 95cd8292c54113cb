"""Decide whether the conditions on a request hold for the object they are about."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import ApiError, bad_request

if TYPE_CHECKING:
    from collections.abc import Mapping

_FAILED = "At least one of the pre-conditions you specified did not hold."


class Version(NamedTuple):
    """What conditions compare with; an absent object is None instead."""

    generation: int
    metageneration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    """The four numeric conditions; None means not asked for."""

    generation_match: int | None = None
    generation_not_match: int | None = None
    metageneration_match: int | None = None
    metageneration_not_match: int | None = None

    @classmethod
    def parse(cls, values: Mapping[str, Any], *, prefix: str = "if") -> Preconditions:
        """Read the conditions from a query or a JSON object.

        Args:
            values: parameter name to value; others are ignored.
            prefix: ``ifSource`` reads the conditions on the source of a copy.
        """

        def number(name: str) -> int | None:
            value = values.get(prefix + name)
            if value is None:
                return None
            try:
                return int(value)
            except (TypeError, ValueError) as exc:
                raise bad_request(f"Invalid value for {prefix}{name}: {value!r}") from exc

        return cls(
            generation_match=number("GenerationMatch"),
            generation_not_match=number("GenerationNotMatch"),
            metageneration_match=number("MetagenerationMatch"),
            metageneration_not_match=number("MetagenerationNotMatch"),
        )

    def check(self, found: Version | None, *, reading: bool = False) -> None:
        """Return if every condition holds for *found*.

        An absent object has generation 0 and no metageneration: asking for one fails.

        Raises:
            ApiError: 412; or 304 when *reading* and only a "not match" condition failed.
        """
        generation = found.generation if found else 0
        metageneration = found.metageneration if found else None
        if self.generation_match not in {None, generation} or (
            self.metageneration_match not in {None, metageneration}
        ):
            raise ApiError(HTTPStatus.PRECONDITION_FAILED, _FAILED)
        if self.generation_not_match == generation or (
            self.metageneration_not_match is not None and self.metageneration_not_match == metageneration
        ):
            raise ApiError(HTTPStatus.NOT_MODIFIED if reading else HTTPStatus.PRECONDITION_FAILED, _FAILED)


def check_etags(*, found: str, match: str | None, none_match: str | None) -> None:
    """Return if the ``If-Match`` and ``If-None-Match`` headers of a read allow it.

    Raises:
        ApiError: 412 for a missed ``If-Match``, 304 for a met ``If-None-Match``.
    """
    if match is not None and not _lists(match, found):
        raise ApiError(HTTPStatus.PRECONDITION_FAILED, _FAILED)
    if none_match is not None and _lists(none_match, found):
        raise ApiError(HTTPStatus.NOT_MODIFIED, _FAILED)


def _lists(header: str, etag: str) -> bool:
    return any(tag.strip().strip('"') in {"*", etag} for tag in header.split(","))
