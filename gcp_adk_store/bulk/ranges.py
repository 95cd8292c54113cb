"""Split the users of an app into ranges by name; pure."""

import string
from collections.abc import Iterable
from typing import Final

from gcp_adk_store.codec.documents import Layout
from gcp_adk_store.codec.writes import NameRange, in_order_of_names

_FIRST: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
"""Characters that ids of users begin with, as a rule; in the order of names."""

_TO_THE_USER: Final = 4  # names of a path


def user_ranges(layout: Layout, app: str, points: Iterable[str]) -> list[NameRange]:
    """Return ranges of users of *app* that lie between *points*, which are paths of any documents.

    Every user is in exactly one range, with all of their sessions: a point within the sessions of a user
    counts as the path of that user. Points outside of the app count for nothing.
    """
    start = f"{layout.app(app)}/{layout.users_collection}/"
    users = {"/".join(path.split("/")[:_TO_THE_USER]) for path in points if path.startswith(start)}
    cuts = sorted(users, key=in_order_of_names)
    return [NameRange(start=one, end=other) for one, other in zip([None, *cuts], [*cuts, None], strict=True)]


def first_characters(layout: Layout, app: str, *, most: int) -> list[str]:
    """Return paths that split the users of *app* by the first characters of their ids.

    For databases that cannot tell where sessions lie: the parts have unlike numbers.
    """
    step = -(-len(_FIRST) // max(1, most))
    return [f"{layout.app(app)}/{layout.users_collection}/{first}" for first in _FIRST[::step]]
