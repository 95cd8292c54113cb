"""Copy the sessions of an app from one store to another: resumable, verified, and while the app runs.

Artifacts go along version by version, between any artifact services of ADK.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final

from google.adk.artifacts import BaseArtifactService
from google.adk.sessions import BaseSessionService
from google.genai import types

from gcp_adk_store.errors import InvalidInputError, SessionMissingError
from gcp_adk_store.kernel.calls import checks_arguments
from gcp_adk_store.kernel.concurrency import gather
from gcp_adk_store.model.artifacts import TOMBSTONE
from gcp_adk_store.model.keys import USER_NAMESPACE, ArtifactScope, SessionKey
from gcp_adk_store.model.state import ScopedState
from gcp_adk_store.moving.memories import MemoryCopies, MemoryPlace, memory_service, memory_source
from gcp_adk_store.moving.places import (
    closed_by,
    is_missing,
    is_same,
    open_source,
    open_target,
    require_place,
    require_present,
    source_name,
    target_of_dry_run,
)
from gcp_adk_store.moving.records import Listed, ListedKey, Source, Target, differing
from gcp_adk_store.moving.report import Ledger, Report, failure_of_one
from gcp_adk_store.moving.sessions import Outcome, SessionCopies
from gcp_adk_store.store import Store

ArtifactPlace = str | BaseArtifactService


@dataclass(frozen=True, slots=True)
class ArtifactCopies:
    """Copies the artifacts of sessions and users. A target that has some versions gets the later ones."""

    source: BaseArtifactService
    target: BaseArtifactService
    verify: bool
    dry_run: bool

    async def copy(self, key: SessionKey, report: Report, *, of_user: bool) -> bool:
        """Copy the artifacts of a session, or those *of_user*, which all of the user's sessions share.

        Return whether the target has all of them; what it lacks is noted.
        """
        whose, has_all = {"user": key.user, "session": key.session}, True
        ids = _ids_of_artifacts(key, of_user=of_user)
        if ids is None:
            return True
        try:
            names = await self.source.list_artifact_keys(**ids)
        except Exception as exc:  # noqa: BLE001  # any error of a service that cannot hold or read them
            report.add("failed", f"artifacts: {failure_of_one(exc)}", **whose)
            return False
        for name in names:
            if name.startswith(USER_NAMESPACE) == of_user:
                try:
                    has_all &= await self._copy_one({**ids, "filename": name}, report)
                except Exception as exc:  # noqa: BLE001  # as above
                    report.add("failed", f"artifact {name[:80]!r}: {failure_of_one(exc)}", **whose)
                    has_all = False
        return has_all

    async def _copy_one(self, which: dict[str, Any], report: Report) -> bool:
        versions = sorted(await self.source.list_versions(**which))
        there = sorted(await self.target.list_versions(**which))
        if versions != list(range(len(versions))):
            _note(report, "versions", which, f"its versions {versions[:10]} get the numbers from 0 on")
        if len(there) > len(versions):
            says = f"the target has {len(there)} versions, the source {len(versions)}"
            return _note(report, "conflict", which, says)
        has_all = True
        for version in versions[len(there) :]:
            has_all &= await self._copy_version(which, version, report)
        if self.verify and not self.dry_run:
            there = sorted(await self.target.list_versions(**which))
            for version, copied in zip_longest(versions, there[: len(versions)]):
                mine = _content(await self.source.load_artifact(**which, version=version))
                if copied is None or mine != _content(
                    await self.target.load_artifact(**which, version=copied)
                ):
                    has_all = _note(report, "differs", which, f"version {version} differs")
        return has_all

    async def _copy_version(self, which: dict[str, Any], version: int, report: Report) -> bool:
        part = await self.source.load_artifact(**which, version=version)
        about = await self.source.get_artifact_version(**which, version=version)
        if about is None:
            return _note(report, "failed", which, f"version {version} is gone")
        if not self.dry_run:
            metadata = dict(about.custom_metadata) if about.custom_metadata else None
            # A rewind removed what has no content: without its version, later ones would get other numbers.
            await self.target.save_artifact(**which, artifact=part or TOMBSTONE, custom_metadata=metadata)
        report.artifact_versions += 1
        return True


def _note(report: Report, kind: str, which: Mapping[str, Any], says: str) -> bool:
    """Note what is wrong with an artifact; return ``False``: the target does not have all of it."""
    says = f"artifact {which['filename'][:80]!r}: {says}"
    report.add(kind, says, user=which["user_id"], session=which["session_id"])
    return False


def open_artifacts(given: ArtifactPlace, ends: AsyncExitStack) -> BaseArtifactService:
    """Return a service, or that of a URI, which *ends* closes.

    Raises:
        InvalidInputError: the URI is malformed, or ADK cannot open it.
    """
    if isinstance(given, BaseArtifactService):
        return given
    require_place(given, "an artifact service")
    if given.partition(":")[0].lower() in ("gs", "gs+local"):
        from gcp_adk_store.adk_server.services import artifact_service  # noqa: PLC0415  # with Google's clients

        return closed_by(ends, artifact_service(given))
    from google.adk.cli.service_registry import get_service_registry  # noqa: PLC0415  # half of ADK's command

    try:
        service = get_service_registry().create_artifact_service(given)
    except (ValueError, ImportError):
        service = None
    if service is None:
        raise InvalidInputError("an artifact service is named by a URI such as gs://BUCKET or file:///PATH")
    return closed_by(ends, service)


def _ids_of_artifacts(key: SessionKey, *, of_user: bool) -> dict[str, Any] | None:
    """Return the ids of artifacts of a session or, *of_user*, perhaps of the user alone.

    ``None`` if no artifact can have them.
    """
    for session in (key.session, None) if of_user else (key.session,):
        with suppress(InvalidInputError):
            ArtifactScope(app=key.app, user=key.user, session=session)
            return {**key.ids, "session_id": session}
    return None


def _content(part: types.Part | None) -> bytes | None:
    """Return what two equal artifacts share: their bytes and type, or all their fields."""
    if part is None:
        return None
    if part.inline_data is not None:
        kind = (part.inline_data.mime_type or "").encode()
        return kind + b"\0" + (part.inline_data.data or b"")
    if part.text is not None:
        return b"text/plain\0" + part.text.encode("utf-8", "surrogatepass")
    return part.model_dump_json(exclude_none=True).encode()


_TWO: Final = 2

OnProgress = Callable[[Report], object]


@checks_arguments
async def copy(
    source: str | BaseSessionService | Source,
    target: str | BaseSessionService | Target,
    *,
    app_name: str,
    user_id: str | None = None,
    since: float | None = None,
    resume: str | os.PathLike[str] | None = None,
    verify: bool = False,
    dry_run: bool = False,
    artifacts: tuple[ArtifactPlace, ArtifactPlace] | None = None,
    memories: tuple[MemoryPlace, MemoryPlace] | None = None,
    follow: asyncio.Event | None = None,
    interval_s: float = 5.0,
    on_progress: OnProgress | None = None,
) -> Report:
    """Copy the sessions of an app, with the state of the app and of its users.

    The unit is the session. One that the target has is compared event by event, and gets what it lacks; one
    that has other events there is a conflict, and stays as it is. So a copy that was killed goes on when it
    is called again, nothing is copied twice, and nothing is missed. In this library's stores a session
    becomes visible as a whole; in other services a killed call may leave one with its first events.

    After the sessions of a user, the keys of the state of user and app get the values of the source.

    Args:
        source: A service, or a URI: one of ADK's servers, such as ``sqlite:///sessions.db``, ``firestore://``
            or ``firestore+local://`` for this library, ``adk-firestore://PROJECT/DATABASE`` for ADK's
            Firestore layout, or ``adk-java-firestore://PROJECT/DATABASE`` for that of ADK for Java.
        target: The same; ADK for Java's layout can only be a source.
        app_name: The app, in both.
        user_id: The user; by default all of the app.
        since: Unix time in seconds: only sessions that were updated at that time or later.
        resume: A file that remembers finished sessions; it is made if it is missing. Those that have not
            changed since are not read again, unless *verify* is given. It knows a service that is no URI by
            its class alone, so give each pair of services a file of its own.
        verify: Read each session in the target again, and compare digests of its events and its state.
        dry_run: Read and compare, and write nothing.
        artifacts: Services, or their URIs, to copy the artifacts of the sessions and users, too.
        memories: Services, or their URIs, to copy memories, too.
        follow: Go on copying what changes until this is set, and then once more. Sessions that the source
            deletes meanwhile are deleted in the target, if nobody else wrote to them.
        interval_s: Seconds between two passes, above 0.
        on_progress: Called with the report so far after each group of sessions.

    Returns:
        What was done, and a line for each thing that could not be carried exactly.

    Raises:
        InvalidInputError: a URI or an argument is invalid, a folder to copy from contains no store, a
            file of SQLite to copy from is missing, or *resume* is of another copy.
        UnavailableError, OutcomeUnknownError, AccessDeniedError, NotProvisionedError: a store failed; what is
            finished is kept, and another call goes on.
    """
    for name, pair in (("artifacts", artifacts), ("memories", memories)):
        if pair is not None and len(pair) != _TWO:
            raise InvalidInputError(f"{name} has {len(pair)} places, it must have two: source and target")
    if not 0 < interval_s < float("inf"):
        raise InvalidInputError(f"interval_s is {interval_s}, it must be a number of seconds above 0")
    if is_same(source, target):
        raise InvalidInputError("source and target are the same; name another target")
    what = f"{source_name(source)} -> {source_name(target)}, app {app_name!r}, user {user_id!r}"
    async with AsyncExitStack() as ends:
        opened = open_source(source)
        ends.push_async_callback(opened.close)
        nowhere = Store.local(":memory:")  # a dry run looks there in place of one that it must not make
        ends.push_async_callback(nowhere.close)
        into = target_of_dry_run(target, nowhere.sessions) if dry_run else open_target(target)
        ends.push_async_callback(into.close)
        ledger = Ledger.open(resume, copy=what, makes=not dry_run)
        ends.callback(ledger.close)
        also = [" -> ".join(map(source_name, each)) for each in (artifacts, memories) if each is not None]
        ledger.take_along(", ".join(also))
        copies = SessionCopies(source=opened, target=into, verify=verify, dry_run=dry_run)
        copying = _Copying(copies, ledger, app_name, user_id, since, on_progress)
        if artifacts is not None:
            one, other = artifacts
            require_present(one)
            there = nowhere.artifacts if dry_run and is_missing(other) else open_artifacts(other, ends)
            copying.artifacts = ArtifactCopies(open_artifacts(one, ends), there, verify, dry_run)
        if memories is not None:
            listing, adding = memory_source(memories[0], ends), memory_service(memories[1], ends)
            copying.memories = MemoryCopies(listing, adding, dry_run)
        await copying.run(follow, interval_s)
    return copying.report


@dataclass(slots=True)
class _Copying:
    copies: SessionCopies
    ledger: Ledger
    app: str
    user: str | None
    since: float | None
    on_progress: OnProgress | None
    report: Report = field(default_factory=Report)
    artifacts: ArtifactCopies | None = None
    memories: MemoryCopies | None = None
    owner: ListedKey | None = None
    """A session of the user whose sessions are being copied."""
    lacks: bool = False
    """Whether artifacts or memories of this user failed: the next call copies them."""
    lacking: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Sessions by what each lacks."""

    async def run(self, follow: asyncio.Event | None, interval_s: float) -> None:
        """Copy once, or again and again until *follow* is set and then once more."""
        is_last = follow is None
        while True:
            self.report.passes += 1
            self.report.listed = 0
            await self._pass_over()
            if is_last or follow is None:
                break
            is_last = follow.is_set()
            if not is_last:
                with suppress(TimeoutError):
                    await asyncio.wait_for(follow.wait(), interval_s)
                is_last = follow.is_set()
        self._sum_up()

    async def _pass_over(self) -> None:
        width = min(self.copies.source.traits.at_once, self.copies.target.traits.at_once)
        some: list[Listed] = []
        async for listed in self._listed():
            some.append(listed)
            if len(some) == width:
                await self._group(some)
                some = []
        if some:
            await self._group(some)
        await self._finish_user()
        if self.report.passes > 1 and not self.copies.dry_run:
            await self._remove_deleted()

    async def _listed(self) -> AsyncIterator[Listed]:
        """Yield the sessions that may have changed."""
        number = self.report.passes
        async for listed in self.copies.source.sessions(self.app, self.user):
            self.report.listed += 1
            if (bad := listed.unreadable) is not None:
                says = f"{bad.reason}; look at it: {bad.command}"
                self.report.add("failed", says, user=listed.user_id, session=listed.session_id)
                self.ledger.still_listed(listed.user_id, listed.session_id, listed=number)
                continue
            if self.since is not None and listed.last_update_time < self.since:
                continue
            try:
                SessionKey(app=self.app, user=listed.user_id, session=listed.session_id)
            except InvalidInputError as exc:  # the ledger cannot hold such ids, either
                self.report.add("failed", str(exc), user=listed.user_id, session=listed.session_id)
                continue
            known = self.ledger.entry(listed.user_id, listed.session_id)
            is_known = known is not None and known.stamp == listed.stamp
            if is_known and (not self.copies.verify or number > 1) and self.ledger.has_shared(listed.user_id):
                self.ledger.still_listed(listed.user_id, listed.session_id, listed=number)
                continue
            yield listed

    async def _group(self, some: list[Listed]) -> None:
        for listed in some:
            self.ledger.begin_user(listed.user_id)
        outcomes = await gather(
            self.copies.copy(self.app, listed, self.ledger.entry(listed.user_id, listed.session_id))
            for listed in some
        )
        for listed, outcome in zip(some, outcomes, strict=True):
            self._count(listed, outcome)
            if outcome.key is None or not outcome.did:
                continue
            if self.owner is not None and self.owner.user != outcome.key.user:
                await self._finish_user()
            self.owner = outcome.key
            if self.artifacts is not None:
                self.lacks |= not await self.artifacts.copy(outcome.key, self.report, of_user=False)
        if self.on_progress is not None:
            self.on_progress(self.report)

    def _count(self, listed: Listed, outcome: Outcome) -> None:
        report = self.report
        if outcome.did:
            setattr(report, outcome.did, getattr(report, outcome.did) + 1)
        report.events += outcome.events
        report.verified += outcome.verified
        if report.passes == 1 or outcome.did == "copied":  # later passes see it again
            self.lacking.update(outcome.lacks)
        for kind, says in outcome.notes:
            report.add(kind, says, user=listed.user_id, session=listed.session_id)
        if outcome.entry is not None:
            self.ledger.finish(listed.user_id, listed.session_id, outcome.entry, listed=self.report.passes)
        elif outcome.did and not self.copies.dry_run:
            self.ledger.forget(listed.user_id, listed.session_id)

    async def _finish_user(self) -> None:
        """Give the state of the last user, and of the app, the values of the source."""
        key, self.owner = self.owner, None
        if key is None:
            return
        if self.artifacts is not None:
            self.lacks |= not await self.artifacts.copy(key, self.report, of_user=True)
        if self.memories is not None:
            self.lacks |= not await self.memories.of_user(key.owner, self.report)
        lacks, self.lacks = self.lacks, False
        if self.copies.dry_run:
            return
        try:
            try:
                shared = await self.copies.source.shared(key)
            except SessionMissingError:
                says = "the state of the user and the app: the session that shows it is gone; copy again"
                self.report.add("skipped", says, user=key.user)
                return
            await self.copies.target.put_shared(key.owner, shared)
            if self.copies.verify:
                await self._verify_shared(key, shared)
        except Exception as exc:  # noqa: BLE001  # any error of a service that cannot hold or read it
            says = f"the state of the user, or of the app: {failure_of_one(exc)}"
            self.report.add("failed", says, user=key.user)
        else:
            if not lacks:
                self.ledger.finish_user(key.user)

    async def _verify_shared(self, key: ListedKey, shared: ScopedState) -> None:
        there = await self.copies.target.shared(key.in_target)
        for scope, mine, theirs in (("app", shared.app, there.app), ("user", shared.user, there.user)):
            if wrong := differing(mine, theirs):
                says = f"{len(wrong)} keys of the state of the {scope}, such as {wrong[0][:40]!r}"
                self.report.add("differs", says, user=key.user)

    async def _remove_deleted(self) -> None:
        for user, session, known in self.ledger.unlisted(listed=self.report.passes):
            key = ListedKey(app=self.app, user=user, session=session)
            try:
                is_removed = await self.copies.remove(key, known)
            except Exception as exc:  # noqa: BLE001  # as above
                self.report.add("failed", failure_of_one(exc), user=user, session=session)
                continue
            if is_removed:
                self.report.removed += 1
                self.ledger.forget(user, session)

    def _sum_up(self) -> None:
        for traits in (self.copies.source.traits, self.copies.target.traits):
            for line in traits.losses:
                self.report.add("lost", f"{traits.kind}: {line}")
        for (kind, says), count in sorted(self.lacking.items()):
            self.report.add(kind, f"of {count} sessions {says}")
