"""Show what ``gcp-adk-store sessions`` prints, writes, deletes and refuses."""

import json
import re
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from google.adk.events import Event, EventActions
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store import SessionInfo
from tests.cli.conftest import HOSTILE, STEERING, Deployment, done, follow

KEY: dict[str, Any] = {"app_name": HOSTILE, "user_id": f"{HOSTILE}u", "session_id": f"{HOSTILE}s"}
NAMED = ("--app", KEY["app_name"], "--user", KEY["user_id"], "--session", KEY["session_id"])
PLAIN: dict[str, Any] = {"app_name": "app", "user_id": "ada", "session_id": "s1"}
OF_PLAIN = ("--app", "app", "--user", "ada", "--session", "s1")


def said(text: str, **changes: Any) -> Event:
    """Return an event with a text."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", content=content, actions=EventActions(**changes))


async def talk(
    deployment: Deployment, key: dict[str, Any], *events: Event, state: dict[str, Any] | None = None
) -> Session:
    """Make a session with *events*, and return it as it is stored."""
    async with deployment.store() as store:
        session = await store.sessions.create_session(**key, state=state or {})
        for event in events:
            await store.sessions.append_event(session, event)
        found = await store.sessions.get_session(**key)
        assert found is not None
        return found


async def make(deployment: Deployment, app: str, ids: list[str], user: str = "ada") -> None:
    """Make sessions."""
    async with deployment.store() as store:
        for session_id in ids:
            await store.sessions.create_session(app_name=app, user_id=user, session_id=session_id)


def test_a_listing_goes_on_with_the_command_that_it_prints(deployment: Deployment) -> None:
    """Page by page, until one says nothing of a next page; each session is there once."""
    done(make(deployment, "app", [f"s{number}" for number in range(5)]))
    result = deployment.run("sessions", "list", "--app", "app", "--page-size", "2")
    pages = [result.stdout]
    while "next page: " in result.stdout:
        line = result.stdout.rpartition("next page: ")[2].strip()
        assert line.startswith(f"gcp-adk-store sessions list {shlex.join(deployment.options)} --app app")
        result = deployment.run(*follow(line))
        pages.append(result.stdout)
    listed = [
        line.split()[:2] for page in pages for line in page.splitlines() if line.strip().startswith("ada")
    ]

    assert 0 == result.exit_code, result.output
    assert 3 == len(pages)
    assert [["ada", f"s{number}"] for number in (4, 3, 2, 1, 0)] == listed
    assert f"project {deployment.project}, database (default)" in pages[0]


def test_a_listing_for_programs_has_the_cursor(deployment: Deployment) -> None:
    """And the oldest first where that is asked for; of one user alone where one is named."""
    done(make(deployment, "app", ["s1", "s2"]))
    done(make(deployment, "app", ["s3"], user="bob"))
    arguments = ("sessions", "list", "--app", "app", "--user", "ada", "--order", "oldest", "--page-size", "1")
    first = json.loads(deployment.run(*arguments, "--json").stdout)
    second = json.loads(deployment.run(*arguments, "--json", "--cursor", first["next_cursor"]).stdout)
    third = json.loads(deployment.run(*arguments, "--json", "--cursor", second["next_cursor"]).stdout)

    assert [["s1"], ["s2"], []] == [
        [each["session_id"] for each in page["sessions"]] for page in (first, second, third)
    ]
    assert third["next_cursor"] is None
    assert deployment.project == first["project"]
    assert {each.name for each in fields(SessionInfo)} == set(first["sessions"][0])


def test_a_listing_shows_and_filters_titles_labels_and_turns(deployment: Deployment) -> None:
    """Of several labels, sessions have all; the next page's command keeps the filter."""

    async def describe() -> None:
        async with deployment.store() as store:
            for number in range(3):
                key: dict[str, Any] = {"app_name": "app", "user_id": "ada", "session_id": f"s{number}"}
                session = await store.sessions.create_session(**key)
                event = said("hello")
                event.invocation_id, event.timestamp = "t1", 1790000000.0 + number
                await store.sessions.append_event(session, event)
                labels = {"team": "a b", "even": str(number % 2 == 0)}
                await store.sessions.update_session_info(**key, title=f"Trip \u202e{number}", labels=labels)

    done(describe())
    filters = ("--label", "even=True", "--label", "team=a b", "--updated-after", "2026-09-21 14:13:19")
    arguments = ("sessions", "list", "--app", "app", *filters, "--page-size", "1", "--order", "oldest")
    result = deployment.run(*arguments)
    second = deployment.run(*follow(result.stdout.rpartition("next page: ")[2].strip()))
    found = json.loads(deployment.run(*arguments[:-4], "--json").stdout)["sessions"]

    assert r"s0       Trip \u202e0  even=True, team=a b  1" in result.stdout
    assert r"s2       Trip \u202e2" in second.stdout
    assert [("s2", "hello", 1), ("s0", "hello", 1)] == [
        (each["session_id"], each["last_text"], each["events"]) for each in found
    ]
    for labels, says in (
        (("--label", "team"), "--label team has no value: pass NAME=VALUE"),
        (("--label", "team=a", "--label", "team=b"), "--label team has two values: pass one"),
        (("--updated-after", "22.11."), "'22.11.' is not a time: write 2026-11-22 or 2026-11-22T15:00:00Z"),
    ):
        refused = deployment.run("sessions", "list", "--app", "app", *labels)
        assert (2, True) == (refused.exit_code, says in refused.stderr)


