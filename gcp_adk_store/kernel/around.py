"""Stand around another backend's documents or objects."""

from typing import Any, ClassVar, Generic, TypeVar

from gcp_adk_store.kernel.ports import Reads

Port = TypeVar("Port")
Inner = TypeVar("Inner", bound=Reads)
OF_READS = frozenset({"clock", "deadline_s"})
"""Members of the port of reads that have no content of documents."""
_AnyPort: Any = object


# Any type for a checker, so that it passes for what it stands around; at run time, object comes last.
class Around(Generic[Port], _AnyPort):  # type: ignore[misc]  # noqa: PYI059
    """Passes on what a subclass names; a port that grows passes nothing by itself, such as plain content."""

    passed_on: ClassVar[frozenset[str]] = frozenset()
    """Names of *inner* that callers get as they are."""

    def __init__(self, inner: Port) -> None:
        self.inner = inner
        """What this stands around."""

    def __getattr__(self, name: str) -> Any:
        if name not in self.passed_on:
            raise AttributeError(f"{type(self).__name__} neither has nor passes on {name!r}")
        return getattr(self.inner, name)
