"""Draw the diagrams of the documents: ``python -m tools.website.diagrams`` writes them to docs/pictures."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tools.website.drawing import Drawing, Kind

FOLDER: Final = Path(__file__).parents[2] / "docs/pictures"


def architecture() -> Drawing:
    """Return who uses a store, its services, and where each of the two backends keeps what they store."""
    to = Drawing(
        880,
        476,
        title="Architecture",
        says="An ADK runner, ADK's servers, the command line and the inspector use one Store. Its services "
        "use ports, behind which are Firestore and Cloud Storage, or SQLite and files of one machine.",
    )
    for x, name, what in (
        (24, "Your code", "ADK Runner, tools"),
        (238, "ADK's servers", "adk web, api_server"),
        (452, "gcp-adk-store", "the command"),
        (666, "Inspector", "pages in a browser"),
    ):
        to.box(x, 24, 190, 58, name, what, kind="blue")
        to.arrow((x + 95, 82), (x + 95, 118))
    to.group(24, 118, 832, 128, "Store")
    for x, name, what in (
        (40, "sessions", "events, state"),
        (204, "artifacts", "files, versions"),
        (368, "memory", "search"),
        (532, "turns", "one at a time"),
        (696, "tasks", "A2A"),
    ):
        to.box(x, 152, 144, 74, name, what)
    to.arrow((440, 246), (440, 278))
    to.box(24, 278, 832, 42, "Ports: atomic documents, immutable objects", kind="amber")
    to.arrow((228, 320), (228, 356), label="")
    to.arrow((652, 320), (652, 356))
    to.group(24, 356, 408, 100, "Store.connect(project=..., bucket=...)")
    to.box(40, 388, 180, 56, "Firestore", "sessions, state", kind="green")
    to.box(236, 388, 180, 56, "Cloud Storage", "artifacts, payloads", kind="green")
    to.group(448, 356, 408, 100, "Store.local(folder)")
    to.box(464, 388, 180, 56, "SQLite", "sessions, state", kind="green")
    to.box(660, 388, 180, 56, "Files", "artifacts, payloads", kind="green")
    return to


def _lanes(to: Drawing, *lanes: tuple[int, str, Kind, int]) -> None:
    """Draw the lanes of a sequence: the place, the name and the colour of each, and where it ends."""
    for x, name, kind, bottom in lanes:
        to.box(x - 82, 24, 164, 40, name, kind=kind)
        to.line((x, 64), (x, bottom), dashed=True)


def append() -> Drawing:
    """Return one append as a sequence, and what happens if its answer is lost."""
    to = Drawing(
        880,
        470,
        title="An append",
        says="The runner appends an event. Large content goes first, as a payload. One commit then stores "
        "the event and its state delta if the session is as it was read. If the answer is lost, the store "
        "reads the session again: the event is there, or it is safe to send it again.",
    )
    runner, service, documents, bucket = 110, 312, 578, 770
    _lanes(
        to,
        (runner, "Runner", "blue", 440),
        (service, "sessions", "plain", 440),
        (documents, "Firestore", "green", 440),
        (bucket, "Cloud Storage", "green", 300),
    )
    to.arrow((runner, 104), (service, 104), label="append_event(session, event)")
    to.arrow((service, 150), (bucket, 150), label="only content over 64 KiB: put a payload by its SHA-256")
    to.arrow((service, 196), (documents, 196), label="Commit, if unchanged since the read")
    to.box(470, 208, 216, 64, "event + state delta", "all of it, or nothing", kind="amber")
    to.arrow((documents, 300), (service, 300), label="stored")
    to.arrow((service, 300), (runner, 300), label="event")
    to.group(24, 326, 832, 126, "If the answer is lost")
    to.arrow((service, 372), (documents, 372), label="BatchGet: is it there?")
    to.arrow((documents, 404), (service, 404), label="yes: done")
    to.arrow((documents, 436), (service, 436), label="no: Commit again")
    to.arrow((service, 420), (runner, 420), label="stored exactly once")
    return to


def modules() -> Drawing:
    """Return the modules that an append passes, in their order."""
    to = Drawing(
        880,
        560,
        title="The modules of an append",
        says="append_event passes checks, the queue of its session, the encoding of its event, a decision "
        "and the loop of a change, and comes to the port of documents, which two backends implement.",
    )
    steps: tuple[tuple[str, str, Kind, str], ...] = (
        ("sessions/service.py", "append_event", "blue", "speaks ADK's interface, and nothing else"),
        ("kernel/calls.py", "operation", "plain", "checks arguments; begins deadline, counts, telemetry"),
        ("sessions/append/run.py", "Appender", "plain", "one append leads those that share its commit"),
        ("sessions/append/queue.py", "Queues", "plain", "appends to one session go one after another"),
        ("codec/encode.py", "encode_event", "plain", "the event as JSON; what is large apart"),
        (
            "sessions/append/commit.py",
            "_decide",
            "amber",
            "what to write, or that it is stored",
        ),
        (
            "kernel/transact.py",
            "transact",
            "amber",
            "commits; if refused, reads and asks again",
        ),
        ("codec/documents.py", "Layout.append_writes", "plain", "the write of the session document"),
        ("kernel/ports.py", "Documents.commit", "green", "cloud/firestore/documents.py, local/documents.py"),
    )
    for number, (path, name, kind, what) in enumerate(steps):
        y = 24 + 58 * number
        to.box(24, y, 330, 44, path, name, kind=kind)
        to.text(376, y + 26, what)
        if number:
            to.arrow((189, y - 14), (189, y))
    return to


def segments() -> Drawing:
    """Return how a session's newest events lie in its document, and older ones in segments."""
    to = Drawing(
        880,
        372,
        title="Tail and segments",
        says="The session document holds the state and the newest events, the tail. When the tail exceeds "
        "64 KiB, a seal moves it into the next segment, which never changes.",
    )
    to.group(24, 24, 330, 230, "Session document")
    to.box(44, 58, 290, 42, "state, revision, title, labels")
    to.box(44, 112, 290, 122, "tail", "the newest events,", "up to 64 KiB", kind="blue")
    to.text(386, 142, "an append adds one event", style="label")
    to.arrow((540, 152), (338, 152))
    for number, x in enumerate((44, 246, 448)):
        to.box(x, 306, 186, 48, f"segment {number}", "compressed, fixed", kind="green")
    to.box(650, 306, 186, 48, "segment 3", "the next seal", kind="amber")
    to.arrow((334, 210), (743, 210), (743, 302), label="")
    to.text(386, 200, "a seal moves the tail into a new segment, in one commit", style="soft")
    to.text(44, 286, "oldest events", style="soft")
    to.text(378, 60, "A turn reads three documents: session, user, app.", style="title")
    to.text(378, 82, "A process reads each segment once, then keeps it.", style="soft")
    return to