def test_hostile_ids_are_shown_in_one_row_and_steer_nothing(deployment: Deployment) -> None:
    """Escaped as Python does it; the next page's command names the same app again."""
    done(make(deployment, HOSTILE, [f"{HOSTILE}{number}" for number in range(2)], user=HOSTILE))
    result = deployment.run("sessions", "list", "--app", HOSTILE, "--page-size", "1")
    rows = [line for line in result.stdout.splitlines() if line.lstrip().startswith("a/b")]
    following = follow(result.stdout.rpartition("next page: ")[2].strip())

    assert 0 == result.exit_code, result.output
    assert [] == [each for each in STEERING if each in result.output]
    assert 1 == len(rows)
    assert rf"a/b'\n\t\x1b[31m[red]\u202e\u200b\ {chr(0xE4)}$(x)1" in rows[0]
    assert HOSTILE in following
    assert 0 == deployment.run(*following).exit_code


def test_a_session_is_shown_with_its_state_and_events(deployment: Deployment) -> None:
    """What is said, called, answered, attached and changed, on lines below the event with its id."""
    call = types.Part.from_function_call(name="weather", args={"city": "Paris"})
    answer = types.Part.from_function_response(name="weather", response={"sky": "blue"})
    picture = types.Part.from_bytes(data=b"\x89PNG", mime_type="image/png")
    session = done(
        talk(
            deployment,
            PLAIN,
            said("hello", state_delta={"user:name": "Ada"}, artifact_delta={"notes.txt": 3}),
            Event(author="agent", content=types.Content(role="model", parts=[call])),
            Event(author="agent", content=types.Content(role="user", parts=[answer, picture])),
            Event(author="agent", error_code="429", error_message="too many"),
            Event(author="agent", actions=EventActions(transfer_to_agent="other")),
            state={"lang": "fr"},
        )
    )
    result = deployment.run("sessions", "show", *OF_PLAIN)
    lines = [line.strip() for line in result.stdout.splitlines()]

    assert 0 == result.exit_code, result.output
    assert "app app, user ada, session s1, last update 20" in result.stdout
    assert [event.id for event in session.events] == [
        line.rpartition(", id ")[2] for line in lines if line.startswith("20")
    ]
    assert {
        'lang = "fr"',
        'user:name = "Ada"',
        "hello",
        'state: user:name = "Ada"',
        "artifact: notes.txt version 3",
        'calls weather {"city": "Paris"}',
        'weather answers {"sky": "blue"}',
        "data: image/png, 4 bytes",
        "error 429: too many",
        "and transfer_to_agent: --json shows all",
    } <= set(lines)


