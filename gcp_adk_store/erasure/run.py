"""Erase a user in passes, until one finds nothing."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from google.adk.platform import uuid as platform_uuid

from gcp_adk_store import machine
from gcp_adk_store.artifacts.owners import UserObjects
from gcp_adk_store.artifacts.service import ArtifactService
from gcp_adk_store.codec.objects import ENCRYPTED
from gcp_adk_store.codec.writes import Delete, Document, Written
from gcp_adk_store.erasure.counts import counted, refers_to_bucket
from gcp_adk_store.erasure.format import KEY_BYTES, ErasureLayout, Intent, read_intent, read_key, subject_of
from gcp_adk_store.errors import (
    AccessDeniedError,
    NotProvisionedError,
    OutcomeUnknownError,
    StoredDataError,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.calls import Bounds, operation
from gcp_adk_store.kernel.ports import Objects
from gcp_adk_store.kernel.transact import (
    CHANGED,
    Attempts,
    Changed,
    Commit,
    Decision,
    Done,
    commit_once,
    read_whole,
    transact,
)
from gcp_adk_store.model.erasures import (
    NOT_COVERED,
    Erased,
    ErasureProgress,
    ErasureReceipt,
    Recovery,
    Tally,
    require_quiet,
    total,
)
from gcp_adk_store.model.keys import UserKey
from gcp_adk_store.model.payloads import LeftFile
from gcp_adk_store.sessions.read.payloads import pages
from gcp_adk_store.sessions.service import SessionService
from gcp_adk_store.tasks.format import TaskLayout

if TYPE_CHECKING:
    from gcp_adk_store.erasure.key_erasure import KeyErasure

MAX_PASSES: Final = 20
"""Passes that find something in one call: others write as fast as it erases."""

_AT_ONCE: Final = 32
"""Documents of one page, of 1 MiB each at most, and removed in one commit."""

_NO_TASKS: Final = "A2A tasks, which belong to owners: pass task_owner"
_NO_OWNER: Final = "{} payloads that do not say whose they are"
_HELD: Final = "{} files that calls are writing now, which do not say whose they are"

Found = tuple[str, Tally, Callable[[], Awaitable[None]]]
"""Where something is, how much, and what removes it."""

RecoveryOf = Callable[[float], Awaitable[Recovery]]
"""Returns what can be recovered of data that was removed at a time."""


class UserErasure:
    """Erases users from the sessions and the artifacts of one store."""

    def __init__(
        self,
        sessions: SessionService,
        artifacts: ArtifactService | None,
        recovery: RecoveryOf,
        recovery_of_keys: RecoveryOf,
    ) -> None:
        self._storage = sessions.storage
        self._follower = sessions._appender.follower  # noqa: SLF001  # of one store
        self._artifacts = artifacts
        self._recovery = recovery
        self.recovery_of_keys = recovery_of_keys
        ready = sessions._appender.ready  # noqa: SLF001  # of one store
        self._bounds = Bounds(UserErasure, system=telemetry.FIRESTORE, ready=ready)

    @operation
    async def erase_user(
        self,
        *,
        app_name: str,
        user_id: str,
        dry_run: bool = False,
        task_owner: str | None = None,
        quiet_s: float = 0.0,
    ) -> AsyncGenerator[ErasureProgress | ErasureReceipt, None]:
        """As :meth:`gcp_adk_store.Store.erase_user`."""
        key = UserKey(app=app_name, user=user_id)
        require_quiet(quiet_s)
        run = _Run(self, key, task_owner)
        if dry_run:
            found: Tally = {}
            begun_at = self._storage.documents.clock.now()
            async for stage, more, _ in run.find():
                found = total(found, more)
                yield ErasureProgress(stage=stage, passes=1, found=found)
            if more := await run.left():
                found = total(found, more)
                yield ErasureProgress(stage="files", passes=1, found=found)
            ended_at = self._storage.documents.clock.now()
            yield ErasureReceipt(
                app_name=app_name,
                subject="",
                is_dry_run=True,
                erased=found,
                begun_at=begun_at,
                ended_at=ended_at,
                empty_at=None,
                passes=1,
                recovery=await self._recovery(ended_at),
                not_covered=run.not_covered,
            )
            return
        try:
            async with aclosing(run.erase(quiet_s)) as steps:
                async for step in steps:
                    yield step
        except (UnavailableError, AccessDeniedError, NotProvisionedError, OutcomeUnknownError) as exc:
            if not run.has_removed and not isinstance(exc, OutcomeUnknownError):
                raise
            raise OutcomeUnknownError.since(
                exc, f"some of the user's data may be removed, and not all are; call it again: {exc}"
            ) from exc

    async def subject(self, key: UserKey) -> str:
        """Return the name of a user in intents and receipts; the first call of a store makes its key."""
        documents = self._storage.documents
        layout = ErasureLayout(self._storage.layout.prefix)
        secret = machine.random_bytes(KEY_BYTES)

        async def look() -> Document | None:
            (found,) = await documents.get([layout.key])
            return found

        def decide(found: Document | None, _: Attempts) -> Decision[bytes]:
            if found is not None:
                return Done(read_key(found))
            return Commit([layout.put_key(secret)], lambda _: secret)

        return subject_of(await transact(documents, look, decide), key)


class _Run:
    """One call that erases a user, or only finds what there is."""

    def __init__(self, erasure: UserErasure, key: UserKey, task_owner: str | None) -> None:
        self._erasure = erasure
        self._storage = erasure._storage  # noqa: SLF001  # of one module
        # As they are stored: what cannot be decrypted is removed, too.
        self._documents = self._storage.as_stored or self._storage.documents
        self._key = key
        self._user = self._storage.layout.user(key)
        self._owner = None if task_owner is None else self._tasks.owner(task_owner)
        self._roots = [self._user] if self._owner is None else [self._user, self._owner]
        self._layout = ErasureLayout(self._storage.layout.prefix)
        self._subject = ""
        self._intent = Intent(begun_at=0.0, erased={})
        self._unowned = 0
        self._held = 0
        self.has_removed = False
        """Whether something may be removed."""

    @cached_property
    def _tasks(self) -> TaskLayout:
        """Where the tasks of owners are."""
        return TaskLayout(self._storage.layout.prefix)

    @cached_property
    def _keys(self) -> "KeyErasure":
        """The data keys of the user."""
        # Imported here: it brings ciphers.
        from gcp_adk_store.erasure.key_erasure import KeyErasure  # noqa: PLC0415

        recovery, prefix = self._erasure.recovery_of_keys, self._storage.layout.prefix
        return KeyErasure(self._storage.encryption, self._roots, recovery, prefix)

    @cached_property
    def _objects(self) -> UserObjects | None:
        """The artifacts and uploads of the user; ``None`` without a bucket."""
        artifacts = self._erasure._artifacts  # noqa: SLF001
        return None if artifacts is None else UserObjects.of_user(artifacts.storage, self._key)

    @cached_property
    def _places(self) -> Collection[Objects]:
        """Where objects lie: both services may have one folder."""
        artifacts = self._erasure._artifacts  # noqa: SLF001
        both = (self._storage.payloads.objects, None if artifacts is None else artifacts.storage.objects)
        return {each.uri_of(""): each for each in both if each is not None}.values()

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the erasure leaves alone."""
        tasks = () if self._owner is not None else (_NO_TASKS,)
        unowned = (_NO_OWNER.format(self._unowned),) if self._unowned else ()
        held = (_HELD.format(self._held),) if self._held else ()
        return (*NOT_COVERED, *tasks, *unowned, *held)

    async def erase(self, quiet_s: float) -> AsyncGenerator[ErasureProgress | ErasureReceipt, None]:
        """Erase in passes, *quiet_s* apart, until one finds nothing; then the receipt."""
        clock = self._documents.clock
        follower = self._erasure._follower  # noqa: SLF001
        self._subject = await self._erasure.subject(self._key)
        await self._begin()
        for number in range(1, MAX_PASSES + 1):
            empty_at = clock.now()
            if follower is not None:  # else it writes memories of what is erased
                await follower.forget(self._key)
            is_empty = True
            async for stage, _, remove in self.find():
                is_empty = False
                await remove()
                self.has_removed = True
                yield ErasureProgress(stage=stage, passes=number, found=self._intent.erased)
            if is_empty and (number > 1 or not quiet_s):
                break
            await self._commit([], {}, passes=1)
            if quiet_s:
                yield ErasureProgress(stage="waiting", passes=number, found=self._intent.erased)
                await asyncio.sleep(quiet_s)
        else:
            raise UnavailableError(
                f"others still write what is the user's: {MAX_PASSES} passes found something each; "
                "stop them, then call it again"
            )
        try:
            if removed := await self._remove_left():
                await self._commit([], removed)
                yield ErasureProgress(stage="files", passes=number, found=self._intent.erased)
            await self._documents.scrub()
            await self._keys.scrub()
        except StoreError as exc:
            raise OutcomeUnknownError.since(
                exc,
                "everything of the user is removed, but some of its bytes are still in the files; call it "
                f"again: {exc}",
            ) from exc
        ended_at = clock.now()
        recovery = await self._erasure._recovery(ended_at)  # noqa: SLF001
        unreadable_from, recovery = await self._keys.judge(recovery)
        try:
            yield ErasureReceipt(
                app_name=self._key.app,
                subject=self._subject,
                is_dry_run=False,
                erased=self._intent.erased,
                begun_at=self._intent.begun_at,
                ended_at=ended_at,
                empty_at=empty_at,
                passes=self._intent.passes + 1,
                recovery=recovery,
                unreadable_from=unreadable_from,
                not_covered=self.not_covered,
            )
        finally:  # the caller has the receipt; until then, another call goes on and counts the same
            removal = Delete(path=self._layout.intent(self._subject))
            await self._documents.commit([removal])

    async def find(self) -> AsyncIterator[Found]:
        """Yield what there is: where, how much, and what removes it; keys come first."""
        if scopes := await self._keys.find():
            counts = {"keys": Erased(len(scopes))}
            yield "keys", counts, self._removal(counts, partial(self._keys.destroy, scopes))
        for root in self._roots:
            async for each in self._documents_below(root):
                yield each
        in_bucket = self._storage.payloads.in_bucket
        if in_bucket is not None:
            self._unowned = 0
            async for payloads in in_bucket.scan():
                self._unowned += sum(payload.owner is None for payload in payloads)
                mine = [each for each in payloads if each.owner and self._is_mine(each.owner.path)]
                if mine:
                    self._keys.require_known(each.is_encrypted for each in mine)
                    tally = {"payloads": Erased(len(mine), sum(each.size or 0 for each in mine))}
                    yield "payloads", tally, self._removal(tally, partial(in_bucket.remove, mine))
        if self._objects is not None:
            for stage in ("artifacts", "uploads"):
                async for objects, counts in self._objects.find(stage):
                    self._keys.require_known(ENCRYPTED in each.metadata for each in objects)
                    yield stage, counts, self._removal(counts, partial(self._objects.remove, objects))

    async def left(self) -> Tally:
        """Return the files that no object has."""
        return _of_files([file for place in self._places for file in await place.left(every=True)])

    async def _remove_left(self) -> Tally:
        """Remove the files that no object has, of all users; count those that are being written."""
        removed: list[LeftFile] = []
        self._held = 0
        for place in self._places:
            found = await place.left(every=True)
            held = await place.remove_left(found)
            self._held += len(held)
            removed += [file for file in found if file not in held]
        return _of_files(removed)

    def _is_mine(self, path: str) -> bool:
        return path == self._user or path.startswith(f"{self._user}/")

    def _removal(self, tally: Tally, remove: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        async def removed() -> None:
            self.has_removed = True  # of several objects, some may be removed before one is not
            await remove()
            await self._commit([], tally)

        return removed

    async def _documents_below(self, root: str) -> AsyncIterator[Found]:
        """Yield the document at *root*, then all documents below it, also below those that are gone."""
        found = [each for each in await self._documents.get([root]) if each is not None]
        if found:
            yield self._batch(found)
        async for found, _ in pages(self._documents, "", parent=root, limit=_AT_ONCE):
            if found:
                yield self._batch([*await self._noted(found), *found])

    async def _noted(self, found: Sequence[Document]) -> list[Document]:
        """Return the push notification configs that notes among *found* name."""
        configs: list[Document] = []
        for note in filter(self._is_note, found):
            configs += await self._documents.query(
                self._tasks.noted_configs(note.path), self._tasks.configs_collection
            )
        return configs

    def _is_note(self, document: Document) -> bool:
        """Return whether a document names where push notification configs of the owner are."""
        parent, collection, _ = document.path.rsplit("/", 2)
        return parent == self._owner and collection == self._tasks.pushes_collection

    def _batch(self, found: Sequence[Document]) -> Found:
        if self._storage.payloads.in_bucket is None and any(map(refers_to_bucket, found)):
            raise StoredDataError(
                "the user has payloads in a bucket, and this store has none: open it with its bucket"
            )
        self._keys.require_known(map(self._keys.is_encrypted, found))
        tally = counted(self._storage.layout.prefix, found)
        # A config that was set meanwhile changed its note, too.
        deletes = [
            Delete(path=each.path, must=each.update_time if self._is_note(each) else None) for each in found
        ]
        return "documents", tally, lambda: self._commit(deletes, tally)

    async def _begin(self) -> None:
        """Note the intent before anything is removed, or go on with the one that is there."""

        async def look() -> Changed | None:
            await self._reread("")
            return CHANGED if self._intent.update_time is None else None

        await read_whole(self._documents.deadline_s, look)

    async def _commit(self, deletes: Sequence[Delete], tally: Tally, *, passes: int = 0) -> None:
        """Remove documents, and note in the intent that they were, in one commit.

        If another call has changed one since, nothing is removed: the next pass finds all of them.
        """
        commit_id = platform_uuid.new_uuid().replace("-", "")
        refused: str | None = None

        def decide(has_landed: bool, _: Attempts) -> Decision[None]:  # noqa: FBT001  # what was read
            nonlocal refused
            if has_landed:
                return Done(None)
            if self._intent.update_time is None:
                return CHANGED
            if self._intent.update_time == refused:
                return Done(None)  # it was not the intent that had changed
            refused = self._intent.update_time
            after = self._intent.plus(tally, passes=passes, commit_id=commit_id)

            def committed(written: Sequence[Written]) -> None:
                self._intent = replace(after, update_time=written[-1].update_time)

            return Commit([*deletes, self._layout.put_intent(self._subject, after)], committed)

        look = partial(self._reread, commit_id)
        await transact(self._documents, look, decide, known=(False,), advice="call it again")

    async def _reread(self, commit_id: str) -> bool:
        """Read the intent, or make it; return whether the commit with this id wrote it."""
        (found,) = await self._documents.get([self._layout.intent(self._subject)])
        if found is not None:
            self._intent = read_intent(found)
            return self._intent.commit_id == commit_id
        begun_at = self._intent.begun_at or self._documents.clock.now()
        new = Intent(begun_at=begun_at, erased={})
        self._intent = new
        written = await commit_once(self._documents, [self._layout.put_intent(self._subject, new)])
        if written is not None:  # otherwise another call, or an earlier attempt, made it
            self._intent = replace(new, update_time=written[0].update_time)
        return False


def _of_files(files: Sequence[LeftFile]) -> Tally:
    return {"files": Erased(len(files), sum(file.size for file in files))} if files else {}
