"""A file of the environment says the same to whatever reads it: a shell, Docker, gcloud, ADK."""

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dotenv
import pytest
import yaml

from tests.support.documents import blocks
from tests.terraform.command import Terraform, copied

IMAGE = "europe-west1-docker.pkg.dev/my-project/agents/support:1"
HOSTILE = (
    "it's",
    "a b  c",
    "$(touch pwned) `touch pwned` ; touch pwned & touch pwned",
    "'; touch pwned; '",
    '"$HOME" \\ \\n %s * ~ # !x {a,b}',
    "two\nlines\n",
    "=",
)
"""Values of which a shell makes something else unless they are quoted; the module does not refuse them."""


def planned(terraform: Terraform, folder: Path, **variables: str) -> dict[str, Any]:
    """Return the values of the outputs."""
    outputs = terraform.plan(folder, **variables)["planned_values"]["outputs"]
    return {name: each.get("value") for name, each in outputs.items()}


def taken_by_sh(text: str, folder: Path) -> dict[str, str]:
    """Return the variables that a shell exports after it read *text* as a file, in an empty *folder*."""
    folder.mkdir()
    (folder / "store.env").write_text(text)
    run = subprocess.run(
        ["sh", "-e", "-c", "set -a; . ./store.env; env -0"],  # noqa: S607  # the reader's
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ["store.env"] == [path.name for path in folder.iterdir()], "a value was run"
    found = dict(each.split("=", 1) for each in run.stdout.split("\0") if each)
    return {name: value for name, value in found.items() if name.startswith("ADK_STORE_")}


def taken_by_docker(text: str) -> dict[str, str]:
    """Return what ``docker run --env-file`` makes of *text*: all after the first ``=``, quotes too."""
    return dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))


@pytest.fixture(scope="module", params=["minimal", "cloud_run"])
def outputs(
    terraform: Terraform, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Mapping[str, Any]:
    """What an example says with every default."""
    folder = copied(tmp_path_factory.mktemp("files")) / "examples" / request.param
    image = {"image": IMAGE} if request.param == "cloud_run" else {}
    return planned(terraform, folder, project_id="my-project", **image)


def test_a_shell_and_docker_and_adk_read_the_same(outputs: Mapping[str, Any], tmp_path: Path) -> None:
    """Each its own file; ``(default)`` with its parentheses, which a shell takes for its own."""
    told = outputs["environment"]
    (tmp_path / ".env").write_text(outputs["env_file"])

    assert "(default)" == told["ADK_STORE_DATABASE"]
    assert told == taken_by_sh(outputs["env_file"], tmp_path / "sh")
    assert told == taken_by_docker(outputs["docker_env_file"])
    assert told == dotenv.dotenv_values(tmp_path / ".env")
    assert told == yaml.safe_load(json.dumps(told))  # what gcloud reads as YAML


def test_a_shell_takes_any_value_as_it_is(terraform: Terraform, module: Path, tmp_path: Path) -> None:
    """Quotes, blanks, lines, and what would run a command."""
    place = {"location": "europe-west1", "bucket_name": "my-bucket"}
    given = [planned(terraform, module, project_id=value, **place) for value in HOSTILE]
    taken = [taken_by_sh(each["env_file"], tmp_path / f"sh{n}") for n, each in enumerate(given)]

    assert [each["environment"] for each in given] == taken
    assert list(HOSTILE) == [each["ADK_STORE_PROJECT"] for each in taken]


def test_the_document_gives_each_reader_its_file() -> None:
    """The shell the quoted one, Docker the other, gcloud the JSON, which is YAML."""
    (text,) = [
        text for text in blocks("terraform/examples/minimal/README.md", "bash") if "terraform output" in text
    ]
    read = dict(re.findall(r"terraform output -(?:raw|json) (\w+) > (\S+)", text))

    assert {"env_file", "docker_env_file", "environment"} == set(read)
    assert f". ./{read['env_file']}" in text
    assert f"docker run --env-file {read['docker_env_file']}" in text
    assert f"--env-vars-file {read['environment']}" in text
