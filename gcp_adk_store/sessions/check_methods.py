"""The methods of the session service that check what is stored, and mend it."""

from collections.abc import AsyncIterator, Sequence

from gcp_adk_store.fsck.faults import Fault
from gcp_adk_store.model.garbage import DEFAULT_AGE_S, require_age
from gcp_adk_store.operations.bounds import operation
from gcp_adk_store.sessions.checks import Checker, OnProgress, scope_of
from gcp_adk_store.sessions.storage import SessionStorage


class CheckMethods:
    """The methods that look for faults."""

    _storage: SessionStorage

    @operation
    async def check(
        self,
        *,
        app_name: str | None = None,
        user_id: str | None = None,
        session_id: str | None = None,
        full: bool = False,
        older_than_s: float = DEFAULT_AGE_S,
        on_progress: OnProgress | None = None,
    ) -> AsyncIterator[Fault]:
        """Yield what contradicts the invariants of docs/data-model.md, below the service's prefix.

        Writers may run at the same time: two looks at a session must find the same fault. Faults name ids,
        counts, sizes and hashes, never content. Sessions that have expired are not looked at. Reads each
        session document once, each segment twice, of each chunk the name and the times, and of the bucket
        the names; memory holds 16 documents and the names of one session's parts. It also
        reads all documents of users' memories, unless *session_id* is given.

        Args:
            app_name: Only this app; by default all.
            user_id: Only this user of it.
            session_id: Only this session of the user.
            full: Also read all payloads, and compare their sizes and hashes.
            older_than_s: Seconds after which a payload without a reference, or a deletion that is not
                complete, is a fault; an hour at least, a day by default.
            on_progress: Called after each session, with counts of what was looked at so far.

        Raises:
            InvalidInputError: *older_than_s* is below an hour, or an id comes without the one above it.
        """
        require_age(older_than_s)
        scope = scope_of(app_name, user_id, session_id)
        async for fault in Checker(self._storage).find(
            scope, full=full, older_than_s=older_than_s, on_progress=on_progress
        ):
            yield fault

    @operation
    async def repair(self, faults: Sequence[Fault]) -> list[Fault]:
        """Mend *faults* of :meth:`check` that have a ``repair``; return those that were mended.

        Each document changes in one commit, and only if no one has written it since it was looked at. Pass
        all faults of a session in one call: the first commit changes the time of its document.

        Raises:
            OutcomeUnknownError: not answered; check again.
        """
        return await Checker(self._storage).repair(faults)
