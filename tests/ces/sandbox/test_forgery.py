"""Attack from inside, by forged frames: whatever their bytes, the host makes nothing of them."""

import asyncio
from typing import Any

import pytest

from gcp_adk_store.ces.sandbox import (
    BubblewrapSandbox,
    Limits,
    SandboxProtocolError,
    SandboxTimeoutError,
)
from tests.ces.sandbox.conftest import no_host, run_in


def forged(frame: str) -> str:
    """Return code that sends a frame past the library."""
    return f"""
import os, json
text = {frame}
text = text if isinstance(text, bytes) else text.encode()
text = len(text).to_bytes(4, "big") + text
while text:
    text = text[os.write(3, text):]
os.read(3, 1)
"""


@pytest.mark.parametrize(
    "frame",
    [
        "json.dumps({'kind': 'other'})",
        "json.dumps([1])",
        "json.dumps({'kind': 'call', 'id': -1, 'call': {}})",
        "json.dumps({'kind': 'call', 'id': True, 'call': {}})",
        "json.dumps({'kind': 'call', 'id': 1.0, 'call': {}})",
        "json.dumps({'kind': ['call'], 'id': 1, 'call': {}})",
        "json.dumps({'kind': 'call', 'id': 1, 'call': []})",
        "json.dumps({'kind': 'call', 'id': 1, 'call': {}, 'more': 1})",
        "json.dumps({'kind': 'answer', 'id': 1, 'answer': {}})",
        "json.dumps({'kind': 'result', 'result': 1})",
        "json.dumps({'kind': 'failed', 'reason': 'mine', 'message': ''})",
        '\'{"kind": "result", "result": {"x": NaN}}\'',
        '\'{"kind": "result", "result": {"x": -1e400}}\'',
        '\'{"kind": "result", "result": {"x": -Infinity}}\'',
        '\'{"kind": "result", "result": {"\\\\udfff": 1}}\'',
        '\'{"kind": "result", "result": {"x": "\\\\ud800"}}\'',
        "'{\"kind\": \"result\", \"result\": {\"x\": ' + '[' * 200 + ']' * 200 + '}}'",
        "'[' * 100_000",
        '\'{"kind": "result", "result": {"x": \' + "9" * 1_000_000 + "}}"',
        'b\'{"kind": "result", "result": {"x": "\\xff"}}\'',
        'b\'{"kind": "result", "result": {"x": "\\xed\\xa0\\x80"}}\'',
        "''",
        "'[' + '1,' * 1_100_000 + '1]'",
    ],
)
async def test_a_forged_frame_ends_the_run(sandbox: BubblewrapSandbox, frame: str) -> None:
    """Whatever its shape, before anything is made of it."""
    with pytest.raises(SandboxProtocolError):
        await sandbox.run({"code": forged(frame)}, no_host)

    assert 2 == await run_in(sandbox, "result = 1 + 1")


async def test_two_calls_of_one_number_end_the_run(sandbox: BubblewrapSandbox) -> None:
    """The answer of one could be taken for that of the other."""
    once = "json.dumps({'kind': 'call', 'id': 7, 'call': {}})"

    async def never(_call: dict[str, Any]) -> dict[str, Any]:
        return await asyncio.Future[dict[str, Any]]()

    code = forged(once).replace("os.read(3, 1)", forged(once))
    with pytest.raises(SandboxProtocolError, match="twice"):
        await sandbox.run({"code": code}, never)


async def test_of_two_results_the_first_counts_and_what_follows_is_not_read(
    sandbox: BubblewrapSandbox,
) -> None:
    """Whatever native code sends after it, also a call of the host; of names given twice, the last."""
    result = '\'{"kind": "result", "result": {"x": 1, "x": 2}}\''
    call = "json.dumps({'kind': 'call', 'id': 1, 'call': {}})"
    again = "json.dumps({'kind': 'result', 'result': {'x': 3}})"
    code = f"""
import os, json
texts = [text.encode() for text in ({result}, {call}, {again})]
os.write(3, b"".join(len(text).to_bytes(4, "big") + text for text in texts))
os.read(3, 1)
"""

    assert {"x": 2} == await sandbox.run({"code": code}, no_host)


async def test_answers_that_nobody_reads_hold_the_host_no_longer_than_the_run(
    sandbox: BubblewrapSandbox,
) -> None:
    """Its process asks for as much as it may, and reads nothing."""
    call = "json.dumps({'kind': 'call', 'id': number, 'call': {}}).encode()"
    code = f"""
import os, json
for number in range(32):
    text = {call}
    os.write(3, len(text).to_bytes(4, "big") + text)
while True: pass
"""

    async def answer(_call: dict[str, Any]) -> dict[str, Any]:
        return {"text": "x" * 1_000_000}

    with pytest.raises(SandboxTimeoutError):
        await sandbox.run({"code": code}, answer, limits=Limits(wall_s=0.2))
    assert 2 == await run_in(sandbox, "result = 1 + 1")
