"""Give ADK a history, and what a window leaves of it: nothing that ADK makes of them differs."""

import asyncio
import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from google.adk.agents import BaseAgent, LlmAgent
from google.adk.apps import compaction
from google.adk.apps.app import App, EventsCompactionConfig
from google.adk.apps.base_events_summarizer import BaseEventsSummarizer
from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.flows.llm_flows import contents
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

from gcp_adk_store.codec.decode import StoredEvent
from gcp_adk_store.model.appends import Marker
from gcp_adk_store.sessions.read.known import KnownWindow, KnownWindows
from gcp_adk_store.sessions.read.window import essential, window
from tests.support.lengths import at_length

pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")
AGENTS = ("root", "sales", "support")
BRANCHES = (None, None, None, "root.sales", "root.support", "root.pay@")
HAS_SCOPES = "isolation_scope" in Event.model_fields
RARE: tuple[str, ...] = ("long", "late", "confirmation", "crash", "task", "back")
if not hasattr(compaction, "_provably_dead_call_ids"):
    RARE = ("back",)  # ADK 2.8 summarizes nothing behind a call without an answer
KINDS = (*["text"] * 8, *["tools"] * 3, "late", *RARE)
SETUPS = {
    "windows": {"compaction_interval": 3, "overlap_size": 1},
    "wide overlap": {"compaction_interval": 2, "overlap_size": 8},
    "tokens": {
        "compaction_interval": 1000,
        "overlap_size": 0,
        "token_threshold": 120,
        "event_retention_size": 5,
    },
    "long windows": {"compaction_interval": 12, "overlap_size": 3},
    "both": {"compaction_interval": 5, "overlap_size": 2, "token_threshold": 400, "event_retention_size": 4},
}


View: TypeAlias = tuple[str, str | None, str | None]
"""An agent, its branch and its scope."""


class Summarizer(BaseEventsSummarizer):
    """Names the events that it is given."""

    async def maybe_summarize_events(self, *, events: list[Event]) -> Event:
        """Return their summary, which depends on their contents alone."""
        texts = [f"{event.author}:{(event.content or types.Content()).model_dump_json()}" for event in events]
        summary = types.Content(role="model", parts=[types.Part(text=f"{len(texts)}:{hash(tuple(texts)):x}")])
        return Event(
            author="user",
            invocation_id=Event.new_id(),
            actions=EventActions(
                compaction=EventCompaction(
                    start_timestamp=min(event.timestamp for event in events),
                    end_timestamp=max(event.timestamp for event in events),
                    compacted_content=summary,
                )
            ),
        )


