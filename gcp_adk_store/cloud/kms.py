"""Wrap data keys with a key of Cloud KMS."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

import google_crc32c
from google.api_core import exceptions as api
from google.auth import exceptions as auth

from gcp_adk_store.cloud import retry
from gcp_adk_store.cloud.auth.credentials import StoreCredentials
from gcp_adk_store.cloud.forked_grpc import require_grpc
from gcp_adk_store.cloud.translation import translated
from gcp_adk_store.errors import (
    AccessDeniedError,
    CredentialsError,
    InvalidInputError,
    NotProvisionedError,
    StoredDataError,
    StoreError,
    UnavailableError,
)
from gcp_adk_store.imports import how_to_install
from gcp_adk_store.kernel import telemetry
from gcp_adk_store.kernel.operation import part_of
from gcp_adk_store.kernel.process import OwnProcess
from gcp_adk_store.settings import SessionLimits
from gcp_adk_store.settings.envelope import Wrapped

T = TypeVar("T")

KMS_SCOPES: Final = ("https://www.googleapis.com/auth/cloudkms",)
"""Scopes to use keys of Cloud KMS."""

_FAILURES: Final = (api.GoogleAPIError, auth.GoogleAuthError)


class KmsKeyWrapper:
    """Wraps data keys with a key of Cloud KMS, which never leaves it; 1 request each."""

    def __init__(
        self,
        key: str,
        *older: str,
        credentials: StoreCredentials | None = None,
        client: Any = None,
        limits: SessionLimits | None = None,
    ) -> None:
        """Prepare the wrapper; nothing is contacted before the first call.

        Args:
            key: ``projects/P/locations/L/keyRings/R/cryptoKeys/K``.
            older: Keys that unwrap what they wrapped before; no other key is ever asked.
            credentials: By default those of the environment. Its tokens are asked for with the scope of KMS.
            client: A ``google.cloud.kms_v1.KeyManagementServiceClient`` to use; :meth:`close` leaves it open.
            limits: Deadlines of a request.
        """
        limits = limits or SessionLimits()
        self._key = key
        self._older = older
        self._credentials = (credentials or StoreCredentials()).scoped(KMS_SCOPES)
        self._given = client
        self._policy = retry.RetryPolicy(attempt_s=limits.rpc_timeout_s, deadline_s=limits.deadline_s)
        self._process = OwnProcess(self)
        self._client: Any = self._given
        self._guard = threading.Lock()

    async def wrap(self, data_key: bytes, context: bytes) -> Wrapped:
        """As :class:`~gcp_adk_store.settings.envelope.KeyWrapper`."""

        def encrypt(client: Any, timeout_s: float) -> Wrapped:
            answer = client.encrypt(
                request=_request(self._key, plaintext=data_key, additional_authenticated_data=context),
                retry=None,
                timeout=timeout_s,
            )
            if (
                not answer.verified_plaintext_crc32c
                or not answer.verified_additional_authenticated_data_crc32c
            ):
                raise UnavailableError(f"{self._key} received other bytes than were sent; try again later")
            self._require_sum(answer.ciphertext, answer.ciphertext_crc32c)
            return Wrapped(answer.ciphertext, answer.name)

        return await self._call(encrypt)

    async def unwrap(self, wrapped: Wrapped, context: bytes) -> bytes:
        """As :class:`~gcp_adk_store.settings.envelope.KeyWrapper`."""
        by = wrapped.version.partition("/cryptoKeyVersions/")[0]
        key = by if by in self._older else self._key

        def decrypt(client: Any, timeout_s: float) -> bytes:
            answer = client.decrypt(
                request=_request(key, ciphertext=wrapped.data, additional_authenticated_data=context),
                retry=None,
                timeout=timeout_s,
            )
            self._require_sum(answer.plaintext, answer.plaintext_crc32c)
            return bytes(answer.plaintext)

        return await self._call(decrypt)

    async def close(self) -> None:
        """Close the client that this object made; a later call makes another."""
        with self._guard:
            mine, self._client = self._client, self._given
        if mine is not None and mine is not self._given:
            await asyncio.to_thread(mine.transport.close)

    async def _call(self, send: Callable[[Any, float], T]) -> T:
        with part_of(self._policy.deadline_s):
            client = await self._ready()

            async def attempt(timeout_s: float) -> T:
                telemetry.count_rpc(lambda: len(self._key))
                with translated(_FAILURES, self._error):
                    return await asyncio.to_thread(send, client, timeout_s)

            return await retry.call(attempt, policy=self._policy)

    async def _ready(self) -> Any:
        self._process.require_own()
        if self._given is not None:
            return self._given
        require_grpc()
        token = await self._credentials.ready()
        with self._guard:
            if self._client is None:
                self._client = _new_client(token)
            return self._client

    def _require_sum(self, data: bytes, expected: int) -> None:
        if google_crc32c.value(bytes(data)) != expected:
            raise UnavailableError(f"{self._key} answered with damaged bytes; try again later")

    def _error(self, exc: Exception) -> StoreError:
        """Return the error for a failed request; none of them changes anything."""
        message = f"{self._key}: {type(exc).__name__}"
        match exc:
            case api.InvalidArgument():
                return StoredDataError(
                    f"{message}; a wrapped data key was changed, or made for another place"
                )
            case api.NotFound():
                return NotProvisionedError(f"{message}; make the key, or correct its name")
            case api.FailedPrecondition():
                return NotProvisionedError(
                    f"{message}; the key's version is disabled or destroyed: enable it"
                )
            case api.Forbidden() | api.Unauthorized():
                return AccessDeniedError(
                    f"{message}; grant roles/cloudkms.cryptoKeyEncrypterDecrypter on the key to this identity"
                )
            case auth.GoogleAuthError():
                return CredentialsError(f"{message}; no usable Google Cloud credentials")
        return UnavailableError(f"{message}; try again later")


def _request(key: str, **sent: bytes) -> dict[str, Any]:
    """Return a request with *key*, and a checksum of each value that is *sent*."""
    return {
        "name": key,
        **sent,
        **{f"{name}_crc32c": google_crc32c.value(data) for name, data in sent.items()},
    }


def _new_client(token: Any) -> Any:
    """Return Google's client.

    Raises:
        InvalidInputError: the extra ``encryption`` is not installed.
    """
    try:
        from google.cloud import kms_v1  # noqa: PLC0415  # of an extra
    except ImportError as exc:
        raise InvalidInputError(
            f"keys of Cloud KMS need google-cloud-kms; install the extra: {how_to_install('encryption')}"
        ) from exc
    return kms_v1.KeyManagementServiceClient(
        credentials=token, client_options={"universe_domain": token.universe_domain}
    )
