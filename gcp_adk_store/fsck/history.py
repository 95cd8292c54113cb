"""Follow a session's events from the first to the last, and compare what they lead to with its document.

An event that a handle appended again, without having read it, counts in ``rev`` and in the chain, but the
tail holds it once. So ``rev`` may be ahead of the events, and a run of events may lead to another head than
its texts do. One such repeat is found by trial. More of them, or one in a long run, look like damage, and are
accepted as long as ``rev`` counts enough.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gcp_adk_store.codec.events import StoredEvent
from gcp_adk_store.codec.values import encode_value
from gcp_adk_store.fsck.faults import Fault
from gcp_adk_store.model.history import fold, genesis, step
from gcp_adk_store.model.payloads import PayloadRef
from gcp_adk_store.model.redactions import replaced_by
from gcp_adk_store.model.state import split_scopes
from gcp_adk_store.model.summaries import Turns, text_of, turns_of

_TRIED: Final = 100
"""The longest run in which a repeat is looked for: 170,000 hashes, about 0.1 s."""
_KEPT_CHARACTERS: Final = 1024
"""The JSON of a value up to this size is kept for a repair."""


@dataclass(frozen=True, slots=True)
class Run:
    """Events of one document: a segment, or the tail."""

    path: str
    """Path of the document."""
    texts: Sequence[str]
    events: Sequence[StoredEvent | None]
    """The same events decoded, with ``None`` for one that cannot be read."""
    begin: bytes | None
    """The head of the chain before them, ``None`` without a chain."""
    end: bytes | None
    code: str
    """The code of a fault in their chain."""
    references: Sequence[PayloadRef] = ()
    """The payloads that they refer to."""
    digests: Sequence[bytes] | None = None
    """The digests of the texts as they were appended, if they are known."""


@dataclass(slots=True)
class _Value:
    """The value that the events gave last to a key of the state."""

    digest: bytes
    encoded: Any = None
    """The value as it is stored, if it is small."""
    is_small: bool = False
    others: set[bytes] = field(default_factory=set)
    """Other values that it may have instead, because an event may have been appended again."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A key of the state that differs, perhaps, from what the events say."""

    key: str
    says: str
    encoded: Any = None
    """The right value, as it is stored."""
    is_known: bool = False
    """Whether *encoded* is."""
    ref: PayloadRef | None = None
    """The payload that the state refers to, whose value decides."""
    accepted: frozenset[bytes] = frozenset()
    """Digests of the values that are right."""


