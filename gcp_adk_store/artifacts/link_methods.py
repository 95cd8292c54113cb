"""Give out URLs of artifacts."""

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from gcp_adk_store.artifacts.methods import ArtifactMethods
from gcp_adk_store.model.keys import ArtifactKey
from gcp_adk_store.operations.bounds import operation


class LinkMethods(ArtifactMethods):
    """The methods of the artifact service that return URLs of artifacts."""

    @operation
    async def get_signed_url(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
        expiration: datetime | timedelta | int | None = None,
        method: str = "GET",
        signing_version: str | None = None,
        **options: Any,
    ) -> str | None:
        """Return a URL with which anyone can read a version until it expires; ``None`` if absent.

        The credentials sign it with their key; without a key, as on Cloud Run and GKE, IAM signs it. Takes 1
        request to Cloud Storage. Follows references. Returns ``None`` for an artifact whose content lies
        outside of the bucket.

        Args:
            app_name: The app.
            user_id: The user.
            filename: The artifact.
            session_id: The session, for an artifact of its own.
            version: By default the latest.
            expiration: The time at which, or after which, the URL expires: at most 7 days from now, by
                default 1 hour.
            method: HTTP method that the URL is for.
            signing_version: ``v4`` by default.
            **options: Passed to ``google.cloud.storage.Blob.generate_signed_url``, such as
                ``response_disposition``.

        Raises:
            InvalidInputError: an option or *expiration* cannot be signed.
            AccessDeniedError: the credentials cannot sign, or IAM does not let them.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        stored = await self._resolve(key, version, session_id)
        if stored is None or stored.file_uri is not None:
            return None
        return await self._signer.sign(
            stored.name,
            method=method,
            expiration=timedelta(hours=1) if expiration is None else expiration,
            options={**({"version": signing_version} if signing_version else {}), **options},
        )

    @operation
    async def get_authenticated_url(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> str | None:
        """Return a URL that shows a version to users who are signed in to Google and may read it.

        Takes 1 request. Follows references. Returns ``None`` if the version is absent, and for an artifact
        whose content lies outside of the bucket.
        """
        key = ArtifactKey.of(app=app_name, user=user_id, session=session_id, filename=filename)
        stored = await self._resolve(key, version, session_id)
        if stored is None or stored.file_uri is not None:
            return None
        return f"https://storage.cloud.google.com/{self.bucket_name}/{quote(stored.name, safe='/')}"
