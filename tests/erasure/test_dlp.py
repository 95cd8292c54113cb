"""The redactor for Google's Sensitive Data Protection sends what a server of its API understands."""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.cloud import dlp_v2
from google.cloud.dlp_v2.services.dlp_service.transports import DlpServiceGrpcAsyncIOTransport

from gcp_adk_store import DlpRedactor, InvalidInputError, RedactorError, Store
from tests.erasure.conftest import said

METHOD = "google.privacy.dlp.v2.DlpService"
WHO: dict[str, Any] = {"app_name": "app", "user_id": "user"}


class Server:
    """Answers as the API does for an e-mail address: by its protocol, on a port of this machine."""

    def __init__(self) -> None:
        self.requests: list[dlp_v2.DeidentifyContentRequest] = []
        self.fails = False
        self.drops = False

    async def deidentify(
        self, request: dlp_v2.DeidentifyContentRequest, context: Any
    ) -> dlp_v2.DeidentifyContentResponse:
        """Replace the address in each row."""
        self.requests.append(request)
        if self.fails:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "no")
        table = dlp_v2.Table(headers=request.item.table.headers)
        for row in request.item.table.rows[1 if self.drops else 0 :]:
            text = row.values[0].string_value.replace("ada@example.com", "[EMAIL_ADDRESS]")
            table.rows.append(dlp_v2.Table.Row(values=[dlp_v2.Value(string_value=text)]))
        return dlp_v2.DeidentifyContentResponse(item=dlp_v2.ContentItem(table=table))


@pytest.fixture
async def dlp() -> AsyncIterator[tuple[Server, dlp_v2.DlpServiceAsyncClient]]:
    """The server, and Google's client for it."""
    ours = Server()
    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        ours.deidentify,
        request_deserializer=dlp_v2.DeidentifyContentRequest.deserialize,
        response_serializer=dlp_v2.DeidentifyContentResponse.serialize,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(METHOD, {"DeidentifyContent": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
    client = dlp_v2.DlpServiceAsyncClient(transport=DlpServiceGrpcAsyncIOTransport(channel=channel))
    yield ours, client
    await channel.close()
    await server.stop(None)


async def test_findings_are_replaced_before_anything_is_stored(
    dlp: tuple[Server, dlp_v2.DlpServiceAsyncClient],
) -> None:
    """One request for the texts of an event, with what to find and where."""
    server, client = dlp
    redactor = DlpRedactor("my-project", info_types=["EMAIL_ADDRESS"], location="europe-west1", client=client)
    async with Store.local(":memory:", redactors=[redactor]) as store:
        session = await store.sessions.create_session(**WHO)
        await store.sessions.append_event(
            session, said("write to ada@example.com", delta={"to": "ada@example.com"})
        )

    assert session.events[0].content is not None
    assert "write to [EMAIL_ADDRESS]" == (session.events[0].content.parts or [])[0].text
    assert "[EMAIL_ADDRESS]" == session.state["to"]
    (request,) = server.requests
    assert "projects/my-project/locations/europe-west1" == request.parent
    assert ["EMAIL_ADDRESS"] == [each.name for each in request.inspect_config.info_types]


async def test_many_texts_go_in_several_requests(dlp: tuple[Server, dlp_v2.DlpServiceAsyncClient]) -> None:
    """Each below the API's limit, in the order of the texts."""
    server, client = dlp
    texts = [f"{number} ada@example.com {'x' * 150_000}" for number in range(5)]

    found = await DlpRedactor("p", info_types=["EMAIL_ADDRESS"], client=client)(texts)

    assert [text.replace("ada@example.com", "[EMAIL_ADDRESS]") for text in texts] == found
    assert 3 == len(server.requests)


async def test_what_dlp_does_not_answer_is_not_stored(
    dlp: tuple[Server, dlp_v2.DlpServiceAsyncClient],
) -> None:
    """A refusal, an answer that lacks a text, and a text that is too long."""
    server, client = dlp
    redactor = DlpRedactor("p", info_types=["EMAIL_ADDRESS"], client=client)
    async with Store.local(":memory:", redactors=[redactor]) as store:
        session = await store.sessions.create_session(**WHO)
        server.fails = True
        with pytest.raises(RedactorError, match="failed with PermissionDenied"):
            await store.sessions.append_event(session, said("text"))
        server.fails, server.drops = False, True
        with pytest.raises(RedactorError, match="returned 0 of 1 texts"):
            await store.sessions.append_event(session, said("text"))
        with pytest.raises(RedactorError, match="DLP takes 400000"):
            await store.sessions.append_event(session, said("x" * 400_001))

    assert [] == session.events


def test_what_to_find_must_be_said() -> None:
    """Without it the API finds nothing, and everything would be stored."""
    with pytest.raises(InvalidInputError, match="info_types or inspect_template"):
        DlpRedactor("p")
    templates = {"inspect_template": "projects/p/inspectTemplates/i", "deidentify_template": "d"}
    assert callable(DlpRedactor("p", **templates))
    assert asyncio.iscoroutinefunction(DlpRedactor.__call__)


def test_without_its_extra_a_redactor_names_it_and_all_else_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is made, and not as the package is imported."""
    monkeypatch.setitem(sys.modules, "google.cloud.dlp_v2", None)
    monkeypatch.delattr("google.cloud.dlp_v2", raising=False)
    monkeypatch.delitem(sys.modules, "gcp_adk_store.cloud.dlp")
    names: dict[str, Any] = {}
    exec("from gcp_adk_store import *", names)  # noqa: S102  # an import of all is allowed in a module alone

    with pytest.raises(InvalidInputError, match=r"extra dlp.*\[dlp\]"):
        names["DlpRedactor"]("p", info_types=["EMAIL_ADDRESS"])