class Talk:
    """A session that grows by random turns, whose clock is a number."""

    def __init__(self, seed: int, config: dict[str, int]) -> None:
        """Begin an empty one."""
        self.random = random.Random(seed)  # noqa: S311  # not for secrets
        self.events: list[Event] = []
        self.waiting: list[tuple[str, str, str]] = []
        self.turns: list[str] = []
        self.now = 1000.0
        self.author = "root"
        self.calls = self.count = 0
        self.resumes = self.rewinds = False
        self.windows = KnownWindows(1_000_000)
        self.sealed: KnownWindow | None = None
        agents: list[BaseAgent] = [
            LlmAgent(name="sales", model="none"),
            LlmAgent(name="support", model="none", disallow_transfer_to_parent=True),
        ]
        self.app = App(
            name="app",
            root_agent=LlmAgent(name="root", model="none", sub_agents=agents),
            events_compaction_config=EventsCompactionConfig(**config, summarizer=Summarizer()),
        )
        self.runner = Runner(app=self.app, session_service=InMemorySessionService())

    def say(self, author: str, invocation: str, *parts: types.Part, **fields: Any) -> Event:
        """Append an event."""
        self.now += self.random.choice((0.0, 0.5, 1.0))
        role = "user" if author == "user" else "model"
        event = Event(
            id=f"e{len(self.events)}",
            author=author,
            invocation_id=invocation,
            content=types.Content(role=role, parts=[*parts]) if parts else None,
            timestamp=self.now,
            **fields,
        )
        self.events.append(event)
        return event

    def call(
        self, author: str, invocation: str, *names: str, is_long: bool = False, **fields: Any
    ) -> list[str]:
        """Append calls of tools; return their ids."""
        ids = []
        for _ in names:
            self.calls += 1
            ids.append(f"call-{self.calls}")
        parts = [
            types.Part(function_call=types.FunctionCall(id=each, name=name, args={"at": each}))
            for each, name in zip(ids, names, strict=True)
        ]
        if is_long:
            fields["long_running_tool_ids"] = {*ids}
        self.say(author, invocation, *parts, **fields)
        return ids

    def answer(self, author: str, invocation: str, each: str, name: str, **fields: Any) -> None:
        """Append the response to one call."""
        response = types.FunctionResponse(id=each, name=name, response={"of": each, "at": self.now})
        self.say(author, invocation, types.Part(function_response=response), **fields)

    def turn(self) -> None:
        """Append one invocation of a random kind."""
        self.count += 1
        self.resumes = self.rewinds = False
        if self.random.random() < 0.08:
            self.author = self.random.choice(AGENTS)
        invocation, author = f"i{self.count}", self.author
        fields: dict[str, Any] = {"branch": self.random.choice(BRANCHES)}
        kind = self.random.choice(KINDS)
        if kind == "late" and self.waiting:
            invocation = self.answer_late(invocation)
        else:
            self.say("user", invocation, types.Part(text=f"question {len(self.events)}"))
        if invocation not in self.turns:
            self.turns.append(invocation)
        if kind == "back" and len(self.turns) > 2:
            self.rewind(invocation)
            return
        if kind != "text" and (does := getattr(self, f"use_{kind}", None)):
            does(author, invocation, fields)
        if kind == "crash":
            return
        if self.random.random() < 0.1:
            self.say(author, invocation, actions=EventActions(state_delta={"key": len(self.events)}))
        answer = types.Part(text=f"answer {len(self.events)}" * self.random.randrange(1, 9))
        self.say(author, invocation, answer, **fields)

    def answer_late(self, invocation: str) -> str:
        """Let the user answer a call that waits; return the invocation, which may be that of the call."""
        name, of, each = self.random.choice(self.waiting)
        if name != "wait" or self.random.random() < 0.7:
            self.waiting.remove((name, of, each))
        if self.random.random() < 0.3:
            invocation, self.resumes = of, True
        self.answer("user", invocation, each, name)
        return invocation

    def rewind(self, invocation: str) -> None:
        """Take back some of the newest invocations, or any number of them."""
        self.rewinds = True
        reach = self.random.choice((2, 3, len(self.turns)))
        before = self.random.choice(self.turns[-reach:])
        self.say("user", invocation, actions=EventActions(rewind_before_invocation_id=before))
        gone = {*self.turns[self.turns.index(before) :]}
        self.waiting = [each for each in self.waiting if each[1] not in gone]
        self.turns = [each for each in self.turns if each not in gone]

    def use_tools(self, author: str, invocation: str, fields: dict[str, Any]) -> None:
        """Call one tool or two, which answer."""
        names = ["look", "find"][: self.random.randrange(1, 3)]
        for each, name in zip(self.call(author, invocation, *names, **fields), names, strict=True):
            self.answer(author, invocation, each, name, **fields)

    def use_crash(self, author: str, invocation: str, fields: dict[str, Any]) -> None:
        """Call a tool that nothing answers."""
        self.call(author, invocation, "look", **fields)

    def use_long(self, author: str, invocation: str, fields: dict[str, Any]) -> None:
        """Call a tool that a user answers later."""
        (each,) = self.call(author, invocation, "wait", is_long=True, **fields)
        if self.random.random() < 0.7:
            self.answer(author, invocation, each, "wait", **fields)
        self.waiting.append(("wait", invocation, each))

    def use_confirmation(self, author: str, invocation: str, fields: dict[str, Any]) -> None:
        """Call a tool that a user has to confirm."""
        (of,) = self.call(author, invocation, "pay", **fields)
        name = "adk_request_confirmation"
        (each,) = self.call(author, invocation, name, is_long=True, **fields)
        asked = EventActions(requested_tool_confirmations={of: ToolConfirmation()})
        self.answer(author, invocation, of, "pay", actions=asked, **fields)
        self.waiting.append((name, invocation, each))

    def use_task(self, author: str, invocation: str, fields: dict[str, Any]) -> None:
        """Let another agent do a task, whose events the others do not see."""
        if HAS_SCOPES:
            (each,) = self.call(author, invocation, "delegate", **fields)
            for _ in range(self.random.randrange(4)):
                self.say("support", invocation, types.Part(text="within"), isolation_scope=each)
            if self.random.random() < 0.7:
                self.answer(author, invocation, each, "delegate", **fields)

    def read(self) -> list[Event]:
        """Return the events that a read returns, and remember them for the next one.

        One in four reads is the first of its process, which knows what the newest segment keeps.
        """
        marker = Marker(epoch="e", revision=len(self.events), update_time="", chain=b"")
        known = self.sealed if self.random.random() < 1 / 4 else self.windows.of(marker)
        events = self.events
        if known is not None:
            events = [*(events[int(each)] for each in known.texts), *events[known.marker.revision :]]
            if known.lacks_some(stored(events)):
                events = self.events
        kept = [events[place] for place in window(stored(events))]
        needed = {self.events[place].id for place in essential(stored(self.events))}
        assert needed <= {event.id for event in kept}
        self.windows.put(marker, [event.id[1:] for event in kept])
        if self.random.random() < 1 / 3:
            self.seal(marker, kept)
        return kept

    def seal(self, marker: Marker, kept: Sequence[Event]) -> None:
        """Keep what is before a tail that was read, in the segment that the tail becomes."""
        begin = self.random.randrange(max(0, len(self.events) - 30), len(self.events) + 1)
        numbers = [event.id[1:] for event in kept if int(event.id[1:]) < begin]
        self.sealed = KnownWindow(replace(marker, revision=begin), numbers, is_sealed=True)

    def views(self) -> list[View]:
        """Return some agents, with the branch and the scope that each is in."""
        live = [event for event in self.events if event.invocation_id in self.turns]
        scopes = ["", *sorted({event.isolation_scope or "" for event in live})] if HAS_SCOPES else [""]
        pick = self.random.choice
        return [(pick(AGENTS), pick(BRANCHES), pick(scopes) or None) for _ in range(8)]

    def session(self, events: Sequence[Event]) -> Session:
        """Return a session of *events*, which are the caller's own."""
        copies = [event.model_copy(deep=True) for event in events]
        return Session(id="s", app_name="app", user_id="u", events=copies)

    async def summary(self, events: Sequence[Event]) -> Event | None:
        """Return the summary that ADK makes after the turn."""
        session = self.session(events)
        found = [
            each
            async for each in compaction._run_compaction_for_sliding_window(self.app, session, Appended())
        ]
        return found[0] if found else session.events[-1] if len(session.events) > len(events) else None


