"""Store where the news of A2A tasks go, as the push notification config store of ``a2a-sdk``."""

from collections.abc import AsyncIterator, Sequence

from gcp_adk_store.codec.writes import Delete, Document
from gcp_adk_store.errors import StoredDataError
from gcp_adk_store.kernel.calls import checks_kinds, operation
from gcp_adk_store.kernel.transact import Attempts, Commit, Decision, Writes, commit_all, transact
from gcp_adk_store.model.session_fields import Expiry
from gcp_adk_store.tasks.format import read_config
from gcp_adk_store.tasks.owned import LeftOut, OwnedStore
from gcp_adk_store.tasks.sdk import needs_a2a

with needs_a2a():
    from a2a.server.context import ServerCallContext
    from a2a.server.tasks import PushNotificationConfigStore as A2aConfigStore
    from a2a.server.tasks.push_notification_config_store import normalize_push_notification_config
    from a2a.types import TaskPushNotificationConfig
    from google.protobuf.message import DecodeError


@checks_kinds
class PushNotificationConfigStore(OwnedStore, A2aConfigStore):
    """The push notification config store of ``a2a-sdk`` over any documents.

    An owner reads, changes and deletes their own configs alone. Configs hold the tokens and credentials of
    their receivers as the SDK gives them: whoever may read the database may read them.

    Every method may raise the errors that :class:`~gcp_adk_store.tasks.TaskStore` names for all of
    its methods.
    """

    async def set_info(
        self, task_id: str, notification_config: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Set the config of an id, by default the task's; return it as it is stored.

        1 commit, and with a time to live 1 read before it.

        Raises:
            InvalidInputError: the config is over 900 KiB, or an id over 1,500 bytes as a Firestore name.
            OutcomeUnknownError: not answered; setting it again is safe.
        """
        config = normalize_push_notification_config(task_id, notification_config)
        await self.set_push_config(task_id=task_id, owner=self._owner_of(context), config=config)
        return config

    async def get_info(self, task_id: str, context: ServerCallContext) -> list[TaskPushNotificationConfig]:
        """Return the owner's configs for a task, ordered by their ids; 1 query.

        One that cannot be read is left out, and a warning in the log names it.

        Raises:
            StoredDataError: none of them can be read.
        """
        parent = self._layout.configs(self._owner_of(context), task_id)
        return await self.list_push_configs(task_id=task_id, parent=parent, of_all_owners=False)

    async def get_info_for_dispatch(self, task_id: str) -> list[TaskPushNotificationConfig]:
        """Return the configs of all owners for a task, for the SDK's sender alone; 1 query.

        Those that cannot be read are left out, as by :meth:`get_info`: the others get their news.

        Raises:
            StoredDataError: none of them can be read.
        """
        parent = self._layout.pushes(task_id)
        return await self.list_push_configs(task_id=task_id, parent=parent, of_all_owners=True)

    async def delete_info(
        self, task_id: str, context: ServerCallContext, config_id: str | None = None
    ) -> None:
        """Delete one of the owner's configs for a task, or all; missing ones are accepted.

        1 commit, and 1 query before it to delete all.

        Raises:
            OutcomeUnknownError: not answered; calling again is safe.
        """
        await self.delete_push_configs(task_id=task_id, owner=self._owner_of(context), config_id=config_id)

    @operation
    async def delete_owner_configs(self, *, owner: str) -> None:
        """Remove all configs of an owner, as the owner resolver names them.

        It removes what was stored when it began, configs of tasks that do not exist too. It takes 1 query for
        500 tasks that have configs of the owner, and for each such task 1 query and 2 commits.

        Raises:
            OutcomeUnknownError: some configs may be removed, and some not; calling again removes the rest.
        """
        await self._erase(owner, self._layout.pushes_collection, fields=("format",), removals=self._removals)

    async def _removals(self, notes: Sequence[Document]) -> AsyncIterator[Writes]:
        for note in notes:
            parent = self._layout.noted_configs(note.path)
            found = await self._documents.query(parent, self._layout.configs_collection, fields=("format",))
            await commit_all(self._documents, [Delete(path=config.path) for config in found])
            # A config that was set meanwhile changed the note too.
            yield [Delete(path=note.path, must=note.update_time)]

    @operation
    async def set_push_config(self, *, task_id: str, owner: str, config: TaskPushNotificationConfig) -> None:
        """Store a normalised config."""
        body = config.SerializeToString(deterministic=True)
        path = self._layout.note(owner, task_id)

        async def look() -> tuple[Expiry | None, Document | None]:
            found = (None,) if self._ttl_s is None else await self._documents.get([path])
            return await self._expiry(path), found[0]

        def decide(seen: tuple[Expiry | None, Document | None], _: Attempts) -> Decision[None]:
            expiry, note = seen
            writes = self._layout.put_config(owner, task_id, config.id, body, expiry=expiry, note=note)
            return Commit(writes, lambda _: None)

        await transact(self._documents, look, decide, advice="set it again")

    @operation
    async def list_push_configs(
        self, *, task_id: str, parent: str, of_all_owners: bool
    ) -> list[TaskPushNotificationConfig]:
        """Return the configs below *parent*."""
        del task_id  # for errors
        found = await self._documents.query(
            parent, self._layout.configs_collection, all_descendants=of_all_owners
        )
        configs: list[TaskPushNotificationConfig] = []
        left_out = LeftOut()
        for document in found:
            with left_out.unreadable():
                config = _config_of(document)
                if config is not None:
                    configs.append(config)
        left_out.report()
        return configs

    @operation
    async def delete_push_configs(self, *, task_id: str, owner: str, config_id: str | None) -> None:
        """Delete one config, or all of an owner for a task."""
        if config_id is not None:
            paths = [self._layout.config(owner, task_id, config_id)]
        else:
            parent = self._layout.configs(owner, task_id)
            found = await self._documents.query(parent, self._layout.configs_collection, fields=("__name__",))
            paths = [document.path for document in found]
        await commit_all(self._documents, [Delete(path=path) for path in paths])


def _config_of(document: Document) -> TaskPushNotificationConfig | None:
    body = read_config(document)
    if body is None:
        return None
    try:
        return TaskPushNotificationConfig.FromString(body)
    except DecodeError as exc:
        raise StoredDataError(
            f"{document.path} is unreadable for the installed SDK; upgrade a2a-sdk"
        ) from exc
