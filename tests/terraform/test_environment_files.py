"""A file of the environment says the same to whatever reads it: a shell, Docker, gcloud, ADK."""

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dotenv
import pytest
import yaml

from tests.support.documents import blocks
from tests.support.lengths import at_length
from tests.support.programs import ran
from tests.terraform import declared
from tests.terraform.command import Terraform

HOSTILE = (
    "it's",
    "a b  c",
    "$(touch pwned) `touch pwned` ; touch pwned & touch pwned",
    "'; touch pwned; '",
    '"$HOME" \\ \\n %s * ~ # !x {a,b}',
    "two\nlines\n",
    "=",
)
"""Values of which a shell makes something else, or ends a value before its end."""


def taken_by_sh(text: str, folder: Path) -> dict[str, str]:
    """Return the variables that a shell exports after the guide's line, in an empty *folder* with *text*."""
    guide = "\n".join(blocks("docs/deploying.md", "bash"))
    (line,) = [each for each in guide.splitlines() if "output -raw env_file" in each]
    folder.mkdir()
    (folder / "store.env").write_text(text)
    run = ran(
        ["sh", "-e", "-c", f"terraform() {{ cat store.env; }}; {line}; env -0"],
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        check=True,
    )
    assert ["store.env"] == [path.name for path in folder.iterdir()], "a value was run"
    found = dict(each.split("=", 1) for each in run.stdout.split("\0") if each)
    return {name: value for name, value in found.items() if name.startswith("ADK_STORE_")}


def taken_by_docker(text: str) -> dict[str, str]:
    """Return what ``docker run --env-file`` makes of *text*: all after the first ``=``, quotes too."""
    return dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))


@pytest.fixture(params=at_length(["cloud_run"], ["cloud_run", "minimal"]))
def outputs(plans: Callable[..., Mapping[str, Any]], request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """What an example says with every default."""
    found = plans(f"examples/{request.param}")["planned_values"]["outputs"]
    return {name: each.get("value") for name, each in found.items()}


def test_a_shell_and_docker_and_adk_read_the_same(outputs: Mapping[str, Any], tmp_path: Path) -> None:
    """Each its own file; ``(default)`` with its parentheses, which a shell takes for its own."""
    variables = outputs["environment"]
    (tmp_path / ".env").write_text(outputs["env_file"])

    assert "(default)" == variables["ADK_STORE_DATABASE"]
    assert variables == taken_by_sh(outputs["env_file"], tmp_path / "sh")
    assert variables == taken_by_docker(outputs["docker_env_file"])
    assert variables == dotenv.dotenv_values(tmp_path / ".env")
    assert variables == yaml.safe_load(json.dumps(variables))  # what gcloud reads as YAML


def test_what_a_shell_would_run_is_refused(terraform: Terraform, module: Path) -> None:
    """In every value of the environment, so that quotes around it are enough."""
    names = ("bucket_name", "database", "prefix", "project_id")
    refused = terraform.refusals(module, location="europe-west1", **dict.fromkeys(names, HOSTILE[0]))
    patterns = {
        labels[0]: json.loads(pattern).replace("$", r"\Z")  # in Go the end of the text, not of a line
        for _, labels, body in declared.blocks("modules/adk_store", "variable")
        for pattern in re.findall(r'regex\((".*?\$"), var\.', body)
        if labels[0] in names
    }

    assert len(names) == len(refused), refused
    assert set(names) == set(patterns)
    assert [] == [
        (name, given) for name, pattern in patterns.items() for given in HOSTILE if re.match(pattern, given)
    ]


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