class Appended(InMemorySessionService):
    """Takes what the compaction appends."""

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append *event* to *session*, and store nothing."""
        session.events.append(event)
        return event


def shown(event: Event | None) -> Any:
    """Return of a summary what does not name the moment and the random id of it."""
    return event and event.actions.compaction


def made(talk: Talk, events: Sequence[Event], views: Collection[View]) -> dict[str, Any]:
    """Return what ADK makes of *events* for each agent of *views*."""
    found: dict[str, Any] = {}
    session = talk.session(events)
    for agent, branch, scope in views:
        asked: dict[str, Any] = {"isolation_scope": scope} if HAS_SCOPES else {}
        # The current turn is never that of an old task, whose agent has ended.
        for name in ("_get_contents", *(["_get_current_turn_contents"] if scope is None else [])):
            try:
                outcome: Any = getattr(contents, name)(branch, session.events, agent, **asked)
            except ValueError as exc:
                outcome = f"{exc}"[:40]
            found[f"{name} of {agent} on {branch} in {scope}"] = outcome
    root = talk.app.root_agent
    assert isinstance(root, BaseAgent)
    found["agent"] = talk.runner._find_agent_to_run(session, root).name
    return found


def stored(events: Sequence[Event]) -> list[StoredEvent]:
    """Return *events* as a read has them."""
    return [StoredEvent(event=event, missing={}) for event in events]


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return what is not the same in both."""
    return [
        f"{name}\n  {one.get(name)}\n  {other.get(name)}"
        for name in one.keys() | other.keys()
        if one.get(name) != other.get(name)
    ]


