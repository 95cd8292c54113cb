"""``gcp-adk-store ces install`` refuses what it cannot do before it changes anything."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from gcp_adk_store.cli.command import command


@pytest.mark.parametrize(
    ("folder", "says"),
    [
        ("precious", "precious holds something else, and would be lost; name another folder"),
        ("precious/file", "file holds something else"),
        ("precious/file/below", "below cannot be made: File exists; name another folder"),
    ],
)
def test_a_folder_with_something_else_is_left_alone(tmp_path: Path, folder: str, says: str) -> None:
    """An environment is installed in place of an environment, and of nothing else."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").write_text("dear")
    result = CliRunner().invoke(command, ["ces", "install", "--folder", str(tmp_path / folder)])

    assert 2 == result.exit_code
    assert says in result.stderr
    assert "dear" == (tmp_path / "precious/file").read_text()
    assert ["precious"] == [path.name for path in tmp_path.iterdir()]
