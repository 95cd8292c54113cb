"""Stand between a client and a server, and hold back what is marked."""

import socket
import socketserver
import threading
from types import TracebackType
from typing import Self


class StallingProxy:
    """Forwards TCP connections; a request that contains *marker* does not reach the server until released."""

    def __init__(self, upstream: str, marker: bytes) -> None:
        host, _, port = upstream.rpartition("://")[2].rpartition(":")
        self.stalled = threading.Semaphore(0)
        """Released once for every request that is held back."""
        self.released = threading.Event()
        proxy = self

        class Forward(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with socket.create_connection((host, int(port))) as server:
                    back = threading.Thread(target=_pump, args=(server, self.request), daemon=True)
                    back.start()
                    while data := self.request.recv(65536):
                        if marker in data and not proxy.released.is_set():
                            proxy.stalled.release()
                            proxy.released.wait()
                        server.sendall(data)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Forward)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        return  # one of the two has gone