@pytest.mark.sample(2)
@pytest.mark.parametrize("setup", SETUPS)
def test_adk_makes_the_same_of_a_window_as_of_all_events(setup: str) -> None:
    """Contents for each agent, branch and scope, the agent that goes on, and the next summary."""
    asyncio.run(compare(SETUPS[setup], range(at_length(1, 300))))


async def compare(config: dict[str, int], seeds: Sequence[int]) -> None:
    """Give ADK all events after each turn, and what was read before the turn with what it added."""
    left = 0
    for seed in seeds:
        talk = Talk(seed, config)
        for turn in range(talk.random.randrange(10, at_length(50, 80))):
            read = talk.read()
            count = len(talk.events)
            left = max(left, count - len(read))
            talk.turn()
            if talk.rewinds:  # which finds its invocation in a full history alone
                read = talk.events[:count]
            known = [*read, *talk.events[count:]]
            where = f"seed {seed}, turn {turn}, {len(known)} of {len(talk.events)} events"
            summary = await talk.summary(talk.events)
            goes_on = talk.events[-1].invocation_id
            mine = [event.id for event in talk.events if event.invocation_id == goes_on]
            assert mine == [event.id for event in known if event.invocation_id == goes_on], where
            if not talk.resumes:
                assert shown(summary) == shown(await talk.summary(known)), where
            if turn % 3 == 0:
                views = talk.views()
                assert [] == differences(made(talk, talk.events, views), made(talk, known, views)), where
            if summary is not None:
                talk.now += 1
                summary.id, summary.timestamp = f"e{len(talk.events)}", talk.now
                talk.events.append(summary)
    assert left > 30


def said(number: int, **fields: Any) -> Event:
    """Return an event of an invocation of its own, at the second of its number."""
    given: dict[str, Any] = {"author": "root", "invocation_id": f"i{number}", "timestamp": number, **fields}
    return Event(id=f"e{number}", content=types.Content(role="model", parts=[types.Part(text="x")]), **given)


def summarized(number: int, start: float, end: float) -> Event:
    """Return a summary of the events from *start* to *end*."""
    made = EventCompaction(start_timestamp=start, end_timestamp=end, compacted_content=types.Content())
    return Event(
        author="user", invocation_id=f"s{number}", timestamp=number, actions=EventActions(compaction=made)
    )


COUNTED = types.GenerateContentResponseUsageMetadata(prompt_token_count=5000)


def left_of(events: Sequence[Event]) -> list[int]:
    """Return the places that the window leaves out."""
    return sorted({*range(len(events))} - {*window(stored(events))})


def test_a_window_leaves_out_what_summaries_cover_up_to_eight_invocations_before_their_end() -> None:
    """The second summary contains the first."""
    events = [said(number) for number in range(40)]
    events += [summarized(40, 0, 19), summarized(41, 0, 39), *(said(number) for number in range(42, 45))]

    assert [*range(32)] == left_of(events)


def test_the_newest_of_two_summaries_side_by_side_keeps_its_events() -> None:
    """The next one may overlap it by any number of invocations."""
    events = [said(number) for number in range(40)]
    events += [summarized(40, 0, 19), summarized(41, 18, 39), *(said(number) for number in range(42, 45))]

    assert [*range(18)] == left_of(events)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"timestamp": 99.0}, "no summary covers it"),
        ({"author": "sales"}, "the newest of its author"),
        ({"branch": "root.sales"}, "the newest on its branch"),
        ({"actions": EventActions(artifact_delta={"file": 1})}, "a rewind counts its version"),
        ({"error_code": "INVOCATION_ABORTED"}, "it ended its invocation"),
        ({"usage_metadata": COUNTED}, "its tokens decide what is cached"),
        ({"long_running_tool_ids": {"call"}}, "its call may be answered"),
        ({"invocation_id": "i36"}, "its invocation goes on"),
    ],
)
def test_an_old_event_that_adk_still_asks_for_is_kept(fields: dict[str, Any], why: str) -> None:
    """One of 32 that summaries cover."""
    events = [said(number) for number in range(40)]
    events[5] = said(5, **fields)
    events += [summarized(40, 0, 19), summarized(41, 0, 39), said(42)]

    assert 5 not in left_of(events), why


