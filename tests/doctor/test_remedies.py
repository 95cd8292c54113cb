"""Commands that put a deployment right do what they say, and no more."""

import asyncio
import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store import InvalidInputError, StoreSettings
from tests.doctor.conftest import IDENTITY, Look, examined
from tests.doctor.google_apis import BUCKET, GoogleApis, disabled
from tests.doctor.wrong import (
    BUCKET_IAM,
    BUCKET_OF,
    DATABASE_OF,
    ENDED,
    PROJECT_IAM,
    SERVICES,
    UPLOADS,
    rules,
    with_,
    without,
)

HOSTILE = "x'; touch mine #"


@pytest.mark.parametrize(
    ("conditions", "missing"),
    [
        ((), [ENDED, UPLOADS]),
        (({"daysSinceNoncurrentTime": 9}, UPLOADS), [ENDED]),
        (({**ENDED, "matchesPrefix": ["it's mine/"]}, UPLOADS), [ENDED]),
        (({**ENDED, "matchesPrefix": ["adk-payloads/app/"]}, UPLOADS), [ENDED]),
        (({**ENDED, "matchesSuffix": [".png"]}, UPLOADS), [ENDED]),
        ((ENDED, {**UPLOADS, "matchesPrefix": ["adk-store-uploads/a"]}), [UPLOADS]),
    ],
)
def test_lifecycle_rules_are_added_to_those_that_are_there(
    look: Look,
    apis: GoogleApis,
    tmp_path: Path,
    conditions: tuple[dict[str, Any], ...],
    missing: list[dict[str, Any]],
) -> None:
    """Rules that take a part of what they should are not enough; a file of rules replaces all of them."""
    apis.change(BUCKET_OF, rules(*conditions))
    finding = look()["bucket lifecycle"]
    written, applied = finding.commands
    subprocess.run(["/bin/sh", "-c", written], cwd=tmp_path, check=True)

    assert "warn" == finding.status
    assert [*conditions, *missing] == [
        rule["condition"] for rule in json.loads((tmp_path / "lifecycle.json").read_text())["rule"]
    ]
    assert f"gcloud storage buckets update gs://{BUCKET} --lifecycle-file=lifecycle.json" == applied


def test_the_rule_that_takes_what_is_in_use_is_shown(look: Look, apis: GoogleApis) -> None:
    """Not another one before it."""
    logs = {"age": 7, "matchesPrefix": ["logs/"]}
    apis.change(BUCKET_OF, rules(ENDED, UPLOADS, logs, {"age": 30}))

    assert "(age 30)" in look()["bucket lifecycle"].says


@pytest.mark.parametrize(
    ("at", "answer", "check"),
    [
        (BUCKET_IAM, without("permissions"), "IAM of the bucket"),
        (PROJECT_IAM, without("permissions"), "IAM of the database"),
        (DATABASE_OF, with_(locationId=HOSTILE, type="DATASTORE_MODE"), "database"),
        (DATABASE_OF, with_(locationId=HOSTILE), "bucket location"),
        (DATABASE_OF, with_(locationId=HOSTILE), "latency of documents"),
        (SERVICES, disabled(HOSTILE), "APIs"),
        (SERVICES, lambda _: None, "credentials"),
    ],
)
def test_a_name_that_others_chose_is_one_word_of_a_command(
    look: Look, apis: GoogleApis, at: str, answer: Any, check: str
) -> None:
    """Of an account in a file of credentials, or in an API's answer."""
    if callable(answer):
        apis.change(at, answer)
    else:
        apis.refuse(at, answer)
    slow = {"samples_ms": [1000.0], "failure": "slow"}
    identity = replace(IDENTITY, kind="service account key", principal=HOSTILE)
    (command,) = look(identity=identity, documents=slow)[check].commands

    assert [HOSTILE] == [word[-len(HOSTILE) :] for word in shlex.split(command) if "touch" in word]


@pytest.mark.usefixtures("in_production")
def test_a_project_that_cannot_be_one_is_in_no_command(apis: GoogleApis, key_file: Path) -> None:
    """It is refused where the credentials name it."""
    key_file.write_text(json.dumps({**json.loads(key_file.read_text()), "project_id": HOSTILE}))
    with pytest.raises(InvalidInputError, match="must be a Google Cloud project's id"):
        asyncio.run(examined(StoreSettings(credentials_file=str(key_file)), apis))

    assert [] == apis.asked
