"""Encrypt data keys anew with the newest version of the key that wraps them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from gcp_adk_store.codec.writes import Document, Page, Write
from gcp_adk_store.encryption.keyring import Destroyed, Keyring, read_key_document
from gcp_adk_store.encryption.sealing import DATA_KEY_BYTES
from gcp_adk_store.errors import (
    AccessDeniedError,
    NotProvisionedError,
    OutcomeUnknownError,
    StoredDataError,
    UnavailableError,
)
from gcp_adk_store.kernel.transact import Attempts, Commit, Decision, Done, transact


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
    """Data keys that could not be unwrapped: they were changed, or the version that wrapped them is gone, or
    disabled."""


OnRotated = Callable[[RotationReport], None]
"""Gets the report so far."""

_AT_ONCE: Final = 100
"""Documents of one page."""


async def rotate(keys: Keyring, on_progress: OnRotated | None = None) -> RotationReport:
    """Wrap all data keys with the newest version; those that it wraps already stay as they are.

    After an interruption the next call goes on. Content stays as it is, because data keys do.

    Raises:
        UnavailableError, AccessDeniedError, NotProvisionedError: of the key, or of the database of keys;
            nothing was written.
        OutcomeUnknownError: the same, after some keys were wrapped anew, or a write was not answered; call it
            again.
    """
    probe = await keys.wrapper.wrap(bytes(DATA_KEY_BYTES), b"gcp-adk-store/1/rotation")
    report = RotationReport()
    page = Page(field=None, descending=False, limit=_AT_ONCE, after=None)
    while True:
        try:
            found = await keys.documents.query("", keys.layout.collection, page=page)
            for document in found:
                report = await _rotated(keys, document, probe.version, report)
        except (UnavailableError, AccessDeniedError, NotProvisionedError, OutcomeUnknownError) as exc:
            if not report.rewrapped and not report.forgotten:
                raise
            raise OutcomeUnknownError.since(
                exc, f"some data keys are wrapped anew, and not all; call it again: {exc}"
            ) from exc
        if on_progress is not None:
            on_progress(report)
        if len(found) < _AT_ONCE:
            return report
        page = replace(page, after=(0.0, found[-1].path))


async def _rotated(keys: Keyring, listed: Document, newest: str, report: RotationReport) -> RotationReport:
    """Return *report* with what became of one document, which was as it is *listed*."""
    path = listed.path
    mine: list[bytes] = []

    async def look() -> Document | None:
        (document,) = await keys.documents.get([path])
        return document

    def decide(document: Document | None, attempts: Attempts) -> Decision[RotationReport]:
        forgotten = replace(report, forgotten=report.forgotten + 1)
        if document is None:
            return Done(forgotten if attempts.maybe_applied and not mine else report)
        stored = read_key_document(document)
        if isinstance(stored, Destroyed):
            if keys.documents.clock.now() < stored.is_over_at:
                return Done(report)
            return Commit([keys.layout.forget(path, stored)], lambda _: forgotten)
        one_more = replace(report, keys=report.keys + 1)
        by_newest = replace(one_more, rewrapped=report.rewrapped + 1)
        if stored.wrapped.version == newest:
            return Done(by_newest if stored.wrapped.data in mine else one_more)

        async def rewrapped() -> list[Write]:
            context = keys.layout.context(path)
            try:
                secret = await keys.wrapper.unwrap(stored.wrapped, context)
            except NotProvisionedError as exc:  # the key itself is there: the probe took it
                raise StoredDataError(f"the version that wrapped it is gone: {exc}") from exc
            wrapped = await keys.wrapper.wrap(secret, context)
            mine.append(wrapped.data)  # no two results of it are the same
            return [keys.layout.rewrap(path, stored, wrapped)]

        return Commit(rewrapped, lambda _: by_newest)

    known: tuple[Document | None] = (listed,)
    try:
        return await transact(keys.documents, look, decide, known=known, advice="call it again")
    except StoredDataError:
        return replace(report, keys=report.keys + 1, failed=report.failed + 1)