def conflicts() -> Drawing:
    """Return two turns of one session at once, with the two settings of ``on_conflict``."""
    to = Drawing(
        880,
        424,
        title="Raise and merge",
        says="Two handles know revision 5. The first append makes revision 6. With raise, the second gets "
        "SessionConflictError, and nothing is written. With merge, it becomes revision 7.",
    )
    for left, name, outcome in ((24, 'on_conflict="raise"', "red"), (448, 'on_conflict="merge"', "green")):
        raises = outcome == "red"
        to.group(left, 24, 408, 376, name)
        a, session, b = left + 70, left + 204, left + 338
        to.box(a - 52, 56, 104, 40, "turn A", kind="blue")
        to.box(session - 56, 56, 112, 40, "session")
        to.box(b - 52, 56, 104, 40, "turn B", kind="blue")
        for x in (a, session, b):
            to.line((x, 96), (x, 352), dashed=True)
        to.arrow((session, 130), (a, 130), label="reads 5")
        to.arrow((session, 130), (b, 130), label="reads 5")
        to.arrow((a, 176), (session, 176), label="append")
        to.box(session - 62, 190, 124, 34, "revision 6", kind="green")
        to.arrow((b, 256), (session, 256), label="append")
        if raises:
            to.box(session - 62, 270, 124, 34, "still 6", kind="red")
            to.arrow((session, 336), (b, 336), label="error")
            to.text(
                left + 204, 384, "SessionConflictError: reload, decide again", style="soft", anchor="middle"
            )
        else:
            to.box(session - 62, 270, 124, 34, "revision 7", kind="green")
            to.arrow((session, 336), (b, 336), label="A's event")
            to.text(left + 204, 384, "both are stored; B learns A's event", style="soft", anchor="middle")
    return to


