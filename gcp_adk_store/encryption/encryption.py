"""Put encryption around the parts of a store."""

from dataclasses import dataclass

from gcp_adk_store.encryption.artifacts import NO_URLS, SealedArtifactObjects, SealedArtifactUploads
from gcp_adk_store.encryption.documents import SealedDocuments
from gcp_adk_store.encryption.fields import Places
from gcp_adk_store.encryption.keyring import Keyring
from gcp_adk_store.encryption.objects import SealedPayloadObjects
from gcp_adk_store.kernel.ports import Documents, NoUrls, Objects, Uploads
from gcp_adk_store.settings.envelope import KeyWrapper, KmsEnvelope


@dataclass(frozen=True, slots=True)
class Encryption:
    """The encryption of one store."""

    keys: Keyring
    places: Places
    envelope: KmsEnvelope

    @classmethod
    def of(
        cls, envelope: KmsEnvelope, wrapper: KeyWrapper, keys_documents: Documents, prefix: str
    ) -> "Encryption":
        """Return the encryption of the store of a *prefix*, whose data keys lie in *keys_documents*."""
        keys = Keyring(keys_documents, wrapper, prefix, cache_s=envelope.cache_s)
        return cls(keys, Places(prefix), envelope)

    def documents(self, inner: Documents) -> SealedDocuments:
        """Return the documents of *inner*, which are encrypted there."""
        return SealedDocuments(inner, self.places, self.keys, accept_plaintext=self.envelope.accept_plaintext)

    def payloads(self, inner: Objects) -> SealedPayloadObjects:
        """Return the objects of *inner* with payloads, which are encrypted there."""
        return SealedPayloadObjects(
            inner, self.places, self.keys, accept_plaintext=self.envelope.accept_plaintext
        )

    def artifacts(
        self, inner: Objects, uploads: Uploads
    ) -> tuple[SealedArtifactObjects, SealedArtifactUploads, NoUrls]:
        """Return the objects of *inner* with artifacts, which are encrypted there, and their companions."""
        sealed = SealedArtifactUploads(uploads, self.places, self.keys)
        objects = SealedArtifactObjects(
            inner, self.places, self.keys, sealed, accept_plaintext=self.envelope.accept_plaintext
        )
        return objects, sealed, NO_URLS
