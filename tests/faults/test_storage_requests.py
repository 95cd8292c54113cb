"""A request's URL says what it does, and to which bucket."""

import pytest

from gcp_adk_store.testing.faults.storage_proxy import bucket_of, is_bucket_look, request_kind

HOST = "http://127.0.0.1:9"


@pytest.mark.parametrize("host", ["", HOST])
@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("GET", "/storage/v1/b/x/o", "list"),
        ("GET", "/storage/v1/b/x/o?prefix=a%2Fo%2F", "list"),
        ("GET", "/storage/v1/b/x/o/name", "metadata"),
        ("GET", "/storage/v1/b/x/o/name?alt=media", "media"),
        ("GET", "/download/storage/v1/b/x/o/name?alt=media", "media"),
        ("POST", "/upload/storage/v1/b/x/o?uploadType=multipart", "upload"),
        ("PUT", "/upload/storage/v1/b/x/o?uploadType=resumable&upload_id=1", "upload"),
        ("DELETE", "/storage/v1/b/x/o/name", "delete"),
        ("PATCH", "/storage/v1/b/x/o/name", "patch"),
        ("PUT", "/storage/v1/b/x/o/name", "update"),
        ("POST", "/storage/v1/b/x/o/a%2Fb/rewriteTo/b/y/o/c", "rewrite"),
        ("POST", "/storage/v1/b/x/o/a/copyTo/b/y/o/c", "copy"),
        ("POST", "/storage/v1/b/x/o/a/compose", "compose"),
        ("GET", "/b/x/o", "list"),
        ("GET", "/x/folder/name?X-Goog-Signature=1", "media"),
        ("PUT", "/x/folder/name", "upload"),
        ("GET", "/storage/v1/b/x", "other"),
    ],
)
def test_a_request_is_named_by_what_it_does(host: str, method: str, path: str, kind: str) -> None:
    """Whichever API has its form, with and without its host."""
    assert (kind, "x") == (request_kind(method, f"{host}{path}"), bucket_of(f"{host}{path}"))


@pytest.mark.parametrize("path", ["/storage/v1/b?project=p", "/batch/storage/v1", "/", "/wipe"])
def test_a_request_of_no_bucket_has_no_owner(path: str) -> None:
    """It is another kind of request."""
    assert ("other", "") == (request_kind("POST", path), bucket_of(path))


@pytest.mark.parametrize(
    ("method", "path", "is_look"),
    [
        ("GET", "/storage/v1/b/x?projection=noAcl", True),
        ("PATCH", "/storage/v1/b/x", False),
        ("GET", "/storage/v1/b/x/o", False),
        ("GET", "/storage/v1/b", False),
    ],
)
def test_the_look_at_a_bucket_is_distinguished_from_the_rest(method: str, path: str, is_look: bool) -> None:  # noqa: FBT001
    """Google's client asks for it by itself, at times that nobody knows."""
    assert is_look is is_bucket_look(method, path)