class History:
    """What the events so far lead to; events come in append order."""

    def __init__(self, *, epoch: str, chain_from: int) -> None:
        self.events = 0
        self.chained = 0
        """Events that the chain covers."""
        self.newest: float | None = None
        """Their newest timestamp."""
        self.last: float | None = None
        """The timestamp of the last one."""
        self.head = genesis(epoch, after=chain_from)
        """The head after the last run."""
        self.repeat_bytes: int | None = 0
        """Bytes of what was appended again in the last run; ``None`` if unknown."""
        self.state_is_known = True
        """Whether every event could be read."""
        self.turns = Turns()
        self.last_text = ""
        self.references: dict[PayloadRef, str] = {}
        """Payloads and the document that refers to each."""
        self._chain_from = chain_from
        self._times: set[float] = set()
        self._values: dict[str, _Value] = {}
        self._redacted: set[str] = set()
        """Keys of the state that a redacted event set last."""
        self._repeats = 0
        self._unexplained: list[tuple[Fault, int]] = []

    def add(self, run: Run) -> None:
        """Go on with the events of *run*."""
        is_exact = self._follow_chain(run)
        self._times = set()
        self.references.update(dict.fromkeys(run.references, run.path))
        for text, event in zip(run.texts, run.events, strict=False):
            if event is None:
                self.state_is_known = False
            else:
                self._take(event, may_repeat=not is_exact)
                if replaced_by(text) is not None:  # the values are gone, and may be those of the state
                    self._redacted |= split_scopes(event.event.actions.state_delta).session.keys()
        self.events += len(run.texts)

    def _take(self, event: StoredEvent, *, may_repeat: bool) -> None:
        self.last = event.timestamp
        self.newest = event.timestamp if self.newest is None else max(self.newest, event.timestamp)
        self.turns = self.turns.after(turns_of(event.event))
        self.last_text = text_of(event.event) or self.last_text
        if may_repeat:
            self._times.add(event.timestamp)
        for key, value in split_scopes(event.event.actions.state_delta).session.items():
            before = self._values.get(key)
            now = _Value(digest(value))
            text_size = len(value) if isinstance(value, str) else len(repr(value))
            if text_size <= _KEPT_CHARACTERS:
                now.encoded, now.is_small = encode_value(value, what="a state value"), True
            if may_repeat and before is not None:
                now.others = {*before.others, before.digest}
            self._values[key] = now
            self._redacted.discard(key)

    def _follow_chain(self, run: Run) -> bool:
        """Return whether the texts of *run* lead exactly from head to head."""
        self.repeat_bytes = 0
        if run.begin is None or run.end is None:
            self.repeat_bytes = None
            return False
        if run.begin != self.head:
            self._unexplained.append((self._broken(run, "begin", self.head, run.begin), self._never))
        first = self._first_chained(run.texts, run.begin, run.end)
        texts = run.texts if first is None else run.texts[first:]
        self.chained += len(texts)
        self.head = run.end
        if fold(run.begin, texts) == run.end:
            if first:
                self.repeat_bytes = None  # of the events before the chain
            return not first
        again = repeated(run.begin, texts, run.end)
        if again is not None:
            self._repeats += 1
            self.repeat_bytes = len(again.encode()) if not first else None
            return False
        self.repeat_bytes = None
        least = 1 if len(texts) > _TRIED else 2
        fault = self._broken(run, "end", fold(run.begin, texts), run.end)
        self._unexplained.append((fault, least if texts else self._never))
        return False

    _never: Final = 10**18

    def _first_chained(self, texts: Sequence[str], begin: bytes, end: bytes) -> int | None:
        """Return the number of the first of *texts* that the chain covers; ``None`` if it covers all."""
        if self.chained or not self._chain_from or self.events >= self._chain_from:
            return None
        likely = min(self._chain_from - self.events, len(texts))
        numbers: list[int] = [likely, *range(likely)]
        for number in numbers:  # fewer if some of them were appended again
            if fold(begin, texts[number:]) == end:
                return number
        return likely

    def _broken(self, run: Run, which: str, computed: bytes, found: bytes) -> Fault:
        says = f"the chain's {which} is {found.hex()[:16]}..., the events say {computed.hex()[:16]}..."
        return Fault(code=run.code, path=run.path, item=which, says=says)

    def ended(self, revision: int, *, restored: bool) -> tuple[list[Fault], int | None]:
        """Return the faults of the chain, and the value that ``rev`` must have, ``None`` if it may be right.

        A session that was *restored* counts appends that it does not hold any more.
        """
        before = self.events - self.chained
        claimed = revision - max(self._chain_from, before) - self.chained
        faults = []
        left = claimed - self._repeats
        for fault, least in self._unexplained:
            left -= least
            if left < 0:
                faults.append(fault)
        right = max(self._chain_from, before) + self.chained + self._repeats
        if restored:
            return faults, right if claimed < 0 else None
        is_explained = claimed == self._repeats or (bool(self._unexplained) and claimed >= 0)
        return faults, None if is_explained else right

    def may_have_repeats(self, revision: int) -> bool:
        """Return whether some of so many appends may have been of an event that was there already."""
        is_chained = self.chained == self.events and not self._chain_from
        return bool(self._repeats or self._unexplained) or (not is_chained and revision > self.events)

    def may_end_at(self, timestamp: float, *, with_repeats: bool) -> bool:
        """Return whether the last append can be that of an event with *timestamp*."""
        return timestamp == self.last or (with_repeats and timestamp in self._times)

    def differences(
        self, state: Mapping[str, Any], initial: Mapping[str, Any] | None, *, with_repeats: bool
    ) -> list[Difference]:
        """Return the keys of *state* that differ from *initial* with the events' changes.

        An unknown *initial* state, ``None``, says nothing of keys that no event changed.
        """
        if not self.state_is_known:
            return []
        found = []
        for key in {**dict.fromkeys(state), **dict.fromkeys(initial or ()), **dict.fromkeys(self._values)}:
            value = self._values.get(key)
            if key in self._redacted or (value is None and initial is None):
                continue
            if value is None:
                accepted = frozenset({digest(initial[key])} if initial and key in initial else ())
                says = "differs from the initial state, and no event changed it"
                right, is_known = None, False
            else:
                accepted = frozenset({value.digest} | (value.others if with_repeats else set()))
                says = "is not what the last event that changed it says"
                right, is_known = value.encoded, value.is_small and not (with_repeats and value.others)
            if key in state and digest(state[key]) in accepted:
                continue
            stored = state.get(key)
            ref = stored if isinstance(stored, PayloadRef) and accepted else None
            found.append(Difference(key, says, right, is_known, ref, accepted))
        return found


def digest(value: Any) -> bytes:
    """Return a hash of a state value, which equal values of equal types share; of a reference, its own."""
    if isinstance(value, PayloadRef):
        return hashlib.sha256(b"payload" + value.sha256.encode()).digest()
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()


def repeated(begin: bytes, texts: Sequence[str], end: bytes) -> str | None:
    """Return the text that was appended once more than *texts* hold it, so that they lead to *end*."""
    if len(texts) > _TRIED:
        return None
    head = begin
    for place, text in enumerate(texts):
        head = step(head, text)
        for again in dict.fromkeys(texts[: place + 1]):
            if fold(step(head, again), texts[place + 1 :]) == end:
                return again
    return None
