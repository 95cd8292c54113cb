"""Copy artifacts, version by version, between any artifact services of ADK."""

from dataclasses import dataclass
from typing import Any

from google.adk.artifacts import BaseArtifactService
from google.genai import types

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.model.keys import USER_NAMESPACE, SessionKey
from gcp_adk_store.moving.report import Report, failure_of_one

ArtifactPlace = str | BaseArtifactService


@dataclass(frozen=True, slots=True)
class ArtifactCopies:
    """Copies the artifacts of sessions and users. A target that has some versions gets the later ones."""

    source: BaseArtifactService
    target: BaseArtifactService
    verify: bool
    dry_run: bool

    async def copy(self, key: SessionKey, report: Report, *, of_user: bool) -> None:
        """Copy the artifacts of a session, or those *of_user*, which all of the user's sessions share."""
        ids = key.ids
        try:
            names = await self.source.list_artifact_keys(**ids)
            for name in names:
                if name.startswith(USER_NAMESPACE) == of_user:
                    await self._copy_one({**ids, "filename": name}, report)
        except Exception as exc:  # noqa: BLE001  # whatever a service raises that cannot hold or read them
            report.add("failed", f"artifacts: {failure_of_one(exc)}", user=key.user, session=key.session)

    async def _copy_one(self, which: dict[str, Any], report: Report) -> None:
        versions = sorted(await self.source.list_versions(**which))
        there = sorted(await self.target.list_versions(**which))
        user, session, name = which["user_id"], which["session_id"], which["filename"]
        if versions != list(range(len(versions))):
            says = f"artifact {name[:80]!r}: its versions {versions[:10]} get the numbers from 0 on"
            report.add("versions", says, user=user, session=session)
        if len(there) > len(versions):
            says = f"artifact {name[:80]!r}: the target has {len(there)} versions, the source {len(versions)}"
            report.add("conflict", says, user=user, session=session)
            return
        for version in versions[len(there) :]:
            await self._copy_version(which, version, report)
        if self.verify and not self.dry_run:
            there = sorted(await self.target.list_versions(**which))
            for version, copied in zip(versions, there, strict=False):
                mine = _content(await self.source.load_artifact(**which, version=version))
                if mine != _content(await self.target.load_artifact(**which, version=copied)):
                    says = f"artifact {name[:80]!r}: version {version} differs"
                    report.add("differs", says, user=user, session=session)

    async def _copy_version(self, which: dict[str, Any], version: int, report: Report) -> None:
        part = await self.source.load_artifact(**which, version=version)
        if part is None:
            says = f"artifact {which['filename'][:80]!r}: version {version} is gone, or has no content"
            report.add("failed", says, user=which["user_id"], session=which["session_id"])
            return
        report.artifact_versions += 1
        if self.dry_run:
            return
        about = await self.source.get_artifact_version(**which, version=version)
        metadata = dict(about.custom_metadata) if about and about.custom_metadata else None
        await self.target.save_artifact(**which, artifact=part, custom_metadata=metadata)


def open_artifacts(given: ArtifactPlace) -> BaseArtifactService:
    """Return a service, or that of a URI.

    Raises:
        InvalidInputError: the URI is malformed, or ADK cannot open it.
    """
    if isinstance(given, BaseArtifactService):
        return given
    if given.partition(":")[0].lower() in ("gs", "gs+local"):
        from gcp_adk_store.adk_server.services import artifact_service  # noqa: PLC0415  # with Google's clients

        return artifact_service(given)
    from google.adk.cli.service_registry import get_service_registry  # noqa: PLC0415  # half of ADK's command

    try:
        service = get_service_registry().create_artifact_service(given)
    except (ValueError, ImportError):
        service = None
    if service is None:
        raise InvalidInputError("an artifact service is named by a URI such as gs://BUCKET or file:///PATH")
    return service


def _content(part: types.Part | None) -> bytes | None:
    """Return what two equal artifacts share: their bytes and type, or all their fields."""
    if part is None:
        return None
    if part.inline_data is not None:
        kind = (part.inline_data.mime_type or "").encode()
        return kind + b"\0" + (part.inline_data.data or b"")
    if part.text is not None:
        return b"text/plain\0" + part.text.encode("utf-8", "surrogatepass")
    return part.model_dump_json(exclude_none=True).encode()
