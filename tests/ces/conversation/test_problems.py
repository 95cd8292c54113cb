"""An app that lacks something does not run, unless the caller allows that."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gcp_adk_store import InvalidInputError
from gcp_adk_store.ces import AppAgent, read_app
from gcp_adk_store.cli.command import command
from tests.ces.conversation.apps import change, write_app, write_files
from tests.ces.conversation.conftest import Converse

WORDS = "guardrails/words/before_agent.py"


def sound(folder: Path) -> Path:
    """Return the folder of an app with a callback and a guardrail, and without problems."""
    write_app(folder, {"root": {"callbacks": {"before_agent": ["return None"]}}, "other": {}})
    code = (
        "def before_agent_guardrail_callback(callback_context):\n"
        "    return create_guardrail_result(decision='OK')\n"
    )
    declared = {"codeCallback": {"beforeAgentCallback": {"pythonCode": WORDS}}}
    write_files(folder, {WORDS: code, "guardrails/words/words.json": declared})
    change(folder / "app.json", guardrails=["words"])
    assert not read_app(folder).problems
    return folder


APP, ROOT_AGENT, GUARDRAIL = "app.json", "agents/root/root.json", "guardrails/words/words.json"


def rules(**changed: Any) -> dict[str, Any]:
    """Return a transfer rule with changes as the root has it; a value of None takes a member out."""
    condition = {"expressionCondition": {"expression": "true"}}
    rule = {"childAgent": "other", "direction": "PARENT_TO_CHILD", "disablePlannerTransfer": condition}
    rule = {name: value for name, value in {**rule, **changed}.items() if value is not None}
    return {"transferRules": [rule]}


PROBLEMS: dict[str, tuple[str, dict[str, Any] | None, str]] = {
    "the code of a guardrail": (WORDS, None, "CES001"),
    "the configuration of a guardrail": (GUARDRAIL, None, "CES001"),
    "a guardrail of the app": (APP, {"guardrails": ["words", "gone"]}, "CES602"),
    "guardrails that are no names": (APP, {"guardrails": [{"name": "words"}]}, "CES602"),
    "guardrails that are no list": (APP, {"guardrails": "gone"}, "CES602"),
    "a guardrail of an agent": (ROOT_AGENT, {"guardrails": ["gone"]}, "CES602"),
    "the root agent": (APP, {"rootAgent": "gone"}, "CES602"),
    "the agent of a guardrail": (GUARDRAIL, {"action": {"transferAgent": {"agent": "gone"}}}, "CES602"),
    "a callback": (ROOT_AGENT, {"beforeAgentCallbacks": [{"pythonCode": "gone.py"}]}, "CES001"),
    "callbacks that are no list": (ROOT_AGENT, {"beforeAgentCallbacks": "gone.py"}, "CES001"),
    "a callback of a guardrail that is a path": (
        GUARDRAIL,
        {"codeCallback": {"beforeAgentCallback": WORDS}},
        "CES001",
    ),
    "a callback of a guardrail of another kind": (
        GUARDRAIL,
        {"codeCallback": {"beforeToolCallback": {"pythonCode": WORDS}}},
        "CES001",
    ),
    "code of a guardrail that is no object": (GUARDRAIL, {"codeCallback": WORDS}, "CES001"),
    "the direction of a transfer rule": (ROOT_AGENT, rules(direction=None), "CES001"),
    "a direction that is not known": (ROOT_AGENT, rules(direction="PARENT_TO_CHILDREN"), "CES001"),
    "a direction that is a list": (ROOT_AGENT, rules(direction=["PARENT_TO_CHILD"]), "CES001"),
    "the child of a transfer rule": (ROOT_AGENT, rules(childAgent=None), "CES001"),
    "the condition of a transfer rule": (
        ROOT_AGENT,
        rules(disablePlannerTransfer={"eventCondition": {}}),
        "CES001",
    ),
    "transfer rules that are no list": (ROOT_AGENT, {"transferRules": "other"}, "CES001"),
}


@pytest.mark.parametrize("missing", PROBLEMS)
def test_an_app_that_lacks_what_it_names_does_not_run(tmp_path: Path, missing: str) -> None:
    """A guard would be skipped, or another agent would begin."""
    path, members, code = PROBLEMS[missing]
    folder = sound(tmp_path)
    if members is None:
        (folder / path).unlink()
    else:
        change(folder / path, **members)
    app = read_app(folder)

    assert [code] == [each.code for each in app.problems]
    with pytest.raises(InvalidInputError, match=r"1 problems; the first is .*\. Correct them, or pass"):
        AppAgent(app, model="gemini-2.5-flash")


async def test_an_app_with_problems_runs_where_the_caller_allows_it(converse: Converse) -> None:
    """Without what it lacks, by its own choice. A guard is left out for ``true`` alone, and for no text."""
    folder = sound(converse.new_folder())
    (folder / WORDS).unlink()
    app = read_app(folder)

    with pytest.raises(InvalidInputError, match="allow_problems=True"):
        converse(app)
    conversation = converse(app, ["Hello."], allow_problems=True)

    assert "Hello." == (await conversation.send("Hi", await conversation.begin())).text

    folder = sound(converse.new_folder())
    fields = {"pythonCode": WORDS, "disabled": "false"}
    change(folder / GUARDRAIL, codeCallback={"beforeAgentCallback": fields})
    change(folder / "agents/root/root.json", beforeAgentCallbacks=[fields])

    for wrong in (5, "app"):
        with pytest.raises(InvalidInputError, match=f"folder must be a Path, not {type(wrong).__name__}"):
            read_app(wrong)  # type: ignore[arg-type]
    assert [False, False] == [each.disabled for each in read_app(folder).callbacks]


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["eval", "test", "chat"])
def test_the_commands_end_with_2_where_an_app_has_problems(tmp_path: Path, name: str) -> None:
    """They name each; --allow-problems runs the app without what it lacks."""
    folder = sound(tmp_path / "app")
    change(folder / "app.json", guardrails=["gone"])
    script = tmp_path / "script.yaml"
    script.write_text("[Hello.]")
    test = "import python_code\ndef test_a():\n    assert python_code.before_agent_callback(None) is None\n"
    golden = {"conversations": [{"conversation": "a", "user": "Hi", "agent": "Hello."}]}
    files = {"evals/goldens/a.yaml": golden, "agents/root/before_agent_callbacks/00/test_a.py": test}
    write_files(folder, files)
    whole = ["ces", name, str(folder), "--sandbox", "inprocess"]
    whole += [] if name == "test" else ["--script", str(script)]

    refused = CliRunner().invoke(command, whole, input="Hi\n")
    allowed = CliRunner().invoke(command, [*whole, "--allow-problems"], input="Hi\n")

    assert 2 == refused.exit_code, refused.output
    assert "" == refused.stdout
    assert f"{folder}/app.json:1: the guardrail 'gone' is not in the app; it has: words" in refused.stderr
    assert "add --allow-problems" in refused.stderr
    assert 0 == allowed.exit_code, allowed.output
    assert "the guardrail 'gone' is not in the app" in allowed.stderr


def test_a_name_that_the_app_does_not_have_is_found_in_its_line(tmp_path: Path) -> None:
    """As lint finds those that an agent names."""
    folder = sound(tmp_path)
    (folder / APP).write_text(
        '{\n  "rootAgent": "root",\n  "guardrails": [\n    "words",\n    "gone"\n  ]\n}\n'
    )

    assert [("CES602", APP, 5)] == [(each.code, each.path, each.line) for each in read_app(folder).problems]
