"""Drive one Chromium by its own protocol over a WebSocket: no driver that must be of its version."""

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from websockets.sync.client import connect
from websockets.sync.connection import Connection

_WITHIN_S: Final = 100.0


class Browser:
    """One page of Chromium, and what happened in it."""

    def __init__(self, socket: Connection) -> None:
        self._socket = socket
        self._number = 0
        self._session = ""
        self._events: list[dict[str, Any]] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")
        self._call("Page.bringToFront")

    def open(self, url: str) -> None:
        """Open a page, and wait until it is loaded."""
        self._events.clear()
        self._call("Page.navigate", url=url)
        self._loaded()

    def click(self, selector: str) -> None:
        """Click what leads to another page, and wait until that is loaded."""
        self._events.clear()
        self.run(f"setTimeout(() => document.querySelector({json.dumps(selector)}).click())")
        self._loaded()

    def _loaded(self) -> None:
        while not any(each["method"] == "Page.loadEventFired" for each in self._events):
            self._take()

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page, or of what it promises."""
        answer = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def appear(self, condition: str) -> None:
        """Wait until an expression of the page is true."""
        look = f"const look = () => ({condition}) ? done(1) : setTimeout(look, 20); look()"
        self.run(f"new Promise(done => {{{look}}})")

    def press(self, key: str, code: int) -> None:
        """Press a key."""
        for kind in ("rawKeyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def look_as(self, *, width: int = 1200, dark: bool = False) -> None:
        """Change the width of the window, and whether its owner prefers dark colours."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._call("Emulation.setEmulatedMedia", features=scheme)

    def keep(self, picture: Path) -> None:
        """Keep a picture of the window."""
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_bytes(base64.b64decode(self._call("Page.captureScreenshot")["data"]))

    @property
    def text(self) -> str:
        """What the page shows, each run of blanks as one."""
        return " ".join(str(self.run("document.body.innerText")).split())

    @property
    def wrong(self) -> list[Any]:
        """Errors in the console, of scripts and of the policy, and dialogs, since the page was opened."""
        self.run("1")
        found: list[Any] = []
        for each in self._events:
            method, params = each["method"], each["params"]
            if method in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening"):
                found.append(params)
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"])
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(params["args"])
        return found

    @property
    def asked(self) -> list[str]:
        """The addresses that the page asked for since it was opened."""
        sent = [each["params"] for each in self._events if each["method"] == "Network.requestWillBeSent"]
        return [each["request"]["url"] for each in sent]

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = self._take()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _take(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv(timeout=_WITHIN_S))
        if "method" in message:
            self._events.append(message)
        return message


@contextmanager
def browser(chromium: str, *, profile: Path) -> Iterator[Browser]:
    """Start Chromium; it reaches nothing else than 127.0.0.1."""
    command = [
        chromium,
        "--headless",
        "--no-sandbox",  # it runs as root in containers, and opens this machine's own pages
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        # A page that counts as hidden draws nothing, reveals nothing, and its timers stand still.
        "--disable-background-timer-throttling",
        "--disable-backgrounding-occluded-windows",
        "--disable-renderer-backgrounding",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        f"--user-data-dir={profile}",
        "--remote-debugging-port=0",
        "about:blank",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = iter(process.stderr.readline, "")
            address = next(found[1] for found in map(re.compile("(ws://.*)").search, lines) if found)
            with connect(address, max_size=None) as socket:
                yield Browser(socket)
        finally:
            process.terminate()
