"""The Firestore emulator differs from production as emulators/README.md says, row by row."""

import http.client
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from google.api_core.exceptions import Aborted, GoogleAPICallError, ResourceExhausted
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import SERVER_TIMESTAMP, ArrayUnion, Client
from google.cloud.firestore_v1.base_query import FieldFilter
from google.cloud.firestore_v1.base_vector_query import DistanceMeasure
from google.cloud.firestore_v1.vector import Vector

from gcp_adk_store.testing.emulators import Emulator

README: Final = (Path(__file__).parents[2] / "emulators/README.md").read_text()
MIB: Final = 1024 * 1024


@pytest.fixture
def client(project: str) -> Iterator[Client]:
    """Connect to a database that no other test has seen."""
    client = Client(project=project, credentials=AnonymousCredentials())
    yield client
    client.close()


def test_the_rows_that_tests_hold_are_marked() -> None:
    """Each row of the table names its test of this file, or none."""
    table = README.partition("## Firestore: differs from production")[2].partition("\n## ")[0]
    named = re.findall(r"\| `(test_\w+)` \|$", table, re.MULTILINE)
    here = {name for name in globals() if name.startswith("test_")} - {
        "test_the_rows_that_tests_hold_are_marked"
    }

    assert here == set(named)


def test_a_request_over_4_mib_is_refused(client: Client) -> None:
    """With ResourceExhausted, which the standard client would retry; production takes 10 MiB."""
    batch = client.batch()
    for number in range(5):
        batch.set(client.document(f"large/{number}"), {"value": "x" * (MIB - 1000)})
    with pytest.raises(ResourceExhausted):
        batch.commit(retry=None)
    assert [] == list(client.collection("large").stream())


def test_no_composite_index_is_needed(client: Client) -> None:
    """Of two fields, in an order that production would refuse without one."""
    client.document("some/one").set({"a": 1, "b": 2})
    query = (
        client.collection("some")
        .where(filter=FieldFilter("a", "==", 1))
        .order_by("b", direction="DESCENDING")
    )

    assert ["one"] == [found.id for found in query.stream()]


def test_no_vector_index_is_needed(client: Client) -> None:
    """A nearest neighbour is found in a collection that nothing was declared for."""
    client.document("vectors/one").set({"at": Vector([1.0, 0.0])})
    query = client.collection("vectors").find_nearest(
        "at", Vector([1.0, 0.1]), limit=1, distance_measure=DistanceMeasure.EUCLIDEAN
    )

    assert ["one"] == [found.id for found in query.stream()]


def test_more_than_40_000_index_entries_are_accepted(client: Client) -> None:
    """An array of 41,000 numbers, each an entry."""
    document = client.document("some/wide")
    document.set({"values": list(range(41_000))})

    assert 41_000 == len((document.get().to_dict() or {})["values"])


def test_a_commit_may_have_more_than_500_transforms(client: Client) -> None:
    """And more than 500 writes."""
    batch = client.batch()
    for number in range(600):
        batch.set(client.document(f"many/{number}"), {"values": ArrayUnion([number])})

    assert 600 == len(batch.commit())


def test_a_write_that_waits_for_a_transaction_is_aborted(client: Client) -> None:
    """A write that waits for another transaction's lock says so, and changes nothing."""
    document = client.document("some/contended")
    document.set({"n": 0})
    holder = client.transaction()
    holder._begin()
    document.get(transaction=holder)
    caught: list[GoogleAPICallError] = []

    def write() -> None:
        try:
            document.set({"n": 1}, retry=None)
        except GoogleAPICallError as exc:
            caught.append(exc)

    writer = threading.Thread(target=write)
    writer.start()
    writer.join(60)
    holder._rollback()

    assert [Aborted] == [type(each) for each in caught]
    assert "Transaction lock timeout" in str(caught[0])
    assert {"n": 0} == document.get().to_dict()


def test_server_timestamps_are_milliseconds(client: Client) -> None:
    """Of ten, none has a part below that."""
    documents = [client.document(f"times/{number}") for number in range(10)]
    for document in documents:
        document.set({"at": SERVER_TIMESTAMP})
    times = [(document.get().to_dict() or {})["at"] for document in documents]

    assert [0] * 10 == [time.nanosecond % 1_000_000 for time in times]


def test_any_database_exists(project: str) -> None:
    """From its first document on; others do not see it."""
    for name in ("(default)", "one", "another"):
        client = Client(project=project, database=name, credentials=AnonymousCredentials())
        client.document("some/here").set({"name": name})
        client.close()
    client = Client(project=project, database="one", credentials=AnonymousCredentials())
    found = client.document("some/here").get().to_dict()
    client.close()

    assert {"name": "one"} == found


@pytest.mark.parametrize("what", ["", "/collectionGroups/some/indexes", "/backupSchedules"])
def test_there_is_no_admin_api(firestore_emulator: Emulator, project: str, what: str) -> None:
    """Neither databases nor indexes nor backups can be asked for."""
    connection = http.client.HTTPConnection(firestore_emulator.address, timeout=60)
    connection.request("GET", f"/v1/projects/{project}/databases/(default){what}")
    status = connection.getresponse().status
    connection.close()

    assert 404 == status
