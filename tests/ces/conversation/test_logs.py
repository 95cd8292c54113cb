"""What code prints, warns of and fails with is reported as it happens, and kept with the turn in bounds."""

from google.adk.events import Event

from gcp_adk_store.ces import ConversationTurn, RunLog, RuntimeSettings, SessionKey
from tests.ces.conversation.conftest import Converse

TALK = '''
def talk(times: int) -> dict:
    """Talk."""
    print("word " * times)
    ces_requests.get("https://api.example.com/words")
    raise ValueError("enough")
'''
QUIET = 'def quiet() -> dict:\n    """Say nothing."""\n    return {}\n'


def calling(name: str, **args: int) -> dict[str, list[dict[str, object]]]:
    """Return a reply of a model that calls a tool."""
    return {"calls": [{"name": name, "args": args}]}


async def test_each_run_reports_what_it_printed_warned_of_and_failed_with(converse: Converse) -> None:
    """A run that printed nothing does not. Logs of another form, which anybody may write, are left out."""
    app = converse.app(
        {"root": {"tools": ["talk", "quiet"], "callbacks": {"before_model": ["print('asked')"]}}},
        tools={"talk": TALK, "quiet": QUIET},
    )
    noted: list[RunLog] = []
    replies = [calling("quiet"), calling("talk", times=1), "Done."]
    turn = await converse(app, replies, note_run=lambda _, log: noted.append(log)).say("Go")

    assert [(each.agent, each.what) for each in noted] == [
        *[("root", "before_model")] * 2,
        ("root", "talk"),
        ("root", "before_model"),
    ]
    assert noted[2].printed == "word \n"
    assert "run with --allow-host api.example.com," in noted[2].warnings[0]
    assert noted[2].failure.endswith("ValueError: enough")
    assert noted[0].text == "root: before_model\n  asked"
    assert turn.logs == ()
    assert not any(event.custom_metadata for event in turn.events)

    log = {"what": "talk", "agent": "root", "printed": "word"}
    kept = [{**log, "warnings": None}, {**log, "agent": 3}, "talk", None, {**log, "more": 1}]
    events = [Event(author="root", custom_metadata={"ces_log": given}) for given in (kept, "none", None)]

    turn = ConversationTurn(events=tuple(events), agent="root", variables={}, ended=False)
    assert turn.logs == (RunLog(what="talk", agent="root", printed="word"),)


async def test_events_keep_as_much_of_the_logs_of_a_turn_as_the_setting_says(converse: Converse) -> None:
    """The traceback is cut last. An asynchronous tool's is with its response, and marked as late."""
    app = converse.app({"root": {"tools": ["talk"]}}, tools={"talk": TALK})
    settings = RuntimeSettings(stored_log_characters=2_000)
    conversation = converse(app, [calling("talk", times=5_000), "Done."], settings=settings)

    turn = await conversation.say("Go")

    (log,) = turn.logs
    assert log.size == 2_000
    assert log.failure.endswith("ValueError: enough")
    assert log.printed.startswith("word word")
    assert (
        sum("ces_log" in (event.custom_metadata or {}) for event in (await conversation.stored()).events) == 1
    )

    app = converse.app({"root": {"tools": ["talk"]}}, tools={"talk": TALK}, asynchronous=("talk",))
    noted: list[tuple[SessionKey, RunLog]] = []
    conversation = converse(
        app,
        [calling("talk", times=1), "Soon."],
        settings=RuntimeSettings(stored_log_characters=2_000),
        note_run=lambda key, log: noted.append((key, log)),
    )

    await conversation.say("Go")
    await conversation.close()

    (only,) = noted
    assert (only[0], only[1].what, only[1].late) == (conversation.key, "talk", True)
    kept = [event for event in (await conversation.stored()).events if event.custom_metadata]
    assert [event.author for event in kept] == ["user"]
    assert kept[0].get_function_responses()
