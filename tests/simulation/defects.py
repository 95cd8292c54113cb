"""Defects that are put into a copy of the package, to see whether the workloads find them.

Each changes one place, as a mistake or a revert of a repair would. ``python -m tests.simulation.hunt`` runs
the workloads on each copy, counts the schedules until one fails, and fails if a place is no longer there.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Defect:
    """One change of one file of the package."""

    name: str
    section: str
    """The section of docs/guarantees.md whose promise it breaks."""
    file: str
    before: str
    """The text that it changes, which the file has once."""
    after: str
    workloads: tuple[str, ...]
    """Those that should find it."""


_SESSIONS = ("sessions", "merging")
_TURNS = ("turns", "leases", "turns-behind")

DEFECTS: Final = (
    Defect(
        "an append requires nothing of the document",
        "Operation by operation", "codec/documents.py",
        "                must=marker.update_time,\n                life=marker.epoch,",
        "                must=Must.EXIST,\n                life=marker.epoch,",
        _SESSIONS,
    ),
    Defect(
        "a seal requires nothing of the document",
        "Operation by operation", "codec/documents.py",
        "update(path, header, must=stored.update_time, without=initial, life=stored.epoch)",
        "update(path, header, must=Must.EXIST, without=initial, life=stored.epoch)",
        _SESSIONS,
    ),
    Defect(
        "a seal loses the last event",
        "Operation by operation", "codec/segments.py",
        "        texts=stored.tail,\n", "        texts=stored.tail[:-1] or stored.tail,\n",
        _SESSIONS,
    ),
    Defect(
        "a lost answer of an append is taken for a conflict",
        "When requests fail", "model/sessions.py",
        "        outcome = Settlement.LANDED\n", "        outcome = Settlement.STALE\n",
        _SESSIONS,
    ),
    Defect(
        "an append whose answer is lost is sent again",
        "When requests fail", "model/sessions.py",
        "    elif all(held):\n", "    elif False:\n",
        ("merging",),
    ),
    Defect(
        "a stale writer merges although it must raise",
        "Operation by operation", "sessions/recorder.py",
        "    if settlement is Settlement.STALE and not merging:\n", "    if False:\n",
        ("sessions",),
    ),
    Defect(
        "an append believes a refusal of its own commit",
        "When requests fail", "sessions/recorder.py",
        "            with settling(refused):\n                stored, settlement = await self._settle(key, append, base, hold)\n",
        "            stored, settlement = await self._reader.stored(key), Settlement.STALE\n",
        _SESSIONS,
    ),
    Defect(
        "an append is stored without its state",
        "Operation by operation", "codec/documents.py",
        '            mask += [("state", name) for name in state]\n', "            pass\n",
        _SESSIONS,
    ),
    Defect(
        "the chain leaves out an event of a group",
        "Erasure, retention, proof", "model/sessions.py",
        "        return reduce(link, self.hashes, head)\n", "        return reduce(link, self.hashes[:2], head)\n",
        _SESSIONS,
    ),
    Defect(
        "a group counts as one append",
        "Operation by operation", "codec/documents.py",
        '            "rev": marker.revision + len(append.texts),\n', '            "rev": marker.revision + 1,\n',
        _SESSIONS,
    ),
    Defect(
        "a read of the newest events stops one segment early",
        "Operation by operation", "sessions/reader.py",
        "            unread, step = first, step * 2\n        return select_events(events, config)\n",
        "            unread, step = 0, step * 2\n        return select_events(events, config)\n",
        _SESSIONS,
    ),
    Defect(
        "a title overwrites what another writer stored meanwhile",
        "Operation by operation", "codec/documents.py",
        "return update(path, fields, must=stored.update_time, without=sorted(absent), life=stored.epoch)",
        "return update(path, fields, must=Must.EXIST, without=sorted(absent), life=stored.epoch)",
        _SESSIONS,
    ),
    Defect(
        "payloads are written after the commit that refers to them",
        "Durability", "sessions/recorder.py",
        "            await self._storage.put(key, base.epoch, change, parts_at=parts_at)\n        new_part",
        "            pass\n        new_part",
        _SESSIONS,
    ),
    Defect(
        "a request that was refused for now is not sent again, and reported as done",
        "When requests fail", "cloud/retry.py",
        "    kinds = (UnavailableError, OutcomeUnknownError) if repeatable_when_unanswered else (UnavailableError,)\n",
        "    kinds = (OutcomeUnknownError,) if repeatable_when_unanswered else ()\n",
        ("turns", "sessions"),
    ),
    Defect(
        "a refusal after a lost answer is taken for that of another writer",
        "When requests fail", "cloud/retry.py",
        "exc.attempts, exc.perhaps_own = tried, unanswered is not None", "exc.attempts = tried",
        ("leases", "turns"),
    ),
    Defect(
        "the pause of a lease's taker promises that nothing was written",
        "When requests fail", "turns/lease.py",
        "                refused, stored = exc.after(refused), None\n                with settling(refused, advice=_ENDS):\n                    await rereads.again(refused)\n",
        "                refused, stored = exc, None\n                await rereads.again(refused)\n",
        ("leases",),
    ),
    Defect(
        "a second refusal forgets that the first was perhaps its own",
        "When requests fail", "ports/refusals.py",
        "        self.perhaps_own = self.perhaps_own or earlier.perhaps_own\n", "",
        ("leases",),
    ),
    Defect(
        "a caller that was cancelled takes the turn later",
        "Operation by operation", "turns/lease.py",
        "            if not is_wanted():\n", "            if False:\n",
        ("cancelled-wait",),
    ),
    Defect(
        "a lost turn's fence is not compared",
        "Operation by operation", "model/sessions.py",
        "    return Settlement.LOST if is_lost and not has_landed else outcome\n", "    return outcome\n",
        _TURNS,
    ),
    Defect(
        "an append does not require that its handle has seen the turn",
        "Operation by operation", "sessions/recorder.py",
        "            hold.require(base)\n", "            pass\n",
        _TURNS,
    ),
    Defect(
        "a lease is taken although it runs",
        "Operation by operation", "turns/lease.py",
        "turn.is_held(stored.read_time) and turn.fence != by_force_from", "turn.is_held(stored.read_time + 15)",
        _TURNS,
    ),
    Defect(
        "a turn's number is not raised",
        "Operation by operation", "model/turns.py",
        "        return Turn(fence=self.fence + 1, holder=holder, until=until)\n",
        "        return Turn(fence=max(1, self.fence), holder=holder, until=until)\n",
        _TURNS,
    ),
    Defect(
        "a turn ends over messages that wait",
        "Operation by operation", "turns/lease.py",
        "            if only_if_empty and hold.inbox:\n                return None\n", "",
        ("turns", "turns-behind"),
    ),
    Defect(
        "a message leaves the inbox with the wrong event",
        "Operation by operation", "sessions/turn.py",
        "        if self._message is None or self._message[0] not in ids:\n            self._claimed = None\n", "        pass\n",
        ("turns", "turns-behind"),
    ),
    Defect(
        "a failure behind the caller is taken for reported",
        "Durability", "sessions/queues.py",
        "        failure = self._failures.get(id(session))\n        return failure.error() if",
        "        failure = self._failures.get(id(session))\n        if failure is not None:\n            failure.is_reported = True\n        return failure.error() if",
        ("turns-behind",),
    ),
    Defect(
        "the end of a turn does not wait for what is behind it",
        "Durability", "turns/service.py",
        "            await self._sessions.flush_session(app_name=key.app, user_id=key.user, session_id=key.session)\n",
        "",
        ("turns-behind",),
    ),
    Defect(
        "appends after one that failed go on through the same handle",
        "Durability", "sessions/queues.py",
        "        if (error := self.failure(session)) is not None:\n", "        if (error := None) is not None:\n",
        ("turns-behind",),
    ),
)  # fmt: skip
