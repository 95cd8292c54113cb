"""``gcp-adk-store inspect`` serves pages on this machine until it is asked to end."""

from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from gcp_adk_store import Store
from gcp_adk_store.cli.command import command
from tests.inspector.process import inspected
from tests.inspector.story import CALM_PLACE, Read, client_of, fill_calm
from tests.support.documents import command as of_document
from tests.support.documents import names_of


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A folder that has the folder of a store, as the document names it."""
    async with Store.local(tmp_path / "support-store") as store:
        await fill_calm(store)
    return tmp_path


def test_the_command_of_the_page_opens_it(folder: Path) -> None:
    """Content is masked, writes are off, other hosts and a port that is taken are refused."""
    line = of_document("docs/inspector.md", "inspect").strip()
    with inspected(line, at=folder) as address:
        page = httpx.get(f"{address}session", params=CALM_PLACE, timeout=60)
        style = httpx.get(f"{address}static/inspector.css", timeout=60)
        other = httpx.get(address, headers={"Host": "evil.example"}, timeout=60)
        write = httpx.get(f"{address}fork", params=CALM_PLACE, timeout=60)
        port = address.rstrip("/").rpartition(":")[2]
        store = str(folder / "support-store")
        again = CliRunner().invoke(command, ["inspect", "--local", store, "--port", port])

    assert address.startswith("http://127.0.0.1:")
    assert "masked, 18 characters" in Read(page.text).text
    assert "Reads only, content is masked: folder support-store" in Read(page.text).text
    assert [200, 200, 421, 404] == [each.status_code for each in (page, style, other, write)]
    assert 2 == again.exit_code
    assert f"port {port} cannot be used" in again.stderr


def test_options_reveal_and_allow_writes(folder: Path) -> None:
    """From the start."""
    line = of_document("docs/inspector.md", "inspect").strip()
    with inspected(line, "--reveal", "--allow-writes", at=folder) as address:
        page = Read(httpx.get(f"{address}session", params=CALM_PLACE, timeout=60).text)

    assert "Where is parcel 0?" in page.text
    assert "Fork" in page.text
    assert "Reads and writes: folder" in page.text


async def test_the_app_of_the_document_is_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests around IAP are refused, and so are other hosts."""
    monkeypatch.delenv("ADK_STORE_LOCAL", raising=False)
    names = names_of("docs/inspector.md", 1)
    async with names["store"], client_of(names["app"], host="admin.example.com") as client:
        answer = await client.get("/inspect/")
        other = await client.get("/inspect/", headers={"Host": "evil.example"})

    assert [403, 421] == [answer.status_code, other.status_code]
