"""Keep what a model was asked, which no event has: the instruction, the tools and the messages of a call."""

import json
import logging
from typing import Any, Final
from weakref import WeakValueDictionary

from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types

from gcp_adk_store.errors import StoreError
from gcp_adk_store.kernel.concurrency import offload

MODEL_REQUEST: Final = "model-request.json"
"""The artifact whose versions are the requests of a session."""

logger = logging.getLogger(__name__)


class ModelRequestPlugin(BasePlugin):
    """Saves each request to a model as an artifact, which the inspector shows: ``App(plugins=[...])``.

    Each request is a version of the session's artifact ``model-request.json``: the model's name, its
    messages, and its configuration with instruction and tools, as callbacks of agents and other plugins left
    them. The event of the answer names the version. HTTP options, such as headers, are left out, and bytes
    are replaced by their number. A request is saved with the model's first answer, or with its error. If a
    callback answers in place of the model, nothing is saved. Live runs call no plugin for a model.

    Each call of a model saves all that the model was asked. If the store cannot save it, the log has a
    warning, and the turn goes on.

    Raises:
        ValueError: in the first call of a model, if the runner has no artifact service.
    """

    def __init__(self, name: str = "adk_store_model_requests") -> None:
        """Prepare the plugin; ADK knows plugins by *name*."""
        super().__init__(name)
        # A request lives as long as its call, whether or not that comes to an answer.
        self._asked: WeakValueDictionary[tuple[str, str], LlmRequest] = WeakValueDictionary()

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Remember the request, which callbacks may change until it is sent."""
        self._asked[_call_of(callback_context)] = llm_request
        return None

    async def after_model_callback(
        self,
        *,
        callback_context: CallbackContext,
        llm_response: LlmResponse,  # noqa: ARG002  # ADK's
    ) -> LlmResponse | None:
        """Save the request with the first part of the answer."""
        request = self._asked.pop(_call_of(callback_context), None)
        if request is not None:
            await _save(request, callback_context)
        return None

    async def on_model_error_callback(
        self,
        *,
        callback_context: CallbackContext,
        llm_request: LlmRequest,
        error: Exception,  # noqa: ARG002  # ADK's
    ) -> LlmResponse | None:
        """Save the request that failed."""
        if self._asked.pop(_call_of(callback_context), None) is not None:
            await _save(llm_request, callback_context)
        return None


def _call_of(context: CallbackContext) -> tuple[str, str]:
    """Return what names a call: an agent waits for one at a time."""
    return context.invocation_id, context.agent_name


async def _save(request: LlmRequest, context: CallbackContext) -> None:
    text = await offload(lambda: _text_of(request), light=False)
    try:
        await context.save_artifact(
            MODEL_REQUEST, types.Part.from_bytes(data=text, mime_type="application/json")
        )
    except StoreError as exc:
        logger.warning("a request to a model was not saved: %s", type(exc).__name__)


def _text_of(request: LlmRequest) -> bytes:
    asked = request.model_dump(
        include={"model", "contents", "config"}, exclude={"config": {"http_options"}}, exclude_none=True
    )
    # A lone surrogate becomes its escape, which is the same text in JSON.
    return json.dumps(asked, indent=2, ensure_ascii=False, default=_plain).encode(errors="backslashreplace")


def _plain(value: Any) -> str:
    """Return what stands in JSON for a value that it has no form for."""
    return f"{len(value)} bytes" if isinstance(value, bytes) else str(value)
