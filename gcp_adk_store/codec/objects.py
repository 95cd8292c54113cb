"""Lay out artifacts as Cloud Storage objects: content types and metadata.

The ``adk*`` metadata keys are those of ADK's own service, so each reads what the other wrote. The object
holds the payload unchanged, under its own content type.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from google.genai import types

from gcp_adk_store.codec.texts import metadata_bytes
from gcp_adk_store.errors import InvalidInputError, StoredDataError
from gcp_adk_store.model.artifacts import is_tombstone
from gcp_adk_store.model.json_values import Bounds, decode_surrogates, encode_surrogates
from gcp_adk_store.model.keys import is_unicode

MAX_METADATA_BYTES: Final = 8 * 1024
"""Cloud Storage's limit on an object's custom metadata, keys and values together, in UTF-8 bytes."""

DEFAULT_CONTENT_TYPE: Final = "application/octet-stream"
"""The content type that Cloud Storage records for a payload without one."""

STORAGE_CLASSES: Final = ("STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE")
"""Storage classes of Cloud Storage, from frequent to rare access."""

_NUMBER: Final = re.compile(r"-1|[0-9]{1,9}")
_PLAIN: Final = re.compile(r"[!-~]+")  # keys that HTTP headers carry unchanged

_DISPLAY_NAME: Final = "adkDisplayName"
_IS_TEXT: Final = "adkIsText"
_FILE_URI: Final = "adkFileUri"
_FILE_MIME_TYPE: Final = "adkFileMimeType"
_LEGACY_FILE_URI: Final = "file_uri"
_SAVE_ID: Final = "adkStoreSaveId"
_FOLLOWS: Final = "adkStoreFollows"
_JSON: Final = "adkStoreJson"
_LONE_SURROGATES: Final = "adkStoreHalves"
ENCRYPTED: Final = "adkStoreEncrypted"
"""Metadata key of an artifact that the store encrypted: how its bytes begin, base64."""
ENCRYPTED_BYTES: Final = len(ENCRYPTED) + 32
"""Bytes of metadata that this takes."""
SEALED: Final = "adkStoreSealed"
"""Metadata key of an encrypted payload: bytes that encryption added to it."""
_RESERVED: Final = frozenset(
    {
        _DISPLAY_NAME,
        _IS_TEXT,
        _FILE_URI,
        _FILE_MIME_TYPE,
        _LEGACY_FILE_URI,
        _SAVE_ID,
        _FOLLOWS,
        _JSON,
        _LONE_SURROGATES,
        ENCRYPTED,
    }
)
_FIELDS: Final = {_DISPLAY_NAME: "display_name", _FILE_URI: "file_uri"}
"""The callers' names of these keys."""
_BOUNDS: Final = Bounds(
    values=MAX_METADATA_BYTES,
    values_named="the limit",
    size=MAX_METADATA_BYTES,
    size_named="the limit",
    way_out="keep what is larger in the artifact itself",
    text_keys=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFields:
    """The properties of an object to write, and its bytes unless they come separately."""

    content_type: str
    metadata: Mapping[str, str]
    data: bytes = b""
    custom_time: datetime | None = None
    """The time from which a bucket's lifecycle rules count."""
    storage_class: str | None = None
    """``None`` takes the bucket's."""


def require_storage_class(name: str | None) -> str | None:
    """Return *name* if it is a storage class of Cloud Storage, or ``None``.

    Raises:
        InvalidInputError: Cloud Storage has no storage class of this name.
    """
    if name is not None and name not in STORAGE_CLASSES:
        raise InvalidInputError(
            f"storage_class is {name!r:.60}, it must be one of {', '.join(STORAGE_CLASSES)}"
        )
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object from a listing or a read, without its bytes."""

    name: str
    generation: int
    content_type: str | None
    metadata: Mapping[str, str]
    create_time: float
    """Unix time in seconds."""
    size: int
    """Size in bytes, as stored."""
    content_encoding: str | None = None
    """The content encoding of another writer's object, such as ``gzip``."""
    crc32c: str | None = None
    """Base64 of the big-endian checksum; only for a read by name."""
    md5: str | None = None
    """Base64; only for a read by name, and not for every object."""

    @property
    def save_id(self) -> str | None:
        """The id of the save of this library; ``None`` for another writer's object."""
        return self.metadata.get(_SAVE_ID)

    @property
    def follows(self) -> int | None:
        """The number of the version that this one follows after a restore, -1 for none.

        ``None`` if no restore marked it: it follows the one before it.
        """
        text = self.metadata.get(_FOLLOWS)
        return int(text) if text is not None and _NUMBER.fullmatch(text) else None

    @property
    def file_uri(self) -> str | None:
        """The URI of the content if the object itself does not hold it."""
        return self.metadata.get(_FILE_URI) or self.metadata.get(_LEGACY_FILE_URI) or None

    def require_readable(self) -> None:
        """Refuse an object whose bytes are encrypted.

        Raises:
            StoredDataError: they are.
        """
        if ENCRYPTED in self.metadata:
            raise StoredDataError(
                f"object {self.name!r} is encrypted; open the store with KmsEnvelope(key, artifacts=True)"
            )

    def referring(self, uri: str) -> "StoredObject":
        """Return the same object with another URI of its content."""
        kept = {key: text for key, text in self.metadata.items() if key != _LEGACY_FILE_URI}
        return replace(self, metadata={**kept, _FILE_URI: uri})

    def bare(self) -> "StoredObject":
        """Return the same object without custom metadata."""
        return replace(
            self, metadata={key: self.metadata[key] for key in (_RESERVED - {_JSON}) & self.metadata.keys()}
        )

    @property
    def custom_metadata(self) -> dict[str, Any]:
        """The custom metadata of the save's caller, with its JSON types.

        Raises:
            StoredDataError: the part that is stored as JSON is damaged.
        """
        flat: dict[str, Any] = {key: value for key, value in self.metadata.items() if key not in _RESERVED}
        try:
            return {**flat, **json.loads(self.metadata.get(_JSON, "{}"))}
        except (TypeError, ValueError, RecursionError) as exc:
            message = f"the metadata {_JSON} of object {self.name!r} is not a JSON object"
            raise StoredDataError(message) from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedObject:
    """An object from a scan."""

    name: str
    version: str
    """Changes with the object's bytes and with its metadata: ``generation/metageneration``."""
    size: int
    """Bytes."""
    metadata: Mapping[str, str]
    update_time: float
    """Unix time of the last change of its bytes or metadata, in seconds."""


def encode_artifact(
    part: types.Part,
    *,
    custom_metadata: Mapping[str, Any] | None,
    save_id: str,
    custom_time: datetime | None = None,
    storage_class: str | None = None,
) -> ObjectFields:
    """Return the object of a save of *part*.

    Raises:
        InvalidInputError: *part* holds neither bytes, text nor a file's URI, its MIME type cannot be a
            header, or the metadata is over 8 KiB or not JSON.
    """
    metadata: dict[str, str] = {_SAVE_ID: save_id}
    inline, file = part.inline_data, part.file_data
    if inline is not None:
        if inline.data is None:
            raise InvalidInputError("Artifact inline_data must contain data.")
        if inline.display_name:
            metadata[_DISPLAY_NAME] = inline.display_name
        data, content_type = inline.data, inline.mime_type
    elif part.text is not None:
        metadata[_IS_TEXT] = "true"
        text = part.text
        if not is_unicode(text):
            metadata[_LONE_SURROGATES] = "true"
            text = encode_surrogates(text)
        data, content_type = text.encode(), "text/plain"
    elif file is not None:
        if not file.file_uri:
            raise InvalidInputError("Artifact file_data must have a file_uri.")
        metadata[_FILE_URI] = file.file_uri
        if file.mime_type:
            metadata[_FILE_MIME_TYPE] = file.mime_type
        data, content_type = b"", file.mime_type
    else:
        raise InvalidInputError("Artifact must have either inline_data or text.")
    content_type = content_type or DEFAULT_CONTENT_TYPE
    if not (content_type.isascii() and content_type.isprintable()):
        raise InvalidInputError(f"mime_type {ascii(content_type)[:80]} cannot be sent as a header")
    return ObjectFields(
        data=data,
        content_type=content_type,
        metadata=checked_metadata({**metadata, **_encode_custom(custom_metadata or {})}),
        custom_time=custom_time,
        storage_class=storage_class,
    )


def encode_file(
    *,
    mime_type: str | None,
    display_name: str | None,
    custom_metadata: Mapping[str, Any] | None,
    save_id: str,
    custom_time: datetime | None = None,
    storage_class: str | None = None,
) -> ObjectFields:
    """Return the properties of an artifact whose bytes come separately, as those of inline bytes.

    Raises:
        InvalidInputError: the MIME type cannot be a header, or the metadata is over 8 KiB or not JSON.
    """
    blob = types.Blob.model_construct(data=b"", mime_type=mime_type, display_name=display_name)
    return encode_artifact(
        types.Part.model_construct(inline_data=blob),
        custom_metadata=custom_metadata,
        save_id=save_id,
        custom_time=custom_time,
        storage_class=storage_class,
    )


def encode_copy(
    stored: StoredObject,
    *,
    save_id: str,
    storage_class: str | None,
    custom_time: datetime | None = None,
    follows: int | None = None,
    room: int = 0,
) -> ObjectFields:
    """Return the properties of a copy of *stored*: the same, with the id of another save.

    *follows* is what :attr:`StoredObject.follows` of the copy is to be; *room* bytes of its metadata stay
    free.

    Raises:
        InvalidInputError: the metadata have no room for these, or another writer's for the save's id.
        StoredDataError: *stored* is encrypted, and this store has no key.
    """
    stored.require_readable()
    kept = {key: text for key, text in stored.metadata.items() if key != _FOLLOWS}
    return ObjectFields(
        content_type=stored.content_type or DEFAULT_CONTENT_TYPE,
        metadata=checked_metadata({**kept, **following(follows), _SAVE_ID: save_id}, room=room),
        custom_time=custom_time,
        storage_class=storage_class,
    )


def following(number: int | None) -> dict[str, str]:
    """Return the metadata of a version that follows the one of a *number* after a restore, -1 for none."""
    return {} if number is None else {_FOLLOWS: f"{number}"}


def decode_artifact(stored: StoredObject, data: bytes) -> types.Part | None:
    """Return the saved part; ``None`` for the tombstone of a rewind.

    Raises:
        StoredDataError: the bytes of a text are not UTF-8, or are encrypted.
    """
    stored.require_readable()
    if stored.metadata.get(_IS_TEXT) == "true":
        try:
            text = data.decode()
        except UnicodeDecodeError as exc:
            message = f"object {stored.name!r} is marked as text, but its bytes are not UTF-8"
            raise StoredDataError(message) from exc
        return types.Part(
            text=decode_surrogates(text) if stored.metadata.get(_LONE_SURROGATES) == "true" else text
        )
    name = stored.metadata.get(_DISPLAY_NAME)
    part = types.Part(inline_data=types.Blob(data=data, mime_type=stored.content_type, display_name=name))
    return None if is_tombstone(part) else part


def decode_file(stored: StoredObject, uri: str) -> types.Part:
    """Return the part of an artifact whose content is at *uri*."""
    declared = stored.content_type if stored.content_type != DEFAULT_CONTENT_TYPE else None
    mime_type = stored.metadata.get(_FILE_MIME_TYPE) or declared
    return types.Part(file_data=types.FileData(file_uri=uri, mime_type=mime_type))


def checked_metadata(whole: dict[str, str], *, room: int = 0) -> dict[str, str]:
    """Return an object's metadata.

    Raises:
        InvalidInputError: they are over 8 KiB with *room* for more, or not Unicode.
    """
    size = room + sum(len(key.encode()) + len(_unicode(text, key).encode()) for key, text in whole.items())
    if size > MAX_METADATA_BYTES:
        raise InvalidInputError(
            f"custom_metadata makes {size} bytes of object metadata, the limit is {MAX_METADATA_BYTES}; "
            f"{_BOUNDS.way_out}"
        )
    return whole


def _encode_custom(custom: Mapping[str, Any]) -> dict[str, str]:
    """Store texts as ADK's service does, and all other values with their types as one JSON text."""
    flat: dict[str, str] = {}
    typed: dict[str, Any] = {}
    for key, value in custom.items():
        if not isinstance(key, str):
            raise InvalidInputError(f"a key of custom_metadata must be a string, not {type(key).__name__}")
        plain = _PLAIN.fullmatch(key) and key not in _RESERVED and isinstance(value, str) and value
        (flat if plain and is_unicode(value) else typed)[key] = value
    if typed:
        flat[_JSON] = metadata_bytes(typed, bounds=_BOUNDS, what="custom_metadata").decode()
    return flat


def _unicode(text: str, key: str) -> str:
    """Return *text*, of the metadata *key*, if every reader can read it."""
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInputError(
            f"{_FIELDS.get(key, key)} holds a lone surrogate at index {exc.start}, which is not "
            "Unicode text; leave it out"
        ) from exc
    return text
