"""Encode what a session document keeps for listings: turns, the last message, title and labels.

Titles, labels and texts are content: no other module names their fields, except as not indexed.
"""

from collections.abc import Mapping
from typing import Final

from gcp_adk_store.codec.values import FieldValue
from gcp_adk_store.codec.writes import Filter, Operator
from gcp_adk_store.model.sessions import Append, Marker
from gcp_adk_store.model.summaries import Summary

SHOWN_FIELDS: Final = ("title", "labels", "last_text")
"""The content that listings show of a session."""

DESCRIPTION_FIELDS: Final = ("title", "labels", "label_set")
"""All fields of :func:`description_fields`."""

LABEL_SET: Final = "label_set"
"""The field with the labels as an array, so that one index serves all names of labels."""


def summary_fields(summary: Summary) -> dict[str, FieldValue]:
    """Return the fields that keep what listings show of a session's events."""
    turns = summary.turns
    return {"turns": turns.count, "last_turn": turns.last, "last_text": summary.last_text}


def summary_change(marker: Marker, append: Append) -> dict[str, FieldValue]:
    """Return the fields of :func:`summary_fields` that *append* changes."""
    fields: dict[str, FieldValue] = {}
    turns = marker.turns and marker.turns.after(append.turns)
    if turns is not None and (turns != marker.turns or not marker.revision):  # 0 need not be stored before
        fields |= {"turns": turns.count, "last_turn": turns.last}
    if append.last_text is not None:
        fields["last_text"] = append.last_text
    return fields


def description_fields(title: str | None, labels: Mapping[str, str]) -> dict[str, FieldValue]:
    """Return the fields of a title and labels; those that are left out must not be in the document."""
    fields: dict[str, FieldValue] = {} if title is None else {"title": title}
    if labels:
        fields |= {"labels": {**labels}, LABEL_SET: [_joined(*label) for label in labels.items()]}
    return fields


def label_filter(name: str, value: str) -> Filter:
    """Return the filter for documents that have a label."""
    return Filter(field=LABEL_SET, operator=Operator.CONTAINS, value=_joined(name, value))


def _joined(name: str, value: str) -> str:
    return f"{name}={value}"  # names have no "="