def turns() -> Drawing:
    """Return a lease, and a message that waits in the inbox of its session."""
    to = Drawing(
        880,
        440,
        title="A lease with an inbox",
        says="Process A holds the lease of the session and runs a turn. A message that reaches process B "
        "waits in the inbox. A answers it after its own turn, and then releases the lease.",
    )
    a, session, b = 140, 440, 740
    _lanes(
        to,
        (a, "Process A", "blue", 424),
        (session, "Session document", "green", 424),
        (b, "Process B", "blue", 262),
    )
    to.arrow((a, 104), (session, 104), label="begin: lease, fence 7")
    to.box(a - 70, 116, 140, 44, "runs turn 7", kind="amber")
    to.arrow((b, 150), (session, 150), label='run(..., on_busy="enqueue")')
    to.box(session - 92, 162, 184, 44, "inbox: 1 message", kind="amber")
    to.arrow((session, 232), (b, 232), label="it waits; B is done")
    to.arrow((a, 232), (session, 232), label="each append renews the lease")
    to.arrow((a, 278), (session, 278), label="end, if nothing waits: refused")
    to.arrow((session, 318), (a, 318), label="takes the message")
    to.box(a - 70, 330, 140, 44, "answers it", kind="amber")
    to.arrow((a, 404), (session, 404), label="end: nothing waits, lease free")
    to.text(560, 318, "If A is killed, its lease ends after 60 s.", style="soft")
    to.text(560, 338, "The next turn has fence 8 and answers first", style="soft")
    to.text(560, 358, "what waits. Appends of fence 7 are refused.", style="soft")
    return to


def cloud_run() -> Drawing:
    """Return what the Terraform example deploys."""
    to = Drawing(
        880,
        412,
        title="On Cloud Run",
        says="Callers with an identity token reach the service, whose service account can use one database "
        "and one bucket. Scheduled jobs collect garbage and prune old sessions. Metrics and logs go to Cloud "
        "Monitoring.",
    )
    to.box(24, 64, 150, 60, "Callers", "identity token", kind="blue")
    to.arrow((174, 94), (256, 94))
    to.group(206, 24, 650, 366, "Your project, made by terraform/examples/cloud_run")
    to.box(
        256, 58, 220, 72, "Cloud Run service", "ADK's server, your agents", "one always runs", kind="amber"
    )
    to.box(256, 172, 220, 56, "Service account", "no key, two roles")
    to.box(256, 270, 220, 56, "Cloud Run jobs", "gc weekly, prune nightly", kind="amber")
    to.line((366, 130), (366, 172))
    to.line((366, 228), (366, 270))
    to.box(604, 58, 232, 72, "Firestore", "indexes, TTL, backups,", "point-in-time recovery", kind="green")
    to.box(604, 164, 232, 72, "Cloud Storage", "artifacts, payloads,", "soft delete, lifecycle", kind="green")
    to.box(604, 270, 232, 72, "Cloud Monitoring", "dashboards, alerts, logs", kind="green")
    to.arrow((476, 94), (604, 94), label="datastore.user")
    to.arrow((476, 200), (604, 200), label="objectUser")
    to.arrow((476, 298), (604, 298), label="metrics, logs")
    to.text(256, 372, "One region for the service, the database and the bucket.", style="soft")
    return to


DIAGRAMS: Final[dict[str, Callable[[], Drawing]]] = {
    "architecture": architecture,
    "append": append,
    "append-modules": modules,
    "segments": segments,
    "conflicts": conflicts,
    "turns": turns,
    "cloud-run": cloud_run,
}
"""The diagrams, by the names of their files."""


def main() -> None:
    """Write all diagrams."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, draw in DIAGRAMS.items():
        (FOLDER / f"{name}.svg").write_text(draw().svg())


if __name__ == "__main__":
    main()
