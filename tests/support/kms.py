"""Serve the two methods of Cloud KMS that the library uses, over gRPC: no emulator of it exists."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import google_crc32c
import grpc
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from google.cloud import kms_v1
from google.cloud.kms_v1.services.key_management_service.transports import KeyManagementServiceGrpcTransport

from gcp_adk_store import KmsEnvelope, SessionLimits
from gcp_adk_store.cloud.kms import KmsKeyWrapper
from gcp_adk_store.encryption import wrapping

SERVICE = "google.cloud.kms.v1.KeyManagementService"


class Kms:
    """Keys by name, each with versions, the newest last; *refuses* is called before an answer."""

    def __init__(self) -> None:
        self.keys: dict[str, list[AESGCM]] = {}
        self.asked: list[str] = []
        self.refuses: Callable[[str], grpc.StatusCode | None] = lambda _: None
        self.damaged = 0
        """How many of the next answers of ``decrypt`` are damaged."""

    def add_version(self, key: str) -> None:
        """Make the key, or its next version."""
        self.keys.setdefault(key, []).append(AESGCM(AESGCM.generate_key(256)))

    def encrypt(self, request: Any, context: grpc.ServicerContext) -> Any:
        """As the service, with the newest version."""
        versions = self._versions("encrypt", request, context)
        assert request.plaintext_crc32c == google_crc32c.value(request.plaintext)
        nonce, number = os.urandom(12), len(versions)
        sealed = versions[-1].encrypt(nonce, request.plaintext, request.additional_authenticated_data)
        data = bytes([number]) + nonce + sealed
        return kms_v1.EncryptResponse(
            name=f"{request.name}/cryptoKeyVersions/{number}",
            ciphertext=data,
            ciphertext_crc32c=google_crc32c.value(data),
            verified_plaintext_crc32c=True,
            verified_additional_authenticated_data_crc32c=True,
        )

    def decrypt(self, request: Any, context: grpc.ServicerContext) -> Any:
        """As the service, with the version that encrypted."""
        versions = self._versions("decrypt", request, context)
        data = request.ciphertext
        try:
            aad = request.additional_authenticated_data
            plain = versions[data[0] - 1].decrypt(data[1:13], data[13:], aad)
        except (InvalidTag, IndexError, ValueError):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "decryption failed")
        is_damaged = self.damaged > 0
        self.damaged -= is_damaged
        return kms_v1.DecryptResponse(
            plaintext=plain, plaintext_crc32c=google_crc32c.value(plain) + is_damaged
        )

    def _versions(self, method: str, request: Any, context: grpc.ServicerContext) -> list[AESGCM]:
        self.asked.append(method)
        refused = self.refuses(method)
        if refused is not None:
            context.abort(refused, "refused")
        if request.name not in self.keys:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such key")
        return self.keys[request.name]


@contextmanager
def served(kms: Kms) -> Iterator[kms_v1.KeyManagementServiceClient]:
    """Serve *kms* on this machine, and give Google's client of it."""
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    methods = {
        name: grpc.unary_unary_rpc_method_handler(
            method, request_deserializer=request.deserialize, response_serializer=response.serialize
        )
        for name, method, request, response in (
            ("Encrypt", kms.encrypt, kms_v1.EncryptRequest, kms_v1.EncryptResponse),
            ("Decrypt", kms.decrypt, kms_v1.DecryptRequest, kms_v1.DecryptResponse),
        )
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    transport = KeyManagementServiceGrpcTransport(channel=channel)
    try:
        yield kms_v1.KeyManagementServiceClient(transport=transport)
    finally:
        channel.close()
        server.stop(None).wait()


def wrapper_over(client: Any, *keys: str) -> KmsKeyWrapper:
    """Return what wraps data keys by the first of *keys*, over a client of :func:`served`."""
    return KmsKeyWrapper(*keys, client=client, limits=SessionLimits())


def wrapper_of(envelope: KmsEnvelope) -> object:
    """Return what wraps data keys as *envelope* says."""
    return wrapping.wrapper_of(envelope, None)
