"""What type checkers say of errors, values and templates: mypy reads this, and nothing runs it."""

import logging
from collections.abc import Mapping
from typing import Any, Literal, assert_type

from google.adk.agents import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError

import gcp_adk_store

EVERY_ERROR: tuple[type[gcp_adk_store.StoreError], ...] = (
    gcp_adk_store.AccessDeniedError,
    gcp_adk_store.ArtifactConflictError,
    gcp_adk_store.CredentialsError,
    gcp_adk_store.EmbedderError,
    gcp_adk_store.ForkedProcessError,
    gcp_adk_store.InvalidInputError,
    gcp_adk_store.KeyDestroyedError,
    gcp_adk_store.NotProvisionedError,
    gcp_adk_store.OutcomeUnknownError,
    gcp_adk_store.EmulatorMissingError,
    gcp_adk_store.OverloadedError,
    gcp_adk_store.PayloadMissingError,
    gcp_adk_store.PointMissingError,
    gcp_adk_store.PromptTemplateError,
    gcp_adk_store.RedactorError,
    gcp_adk_store.SessionBusyError,
    gcp_adk_store.SessionConflictError,
    gcp_adk_store.SessionExistsError,
    gcp_adk_store.SessionInboxFullError,
    gcp_adk_store.SessionMissingError,
    gcp_adk_store.StoredDataError,
    gcp_adk_store.TaskConflictError,
    gcp_adk_store.TemplateKeyError,
    gcp_adk_store.TurnLostError,
    gcp_adk_store.UnavailableError,
    gcp_adk_store.UploadMissingError,
)


def errors_say_what_a_program_asks(
    error: gcp_adk_store.StoreError, busy: gcp_adk_store.SessionBusyError
) -> None:
    assert_type(error.operation, str)
    assert_type(error.key, str)
    assert_type(error.attempts, int)
    assert_type(error.retry_after_s, float | None)
    assert_type(busy.holder, str)
    assert_type(busy.until, float)


def errors_are_adks_too(
    exists: gcp_adk_store.SessionExistsError,
    missing: gcp_adk_store.SessionMissingError,
    invalid: gcp_adk_store.InvalidInputError,
) -> None:
    as_adks: tuple[AlreadyExistsError, SessionNotFoundError, InputValidationError] = (
        exists,
        missing,
        invalid,
    )
    assert as_adks


def usage_adds_up(usage: gcp_adk_store.SessionUsage) -> None:
    assert_type(usage.turns, tuple[gcp_adk_store.TurnUsage, ...])
    assert_type(usage.models, tuple[gcp_adk_store.ModelUsage, ...])
    assert_type(usage.tokens + gcp_adk_store.TokenUsage(input_tokens=1), gcp_adk_store.TokenUsage)
    assert_type(usage.tool_calls, Mapping[str, int])
    assert_type(usage.duration_s, float)


def histories_have_two_names() -> None:
    assert_type(gcp_adk_store.HistoryConfig().history, Literal["full", "since_compaction"])


def reports_are_values(
    info: gcp_adk_store.SessionInfo,
    proof: gcp_adk_store.HistoryProof,
    receipt: gcp_adk_store.ErasureReceipt,
    found: gcp_adk_store.Garbage,
    kept: gcp_adk_store.AnchorReport,
) -> None:
    assert_type(info.origin, gcp_adk_store.SessionOrigin | None)
    assert_type(info.turns, int | None)
    assert_type(proof.broken, gcp_adk_store.HistoryBreak | None)
    assert_type(proof.redacted, tuple[gcp_adk_store.RedactedEvent, ...])
    if proof.broken is not None:
        assert_type(proof.broken.change, gcp_adk_store.HistoryChange)
    assert_type(kept.written, int)
    assert_type(receipt.recovery, gcp_adk_store.Recovery)
    assert_type(receipt.erased["sessions"], gcp_adk_store.Erased)
    assert_type(receipt.to_dict(), dict[str, Any])
    assert_type(receipt.to_json(), str)
    assert_type(found.kind, gcp_adk_store.GarbageKind)


async def templates_keep_the_types_of_what_they_fill(agent: LlmAgent, context: ReadonlyContext) -> None:
    assert_type(gcp_adk_store.resolve_template("Report on {topic}", {"topic": "seats"}), str)
    assert_type(gcp_adk_store.resolve_template(None, None), None)
    assert_type(
        gcp_adk_store.resolve_tasks([gcp_adk_store.PromptTask(description="{topic}")], {"topic": "seats"}),
        list[gcp_adk_store.PromptTask],
    )
    assert_type(gcp_adk_store.resolve_agent(agent, {}), LlmAgent)
    settings = gcp_adk_store.TemplateSettings(missing="empty")
    assert_type(await gcp_adk_store.inject_session_state("{user:name}", context, settings=settings), str)
    LlmAgent(name="support", instruction=gcp_adk_store.session_instruction("You help {user:name}."))


def logs_are_lines_of_json(handler: logging.Handler) -> None:
    handler.setFormatter(gcp_adk_store.CloudLoggingFormatter())
