"""Compare what workers got as answers with what is stored, and name every difference."""

from collections.abc import Sequence

from tests.chaos.journal import Operation
from tests.chaos.memory_checks import check_memories
from tests.chaos.places import APP, PREFIXES, USER
from tests.chaos.raw_store import RawStore, memories, sessions, shared_state
from tests.chaos.session_checks import (
    appends,
    check_events,
    check_forks,
    check_lives,
    check_shared,
    check_state,
    check_titles,
)
from tests.chaos.turn_checks import check_turns
from tests.chaos.verdict import Verdict, Violation
from tests.chaos.version_checks import check_versions


def check(store: RawStore, operations: Sequence[Operation]) -> Verdict:
    """Check all that docs/proofs.md promises of what is stored."""
    found = {session.place: session for session in sessions(store)}
    misfits = [misfit for session in found.values() for misfit in session.misfits]
    shared = {
        (prefix, scope): shared_state(store, f"{prefix}_apps/{path}", misfits)
        for prefix in PREFIXES
        for scope, path in (("app", APP), ("user", f"{APP}/{prefix}_users/{USER}"))
    }
    remembered = [*memories(store, misfits)]
    sent = appends(operations)
    violations = [
        *misfits,
        *(
            Violation("unexpected error", f"{one.kind} {one.intent.get('place', '')}: {dict(one.result)}")
            for one in operations
            if one.outcome == "failed"
        ),
        *check_lives(found, operations),
        *(
            violation
            for session in found.values()
            if "origin" not in session.fields
            for violation in check_events(session, sent, operations)
        ),
        *check_forks(found, operations),
        *check_titles(found, operations),
        *(violation for session in found.values() for violation in check_state(session, operations)),
        *check_shared(found, shared, operations),
        *check_memories(remembered, operations),
        *check_turns(found, operations),
        *check_versions(store, operations),
    ]
    verdict = Verdict(violations=violations)
    verdict.stored.update(
        {
            "sessions": len(found),
            "restores": sum(session.fields.get("restores", 0) for session in found.values()),
            "forks": sum("origin" in session.fields for session in found.values()),
            "titles": sum("title" in session.fields for session in found.values()),
            "turns": sum(session.fields.get("turn", {}).get("fence", 0) for session in found.values()),
            "messages that wait": sum(len(session.fields.get("inbox", [])) for session in found.values()),
            "events": sum(len(session.events) for session in found.values()),
            "memories": len(remembered),
            "segments": sum(1 for prefix in PREFIXES for _ in store.below(f"{prefix}_segments")),
            "payloads in documents": sum(1 for prefix in PREFIXES for _ in store.below(f"{prefix}_chunks")),
            "payloads in the bucket": sum("-payloads/" in name for name in store.objects),
            "versions": sum("-payloads/" not in name for name in store.objects),
        }
    )
    return verdict