def test_hostile_content_is_shown_and_steers_nothing(deployment: Deployment) -> None:
    """In texts, names, state and calls: no line of content begins where the line of an event does."""
    call = types.Part.from_function_call(name=HOSTILE, args={HOSTILE: HOSTILE})
    forged = f"{HOSTILE}\n2026-01-01 00:00:00Z agent\r\x1b]0;title\x07[bold]"
    done(
        talk(
            deployment,
            KEY,
            said(forged, state_delta={HOSTILE: HOSTILE}),
            Event(author=HOSTILE, content=types.Content(role="model", parts=[call])),
            Event(author="agent", error_code=HOSTILE, error_message=HOSTILE),
        )
    )
    result = deployment.run("sessions", "show", *NAMED)
    begun = [line for line in result.stdout.splitlines() if line.startswith("  20")]

    assert 0 == result.exit_code, result.output
    assert [] == [each for each in ("\x1b", "\u202e", "\r", "\x07") if each in result.output]
    assert r"\x1b]0;title\x07[bold]" in result.stdout
    assert 3 == len(begun)
    assert "[red]" in begun[1]


def test_a_long_text_is_cut_and_says_so(deployment: Deployment) -> None:
    """JSON has all of it."""
    done(talk(deployment, PLAIN, said("x" * 5_000), state={"long": "y" * 5_000}))
    shown = deployment.run("sessions", "show", *OF_PLAIN).stdout
    whole = json.loads(deployment.run("sessions", "show", *OF_PLAIN, "--json").stdout)

    assert "x" * 2_000 + "... and 3,000 characters more: --json shows all" in shown
    assert "x" * 2_001 not in shown
    assert "y" * 2_001 not in shown
    assert ["x" * 5_000, "y" * 5_000] == [
        whole["events"][0]["content"]["parts"][0]["text"],
        whole["state"]["long"],
    ]


def test_events_are_shown_in_parts(deployment: Deployment) -> None:
    """The command that is printed goes on with the next event; JSON has its cursor."""
    done(talk(deployment, PLAIN, *(said(f"event {number}") for number in range(5))))
    result = deployment.run("sessions", "show", *OF_PLAIN, "--limit", "2")
    shown = [result.stdout]
    while "more events: " in result.stdout:
        result = deployment.run(*follow(result.stdout.rpartition("more events: ")[2].strip()))
        shown.append(result.stdout)
    answer = json.loads(deployment.run("sessions", "show", *OF_PLAIN, "--limit", "5", "--json").stdout)

    assert [2, 2, 1] == [part.count("event ") for part in shown]
    assert "event 4" in shown[2]
    assert answer["next_cursor"] is None
    assert "null" not in [each["content"]["parts"][0]["text"] for each in answer["events"]]


def used(prompt: int, output: int, *parts: types.Part, **fields: Any) -> Event:
    """Return an agent's event that reports tokens."""
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=prompt,
        candidates_token_count=output,
        cached_content_token_count=prompt // 2,
        thoughts_token_count=7,
        total_token_count=prompt + output + 7,
    )
    content = types.Content(role="model", parts=[*parts, types.Part(text="x")])
    return Event(author="agent", content=content, usage_metadata=usage, **fields)


def test_the_usage_of_a_session_is_shown_by_turn_and_by_model(deployment: Deployment) -> None:
    """With the totals; JSON has the same numbers."""
    call = types.Part.from_function_call(name="look", args={})
    done(
        talk(
            deployment,
            PLAIN,
            Event(author="user", timestamp=1.0),
            used(1000, 20, call, call, invocation_id="t1", timestamp=100.0, model_version="large"),
            used(1100, 30, invocation_id="t1", timestamp=102.5, model_version="small"),
            used(4000, 40, invocation_id="t2", timestamp=1790000000.0),
        )
    )
    result = deployment.run("sessions", "usage", *OF_PLAIN)
    answer = json.loads(deployment.run("sessions", "usage", *OF_PLAIN, "--json").stdout)
    rows = [re.split(r"  +", line.strip()) for line in result.stdout.splitlines()]

    assert 0 == result.exit_code, result.output
    assert ["turns: 3, events: 4, seconds: 1,789,999,999.0"] in rows
    assert ["without a turn", "1970-01-01 00:00:01Z", "0.0", "1", *["0"] * 6] in rows
    assert [
        *("t1", "1970-01-01 00:01:40Z", "2.5", "2"),
        *("2,100", "1,050", "0", "50", "14", "2,164", "look 2"),
    ] in rows
    assert ["large", "1", "1,000", "500", "0", "20", "7", "1,027"] in rows
    assert ["unknown", "1", "4,000", "2,000", "0", "40", "7", "4,047"] in rows
    assert ["total", "3", "6,100", "3,050", "0", "90", "21", "6,211"] == rows[-1]
    assert (6211, 4, {"look": 2}) == (
        answer["tokens"]["total_tokens"],
        answer["events"],
        answer["tool_calls"],
    )
    assert [("", 0.0), ("t1", 2.5), ("t2", 0.0)] == [
        (turn["invocation_id"], turn["duration_s"]) for turn in answer["turns"]
    ]
    assert ["large", "small", None] == [model["model"] for model in answer["models"]]
    assert PLAIN == {name: answer[name] for name in PLAIN}


