"""Everything that one backend serves."""

from dataclasses import dataclass

from gcp_adk_store.ports.documents import Documents
from gcp_adk_store.ports.objects import Objects, Signer, Uploads


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The documents of one database, and the objects of one bucket."""

    documents: Documents
    objects: Objects
    uploads: Uploads
    signer: Signer
