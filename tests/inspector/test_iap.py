"""A request is let through by the signed header of IAP alone."""

import base64
import json
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from gcp_adk_store import Store
from gcp_adk_store.inspector import IapAuthorization, create_app
from tests.emulators.file_server import FileServer, serving
from tests.inspector.story import client_of

AUDIENCE: Final = "/projects/1/global/backendServices/2"
KEY: Final = ec.generate_private_key(ec.SECP256R1())
OTHER: Final = ec.generate_private_key(ec.SECP256R1())


def public(**keys: ec.EllipticCurvePrivateKey) -> bytes:
    """Return keys as IAP's address has them."""
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    encoded = {name: key.public_key().public_bytes(*form).decode() for name, key in keys.items()}
    return json.dumps(encoded).encode()


@pytest.fixture
def keys() -> Iterator[FileServer]:
    """A server of public keys."""
    with serving(public(one=KEY)) as files:
        yield files


def signed(*, key: ec.EllipticCurvePrivateKey = KEY, name: str = "one", **changes: Any) -> str:
    """Return a JWT as IAP makes it."""
    now = int(time.time())
    claims = {
        "iss": "https://cloud.google.com/iap",
        "aud": AUDIENCE,
        "email": "Ada@example.com",
        "sub": "accounts.google.com:1",
        "iat": now - 10,
        "exp": now + 600,
        **changes,
    }
    head = {"alg": "ES256", "typ": "JWT", "kid": name}
    text = b".".join(_encoded(json.dumps(each).encode()) for each in (head, claims))
    r, s = decode_dss_signature(key.sign(text, ec.ECDSA(hashes.SHA256())))
    return b".".join((text, _encoded(r.to_bytes(32, "big") + s.to_bytes(32, "big")))).decode()


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def unsigned() -> str:
    """Return a JWT that says that it needs no signature."""
    head = _encoded(json.dumps({"alg": "none", "kid": "one"}).encode()).decode()
    return f"{head}.{signed().split('.')[1]}."


async def statuses(store: Store, authorize: IapAuthorization, *tokens: str | None) -> list[int]:
    """Return how requests with these headers are answered."""
    app = create_app(store, authorize=authorize, hosts=["admin.example.com"])
    async with client_of(app, host="admin.example.com") as client:
        return [
            (
                await client.get("/", headers={} if token is None else {"X-Goog-IAP-JWT-Assertion": token})
            ).status_code
            for token in tokens
        ]


async def test_any_other_request_is_refused(store: Store, keys: FileServer) -> None:
    """Without a word about the store."""
    now = int(time.time())
    tokens = {
        "no header": None,
        "no JWT": "nonsense",
        "signed by another key": signed(key=OTHER),
        "by an unknown key": signed(name="two"),
        "for another service": signed(aud="/projects/1/global/backendServices/3"),
        "of another issuer": signed(iss="https://accounts.google.com"),
        "expired": signed(exp=now - 100, iat=now - 700),
        "of the future": signed(iat=now + 500),
        "of nobody": signed(email=""),
        "unsigned": unsigned(),
        "nested too deeply": f"{_encoded(b'[' * 5_000).decode()}.e30.e30",
    }
    authorize = IapAuthorization(AUDIENCE, certs_url=keys.url)
    found = dict(zip(tokens, await statuses(store, authorize, *tokens.values()), strict=True))

    assert dict.fromkeys(tokens, 403) == found


@pytest.mark.parametrize(
    ("audience", "options", "says"),
    [
        # The header of any application behind IAP would do.
        ("", {}, "audience is empty"),
        # Each letter would be an email, and nobody would see the store.
        (
            AUDIENCE,
            {"emails": "a@example.com"},
            r"emails is one text, it must be a collection: pass \[email\]",
        ),
    ],
)
def test_arguments_that_let_in_too_many_or_nobody_are_refused(
    audience: str, options: dict[str, Any], says: str
) -> None:
    """When it is made."""
    with pytest.raises(ValueError, match=says):
        IapAuthorization(audience, **options)


async def test_people_are_chosen_by_their_email(store: Store, keys: FileServer) -> None:
    """Among those whom IAP lets through, and by the app and the user of a page."""
    only_bob = IapAuthorization(AUDIENCE, emails=["bob@example.com"], certs_url=keys.url)
    only_ada = IapAuthorization(AUDIENCE, emails=["ada@Example.com"], certs_url=keys.url)
    nothing = IapAuthorization(AUDIENCE, may_see=lambda *asked: asked[1] is not None, certs_url=keys.url)

    async def nobody(_email: str, _app: str | None, _user: str | None) -> bool:
        return False

    assert [403] == await statuses(store, only_bob, signed())
    assert [200] == await statuses(store, only_ada, signed())
    assert [403] == await statuses(store, nothing, signed())
    assert [403] == await statuses(
        store, IapAuthorization(AUDIENCE, may_see=nobody, certs_url=keys.url), signed()
    )


async def test_keys_that_cannot_be_had_let_nobody_through(store: Store) -> None:
    """The address is not served."""
    authorize = IapAuthorization(AUDIENCE, certs_url="http://127.0.0.1:1/public_key")

    assert [403] == await statuses(store, authorize, signed())


async def test_an_unknown_key_asks_again_only_after_a_minute(
    store: Store, keys: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IAP changes its keys; strangers must not make each request ask for them."""
    authorize = IapAuthorization(AUDIENCE, certs_url=keys.url)
    assert [200, 403, 403] == await statuses(
        store, authorize, signed(), signed(name="two"), signed(name="two")
    )
    asked_at_once = len(keys.requests)
    keys.content = public(one=KEY, two=OTHER)
    later = time.monotonic() + 61
    monkeypatch.setattr("gcp_adk_store.inspector.guard.time.monotonic", lambda: later)

    assert [200] == await statuses(store, authorize, signed(key=OTHER, name="two"))
    assert (1, 2) == (asked_at_once, len(keys.requests))