def test_names_in_the_usage_steer_nothing(deployment: Deployment) -> None:
    """Of turns, models and tools; a row stays a row. A session without events has used nothing."""
    call = types.Part.from_function_call(name=HOSTILE, args={})
    done(talk(deployment, KEY, used(1, 2, call, invocation_id=HOSTILE, model_version=HOSTILE)))
    done(talk(deployment, PLAIN))
    result = deployment.run("sessions", "usage", *NAMED)
    empty = deployment.run("sessions", "usage", *OF_PLAIN)
    lines = result.stdout.splitlines()

    assert [0, 0] == [result.exit_code, empty.exit_code]
    assert [] == [each for each in STEERING if each in result.output]
    assert 2 + 2 + 3 == len(lines)
    assert 3 == result.stdout.count("[red]")
    assert ["total", *["0"] * 7] == empty.stdout.splitlines()[-1].split()


def test_a_session_that_is_not_there_ends_it_with_1(deployment: Deployment) -> None:
    """And with the command that lists those there are."""
    for name, *more in (("show",), ("usage",), ("export", "-"), ("delete", "--dry-run"), ("delete", "--yes")):
        result = deployment.run("sessions", name, *NAMED, *more)
        helps = follow(result.stderr.strip().rpartition("list the sessions: ")[2])

        assert (1, "") == (result.exit_code, result.stdout), name
        assert ["sessions", "list", *deployment.options, *NAMED[:4]] == helps
        assert [] == [each for each in STEERING if each in result.output]
        assert 1 == result.output.count("\n")
    assert 0 == deployment.run(*helps).exit_code


def test_an_export_has_every_event_exactly(deployment: Deployment, tmp_path: Path) -> None:
    """Bytes, numbers of any size, any character; the last line says how many there are."""
    picture = types.Part.from_bytes(data=bytes(range(256)) * 400, mime_type="image/png")
    odd = {"big": 2**70, "none": None, "list": [[1.5, {"x": None}]], "text": f"{HOSTILE}\x7f\U0001f600"}
    stored = done(
        talk(
            deployment,
            KEY,
            *(said(f"event {number}", state_delta={f"n{number}": number}) for number in range(30)),
            said(HOSTILE, state_delta=odd),
            Event(author="agent", content=types.Content(role="model", parts=[picture])),
        )
    )
    file = tmp_path / "session.jsonl"
    result = deployment.run("sessions", "export", *NAMED, str(file))
    first, *events, last = [json.loads(line) for line in file.read_text().splitlines()]
    read = [Event.model_validate(line["event"]) for line in events]

    assert 0 == result.exit_code, result.output
    assert stored.events == read
    assert stored.state == first["session"]["state"]
    assert (1, stored.last_update_time) == (first["session"]["format"], first["session"]["last_update_time"])
    assert KEY == {name: first["session"][name] for name in KEY}
    assert 32 == last["end"]["events"]
    assert "events: 32, written to" in result.stderr
    assert [file.name] == [each.name for each in tmp_path.iterdir()]


