"""What type checkers say of errors, values and templates: mypy reads this, and nothing runs it."""

import logging
from collections.abc import Mapping
from typing import Any, Literal, assert_type

from google.adk.agents import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError

from gcp_adk_store import (
    AccessDeniedError,
    AnchorReport,
    ArtifactConflictError,
    CloudLoggingFormatter,
    CredentialsError,
    EmbedderError,
    EmulatorMissingError,
    Erased,
    ErasureReceipt,
    ForkedProcessError,
    Garbage,
    GarbageKind,
    HistoryBreak,
    HistoryChange,
    HistoryConfig,
    HistoryProof,
    InvalidInputError,
    KeyDestroyedError,
    ModelUsage,
    NotProvisionedError,
    OutcomeUnknownError,
    OverloadedError,
    PayloadMissingError,
    PointMissingError,
    PromptTask,
    PromptTemplateError,
    Recovery,
    RedactedEvent,
    RedactorError,
    SessionBusyError,
    SessionConflictError,
    SessionExistsError,
    SessionInboxFullError,
    SessionInfo,
    SessionMissingError,
    SessionOrigin,
    SessionUsage,
    StoredDataError,
    StoreError,
    TaskConflictError,
    TemplateKeyError,
    TemplateSettings,
    TokenUsage,
    TurnLostError,
    TurnUsage,
    UnavailableError,
    UploadMissingError,
    inject_session_state,
    resolve_agent,
    resolve_tasks,
    resolve_template,
    session_instruction,
)

EVERY_ERROR: tuple[type[StoreError], ...] = (
    AccessDeniedError,
    ArtifactConflictError,
    CredentialsError,
    EmbedderError,
    ForkedProcessError,
    InvalidInputError,
    KeyDestroyedError,
    NotProvisionedError,
    OutcomeUnknownError,
    EmulatorMissingError,
    OverloadedError,
    PayloadMissingError,
    PointMissingError,
    PromptTemplateError,
    RedactorError,
    SessionBusyError,
    SessionConflictError,
    SessionExistsError,
    SessionInboxFullError,
    SessionMissingError,
    StoredDataError,
    TaskConflictError,
    TemplateKeyError,
    TurnLostError,
    UnavailableError,
    UploadMissingError,
)


def errors_say_what_a_program_asks(error: StoreError, busy: SessionBusyError) -> None:
    assert_type(error.operation, str)
    assert_type(error.key, str)
    assert_type(error.attempts, int)
    assert_type(error.retry_after_s, float | None)
    assert_type(busy.holder, str)
    assert_type(busy.until, float)


def errors_are_adks_too(
    exists: SessionExistsError, missing: SessionMissingError, invalid: InvalidInputError
) -> None:
    as_adks: tuple[AlreadyExistsError, SessionNotFoundError, InputValidationError] = (
        exists,
        missing,
        invalid,
    )
    assert as_adks


def usage_adds_up(usage: SessionUsage) -> None:
    assert_type(usage.turns, tuple[TurnUsage, ...])
    assert_type(usage.models, tuple[ModelUsage, ...])
    assert_type(usage.tokens + TokenUsage(input_tokens=1), TokenUsage)
    assert_type(usage.tool_calls, Mapping[str, int])
    assert_type(usage.duration_s, float)


def histories_have_two_names() -> None:
    assert_type(HistoryConfig().history, Literal["full", "since_compaction"])


def reports_are_values(
    info: SessionInfo, proof: HistoryProof, receipt: ErasureReceipt, found: Garbage, kept: AnchorReport
) -> None:
    assert_type(info.origin, SessionOrigin | None)
    assert_type(info.turns, int | None)
    assert_type(proof.broken, HistoryBreak | None)
    assert_type(proof.redacted, tuple[RedactedEvent, ...])
    if proof.broken is not None:
        assert_type(proof.broken.change, HistoryChange)
    assert_type(kept.written, int)
    assert_type(receipt.recovery, Recovery)
    assert_type(receipt.erased["sessions"], Erased)
    assert_type(receipt.to_dict(), dict[str, Any])
    assert_type(receipt.to_json(), str)
    assert_type(found.kind, GarbageKind)


async def templates_keep_the_types_of_what_they_fill(agent: LlmAgent, context: ReadonlyContext) -> None:
    assert_type(resolve_template("Report on {topic}", {"topic": "seats"}), str)
    assert_type(resolve_template(None, None), None)
    assert_type(resolve_tasks([PromptTask(description="{topic}")], {"topic": "seats"}), list[PromptTask])
    assert_type(resolve_agent(agent, {}), LlmAgent)
    settings = TemplateSettings(missing="empty")
    assert_type(await inject_session_state("{user:name}", context, settings=settings), str)
    LlmAgent(name="support", instruction=session_instruction("You help {user:name}."))


def logs_are_lines_of_json(handler: logging.Handler) -> None:
    handler.setFormatter(CloudLoggingFormatter())
