"""Stand around another backend's documents or objects."""

from typing import Any, Generic, TypeVar

from gcp_adk_store.kernel.ports import Reads

Port = TypeVar("Port")
Inner = TypeVar("Inner", bound=Reads)
_AnyPort: Any = object


# Any type for a checker, so that it passes for what it stands around; at run time, object comes last.
class Around(Generic[Port], _AnyPort):  # type: ignore[misc]  # noqa: PYI059
    """What a subclass does not have is that of *inner*."""

    def __init__(self, inner: Port) -> None:
        self.inner = inner
        """What this stands around."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