def test_a_deletion_is_said_before_it_is_done(deployment: Deployment) -> None:
    """A dry run names the session and deletes nothing; --yes deletes it, with its artifacts unless kept."""
    done(talk(deployment, PLAIN, said("hello")))

    async def save() -> None:
        async with deployment.store() as store:
            await store.artifacts.save_artifact(**PLAIN, filename="f", artifact=types.Part(text="mine"))

    done(save())
    dry = deployment.run("sessions", "delete", *OF_PLAIN, "--dry-run")
    still = deployment.run("sessions", "show", *OF_PLAIN)
    real = deployment.run("sessions", "delete", *OF_PLAIN, "--yes", "--keep-artifacts")
    after = deployment.run("sessions", "show", *OF_PLAIN)
    listed = deployment.run(
        *follow(real.stdout.rpartition("artifacts that stay: 1; delete them: ")[2].strip())
    )

    done(talk(deployment, PLAIN, said("again")))
    with_it = deployment.run("sessions", "delete", *OF_PLAIN, "--yes")
    left = deployment.run("artifacts", "list", *OF_PLAIN, "--json")

    assert [0, 0, 0, 1, 0] == [each.exit_code for each in (dry, still, real, after, with_it)]
    assert "would delete session s1, last update 20" in dry.stdout
    assert "would delete its artifacts: 1" in dry.stdout
    assert "deleted session s1, last update 20" in real.stdout
    assert listed.stdout.endswith("would delete f\n")
    assert "deleted its artifacts: 1" in with_it.stdout
    assert [] == json.loads(left.stdout)["versions"]


@pytest.mark.parametrize("name", ["large", "user:large"])
def test_a_session_whose_state_lost_a_part_is_deleted(deployment: Deployment, name: str) -> None:
    """It cannot be shown, but a deletion needs no state."""

    async def lose() -> None:
        async with deployment.store() as store:
            await store.sessions.create_session(**PLAIN, state={name: "x" * 700_000})
            payloads = store.sessions.storage.payloads
            for each in [found async for some in payloads.scan() for found in some]:
                await payloads.at(each.place).remove([each])  # type: ignore[union-attr]  # it is in the bucket

    done(lose())
    shown = deployment.run("sessions", "show", *OF_PLAIN)
    deleted = deployment.run("sessions", "delete", *OF_PLAIN, "--yes")
    after = deployment.run("sessions", "delete", *OF_PLAIN, "--yes")

    assert [2, 0, 1] == [each.exit_code for each in (shown, deleted, after)], deleted.output
    assert "deleted session s1, last update 20" in deleted.stdout


def test_a_deletion_without_a_decision_is_refused(deployment: Deployment) -> None:
    """By an error that ends with the dry run; nothing is deleted."""
    done(talk(deployment, PLAIN, said("hello")))
    decisions: tuple[tuple[str, ...], ...] = ((), ("--dry-run", "--yes"))
    for decision in decisions:
        result = deployment.run("sessions", "delete", *OF_PLAIN, *decision)
        dry = deployment.run(*follow(result.stderr.strip().rpartition(": ")[2]))

        assert (2, "") == (result.exit_code, result.stdout), decision
        assert "nothing was changed" in result.stderr
        assert "would delete session s1" in dry.stdout
    assert 0 == deployment.run("sessions", "show", *OF_PLAIN).exit_code


def test_bad_input_is_refused(deployment: Deployment) -> None:
    """With 2, by an error that names the option's value and leads to its help."""
    done(talk(deployment, PLAIN, said("hello")))
    for name, given, says in (
        ("list", ("--app", "app", "--cursor", "no"), "cursor"),
        ("list", ("--app", "app", "--page-size", "0"), "0 is not in the range"),
        ("show", (*OF_PLAIN, "--cursor", "no"), "cursor"),
        ("show", (*OF_PLAIN, "--limit", "x"), "not a valid integer"),
        ("list", ("--app", "\udcff"), "surrogate"),
        ("list", (), "Missing option '--app'"),
    ):
        result = deployment.run("sessions", name, *given)

        assert (2, "") == (result.exit_code, result.stdout), given
        assert says in result.stderr
        assert f"sessions {name} -" in result.stderr
        assert "Traceback" not in result.stderr