def asks(number: int, *, pay: str, **fields: Any) -> list[Event]:
    """Return the events of an invocation whose tool, in the call *pay*, asks for a confirmation."""
    call = types.FunctionCall(id=pay, name="pay", args={})
    args = {"originalFunctionCall": {"id": pay, "name": "pay", "args": {}}}
    asked = types.FunctionCall(id=f"ask-{pay}", name="adk_request_confirmation", args=args)
    parts = [types.Part(function_call=call), types.Part(function_call=asked)]
    event = said(number, **fields)
    event.content = types.Content(role="model", parts=parts)
    return [event, answers(number, pay, "pay", "root", **fields)]


def answers(number: int, name: str, tool: str, author: str, **fields: Any) -> Event:
    """Return a response to the call *name* of *tool*."""
    response = types.FunctionResponse(id=name, name=tool, response={"confirmed": True})
    event = said(number, **{"author": author, **fields})
    event.content = types.Content(role="user", parts=[types.Part(function_response=response)])
    return event


def rewound(number: int, before: int) -> Event:
    """Return a rewind to the point before an invocation."""
    actions = EventActions(rewind_before_invocation_id=f"i{before}")
    return Event(author="user", invocation_id=f"i{number}", timestamp=number, actions=actions)


@pytest.mark.parametrize("taken_back", ["question", "answer", "both"])
def test_what_a_rewind_took_back_of_a_confirmation_is_kept_while_it_can_be_answered(taken_back: str) -> None:
    """ADK looks for it among all events: without the question no tool runs, without the answer one twice."""
    question = asks(0, pay="call")
    answer = [answers(1, "ask-call", "adk_request_confirmation", "user"), answers(1, "call", "pay", "root")]
    began = [*question, *(answer if taken_back != "question" else ())]
    events = [*began, rewound(2, 1 if taken_back == "answer" else 0)]
    events += [said(number) for number in range(3, 43)]
    events += [summarized(43, 0, 22), summarized(44, 0, 42), said(45)]
    places = {*range(len(began) + 1)}

    assert (places if taken_back == "both" else set()) == places & {*left_of(events)}
    assert len(began) + 2 in left_of(events)


@pytest.mark.parametrize("carried", [{"usage_metadata": COUNTED}, {"interaction_id": "v1_x"}])
def test_what_a_model_said_of_its_request_is_kept_also_if_a_rewind_took_it_back(
    carried: dict[str, Any],
) -> None:
    """ADK looks for it among all events, until a later one of the agent says it anew."""
    begun = [said(0), said(1, **carried), said(2), rewound(3, 1)]
    events = [*begun, *(said(number) for number in range(4, 44))]
    events += [summarized(44, 0, 23), summarized(45, 0, 43), said(46)]

    assert [0, *range(4, 36)] == left_of(events)
    events[10] = said(10, **carried)
    assert [*range(10), *range(11, 36)] == left_of(events)


def test_a_rewind_brings_back_what_it_may_reach() -> None:
    """A history with a newer rewind is read again, as is one of which an old invocation goes on."""
    events = [said(number) for number in range(40)]
    events += [summarized(40, 0, 19), summarized(41, 0, 39), said(42)]
    known = KnownWindow(Marker(epoch="e", revision=43, update_time="", chain=b""), ["x"] * (43 - 33))
    read = [events[place] for place in window(stored(events))]
    back = Event(author="user", invocation_id="i43", actions=EventActions(rewind_before_invocation_id="i42"))

    assert not known.lacks_some(stored([*read, said(43)]))
    assert not known.lacks_some(stored([*read, said(43, invocation_id="i42")]))
    assert known.lacks_some(stored([*read, back]))
    assert known.lacks_some(stored([*read, said(43, invocation_id="i35")]))


def test_an_invocation_that_goes_on_behind_others_brings_back_what_a_segment_left_out() -> None:
    """The window that a segment keeps was made when the session had some of the events behind it."""
    events = [said(number) for number in range(10)]
    later = [said(10), said(11), said(12, invocation_id="i10")]
    known = KnownWindow(Marker(epoch="e", revision=10, update_time="", chain=b""), ["x"] * 8)

    assert not known.lacks_some(stored([*events[2:], *later]))
    assert replace(known, is_sealed=True).lacks_some(stored([*events[2:], *later]))
    assert not replace(known, is_sealed=True).lacks_some(stored([*events[2:], *later[:2]]))
