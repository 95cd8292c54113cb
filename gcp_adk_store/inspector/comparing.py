"""Put the events of two sessions side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Final

from gcp_adk_store.inspector.reading import Placed
from gcp_adk_store.model.internal_metadata import public_event

COMPARED: Final = 100
"""Events of each session on one page; the comparison takes at most the square of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Events that are the same in both, or that stand beside each other."""

    same: list[Placed] = field(default_factory=list)
    left: list[Placed] = field(default_factory=list)
    right: list[Placed] = field(default_factory=list)


def rows(left: Sequence[Placed], right: Sequence[Placed]) -> Iterator[Row]:
    """Yield both in their order. Events are the same if they say the same: a fork keeps them as they are."""
    matcher = SequenceMatcher(
        None, [_said(each) for each in left], [_said(each) for each in right], autojunk=False
    )
    for what, begin, end, other_begin, other_end in matcher.get_opcodes():
        if what == "equal":
            yield Row(same=[*left[begin:end]])
        else:
            yield Row(left=[*left[begin:end]], right=[*right[other_begin:other_end]])


def _said(placed: Placed) -> str:
    """Return what an event says, without its id and its time, which two runs never share."""
    event: Any = public_event(placed.event)
    return str(
        event.model_dump_json(
            exclude={"id", "timestamp", "invocation_id"}, exclude_none=True, exclude_defaults=True
        )
    )
