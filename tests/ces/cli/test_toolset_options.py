"""The commands call toolsets where an option says, with credentials that nothing shows."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gcp_adk_store.cli.command import command
from tests.ces.host.web import serving
from tests.ces.lint.test_toolsets import KEY, write

CODE = "def ask() -> dict:\n    return tools.Bank_read({'note': 'hi'}).json()\n"


def ask(app: Path, *arguments: str, **environ: str) -> Result:
    """Run a tool that calls an operation of a toolset."""
    (app / "ask.py").write_text(CODE)
    whole = ["ces", "run-tool", str(app / "ask.py"), "--tools", str(app), "--sandbox", "inprocess", "--json"]
    variables = ("--variables", json.dumps({"token": "t", "tier": 1}))
    return CliRunner().invoke(command, [*whole, *variables, *arguments], env=environ)


def test_a_toolset_is_called_where_an_option_says(tmp_path: Path) -> None:
    """With the key of an environment variable, and the session's values."""
    app = write(tmp_path, authentication=KEY)
    with serving() as web:
        options = (
            "--server",
            f"Bank={web.url}/v1",
            "--credential",
            "Bank=BANK_KEY",
            "--allow-host",
            web.url[7:],
        )
        result = ask(app, *options, BANK_KEY="secret-key")
        asked = web.last

    assert result.exit_code == 0, result.output
    assert "secret-key" not in result.output
    assert (asked.method, asked.headers["x-api-key"], asked.headers["x-token"]) == ("POST", "secret-key", "t")
    assert asked.path.startswith("/v1/sessions/")
    assert json.loads(asked.body) == {"note": "hi", "tier": 1}


def test_a_call_without_its_credential_says_which_option_gives_it(tmp_path: Path) -> None:
    """And is not sent."""
    app = write(tmp_path, authentication=KEY)
    with serving() as web:
        result = ask(app, "--server", f"Bank={web.url}", "--allow-host", web.url[7:])
        assert web.asked == []

    (call,) = json.loads(result.stdout)["calls"]
    assert call["status_code"] == 401
    assert "give one with --credential Bank=VARIABLE" in call["reason"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--server", "Bank"), "write TOOLSET=URL"),
        (("--server", "Shop=https://a.test"), "the app has no toolset 'Shop'; it has: Bank, bank"),
        (("--credential", "Bank=NOT_THERE"), "the environment has no variable NOT_THERE"),
    ],
)
def test_an_option_that_is_not_valid_ends_with_2(
    tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    """Before code runs."""
    result = ask(write(tmp_path), *arguments)

    assert (result.exit_code, says in result.stderr.replace("\n", " ")) == (2, True), result.output
