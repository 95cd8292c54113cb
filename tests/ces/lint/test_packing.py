"""An app is written as an archive, with the same bytes for the same files, and nothing from elsewhere."""

import os
import socket
import stat
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gcp_adk_store.ces import read_app
from gcp_adk_store.ces.apps.files import located, pack
from gcp_adk_store.cli.command import command
from gcp_adk_store.errors import InvalidInputError
from tests.ces.conversation.apps import write_app


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an app."""
    write_app(
        tmp_path / "project" / "cxas_app" / "Shop", {"root": {}}, tools={"greet": "def greet(): pass\n"}
    )
    (tmp_path / "project" / "cxas_app" / "Shop" / "environment.json").write_text("{}")
    return tmp_path / "project"


def run(*arguments: object) -> Result:
    """Run the command."""
    return CliRunner().invoke(command, ["ces", "pack", *map(str, arguments)])


def test_the_same_files_make_the_same_bytes(project: Path, tmp_path: Path) -> None:
    """Whenever they were written and by whom."""
    app = project / "cxas_app" / "Shop"
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"

    made = run(project, first)
    for number, each in enumerate(sorted(app.rglob("*"))):
        os.utime(each, (1_000_000_000 + number, 1_000_000_000 + number))
    (app / "app.json").chmod(0o600)
    (app / "tools" / "__pycache__").mkdir()
    (app / "tools" / "__pycache__" / "x.pyc").write_bytes(b"x")
    (app / ".DS_Store").write_bytes(b"x")
    pack(app, second)

    assert (made.exit_code, made.stdout) == (0, f"{first}: 5 files\n")
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert archive.namelist()[0] == "Shop/agents/root/root.json"
        assert {each.date_time for each in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {each.external_attr >> 16 for each in archive.infolist()} == {stat.S_IFREG | 0o644}


def test_a_packed_app_is_read_as_the_folder_is(project: Path, tmp_path: Path) -> None:
    """By every command that takes an archive."""
    target = tmp_path / "app.zip"
    pack(project / "cxas_app" / "Shop", target)

    with located(target) as folder:
        read = read_app(folder)

    assert ({"greet"}, "root", []) == (set(read.tool_names), read.root_agent, list(read.problems))


def entry(name: str, mode: int = 0) -> zipfile.ZipInfo:
    """Return an entry of an archive."""
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


@pytest.mark.parametrize(
    ("name", "mode", "says"),
    [
        ("../x", 0, "outside of its folder"),
        ("/x", 0, "outside of its folder"),
        ("a/../../x", 0, "outside of its folder"),
        ("..\\x", 0, "outside of its folder"),
        ("C:/x", 0, "outside of its folder"),
        ("../x/", stat.S_IFDIR, "outside of its folder"),
        ("a//x", 0, "not safe"),
        ("a/./x", 0, "not safe"),
        ("a\nx", 0, "not safe"),
        ("a", stat.S_IFLNK | 0o777, "a link"),
        ("a", stat.S_IFIFO, "a link, or no file"),
        ("a", stat.S_IFCHR, "a link, or no file"),
    ],
)
def test_an_entry_that_is_not_safe_is_refused(tmp_path: Path, name: str, mode: int, says: str) -> None:
    """Before a file is written."""
    source = tmp_path / "bad.zip"
    with zipfile.ZipFile(source, "w") as archive:
        archive.writestr("good.txt", "good")
        archive.writestr(entry(name, mode), "/etc/passwd")

    with pytest.raises(InvalidInputError, match=rf"bad\.zip has .*{says}"), located(source):
        pass


def test_two_entries_of_one_name_are_refused(tmp_path: Path) -> None:
    """Which of them counts depends on who reads."""
    source = tmp_path / "bad.zip"
    with zipfile.ZipFile(source, "w") as archive:
        archive.writestr("a", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a", "2")

    with pytest.raises(InvalidInputError, match="cannot be read as an archive"), located(source):
        pass


def test_a_link_in_a_folder_is_refused(project: Path, tmp_path: Path) -> None:
    """It would bring a file from elsewhere along."""
    (tmp_path / "secret").write_text("secret")
    (project / "cxas_app" / "Shop" / "link").symlink_to(tmp_path / "secret")

    with pytest.raises(InvalidInputError, match="is a link"):
        pack(project / "cxas_app" / "Shop", tmp_path / "app.zip")
    assert not (tmp_path / "app.zip").exists()


@pytest.mark.parametrize(
    ("source", "target", "says"),
    [
        ("missing", "app.zip", "does not exist"),
        ("project", "project/cxas_app/Shop/app.zip", "the archive would be in itself"),
        ("empty", "app.zip", "is not the folder of an app: it does not have an app.json"),
        ("project", "missing/app.zip", "cannot be written"),
        ("text.zip", "app.zip", "is a file"),
    ],
)
@pytest.mark.usefixtures("project")
def test_what_cannot_be_packed_says_why(tmp_path: Path, source: str, target: str, says: str) -> None:
    """And ends with 2, without a file."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.zip").write_text("text")
    before = sorted(tmp_path.rglob("*"))

    result = run(tmp_path / source, tmp_path / target)

    assert (result.exit_code, says in result.stderr.replace("\n", " ")) == (2, True), result.stderr
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", ["link", "dangling", "fifo", "socket", "folder", "device"])
def test_what_is_no_file_is_not_replaced(project: Path, tmp_path: Path, kind: str) -> None:
    """Links, pipes, sockets and devices stay what they are, and nothing is left beside them."""
    folder = tmp_path / "there"
    folder.mkdir()
    target = Path("/dev/null") if kind == "device" else folder / "app.zip"
    (tmp_path / "file").write_bytes(b"kept")
    match kind:
        case "link":
            target.symlink_to(tmp_path / "file")
        case "dangling":
            target.symlink_to(tmp_path / "nowhere")
        case "fifo":
            os.mkfifo(target)
        case "socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(target))
        case "folder":
            target.mkdir()
        case _:
            pass
    before = target.lstat()

    with pytest.raises(InvalidInputError, match="is a link, or no file"):
        pack(project / "cxas_app" / "Shop", target)

    assert (before.st_ino, before.st_mode, before.st_rdev) == (
        target.lstat().st_ino,
        target.lstat().st_mode,
        target.lstat().st_rdev,
    )
    assert b"kept" == (tmp_path / "file").read_bytes()
    assert not (tmp_path / "nowhere").exists()
    assert [each for each in folder.iterdir() if each != target] == []
