"""What both proxies have in common: a thread that serves, a plan of faults, and the calls that are held."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from gcp_adk_store.testing.faults.plans import Hold, Injector, Planned

_START_S: Final = 30.0


class Proxy(Planned, ABC):
    """A proxy for an emulator, on a thread of its own; ``with`` starts and stops it."""

    def __init__(self, injector: Injector) -> None:
        super().__init__(injector)
        self._serves = threading.Event()
        self._held: set[Hold] = set()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    @abstractmethod
    def address(self) -> str:
        """The address for the emulator's variable, once the proxy runs."""

    @abstractmethod
    def cut_connections(self) -> int:
        """End every client's connection at once, calls and all; return how many there were.

        Clients may connect again at once, to the same address.
        """

    @abstractmethod
    def _serve(self) -> None:
        """Set ``_serves`` and serve until :meth:`_stop`; then drop the held calls and the connections."""

    @abstractmethod
    def _stop(self) -> None:
        """End :meth:`_serve`, from another thread."""

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._serves.wait(_START_S):
            raise RuntimeError(f"the {type(self).__name__} did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()
        self._thread.join()

    @contextmanager
    def holding(self, hold: Hold) -> Iterator[None]:
        """Hold a call during the block, which waits for the test's decision."""
        self._held.add(hold)
        hold.reached.set()
        try:
            yield
        finally:
            self._held.discard(hold)

    def drop_held(self) -> None:
        """Drop the calls that are held."""
        for hold in self._held.copy():
            hold.release(forward=False)
