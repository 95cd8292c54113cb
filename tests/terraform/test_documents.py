"""What the module's documents say of it is so.

A file of the environment says the same to whatever reads it: a shell, Docker, gcloud, ADK.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dotenv
import pytest
import yaml

from tests.support.documents import all_blocks, blocks, documents
from tests.support.lengths import at_length
from tests.support.programs import ran
from tests.terraform.command import Terraform
from tests.terraform.conftest import REQUIRED
from tests.terraform.declared import FOLDERS, TERRAFORM, outputs, resources, variables
from tests.terraform.declared import blocks as declared_blocks
from tests.terraform.tables import with_tables
from tools.setup.tools import ROOT

KEY = "projects/k/locations/europe-west1/keyRings/r/cryptoKeys/wrapping"
README = (ROOT / "terraform/modules/adk_store/README.md").read_text()


def rows(title: str) -> list[list[str]]:
    """Return the cells of the table below a title of the module's README."""
    section = README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\|(.*)\|$", section, re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines[2:]]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_tables_of_a_readme_are_current(folder: str) -> None:
    """Inputs, outputs and resources; ``python -m tests.terraform.tables`` writes them."""
    text = (TERRAFORM / folder / "README.md").read_text()

    assert with_tables(text, folder) == text


def test_what_it_makes_is_in_the_readme(plans: Callable[..., Mapping[str, Any]]) -> None:
    """As many fields, TTL policies, indexes and rules; each file by its name."""
    plan = plans("modules/adk_store", encryption={"create_key": False, "key": KEY})
    made = [
        each["values"] | {"kind": each["type"]} for each in plan["planned_values"]["root_module"]["resources"]
    ]
    fields = [
        each for each in made if each["kind"] == "google_firestore_field" and each["database"] == "(default)"
    ]
    indexes = [each for each in made if each["kind"] == "google_firestore_index"]
    (bucket,) = (each for each in made if each["kind"] == "google_storage_bucket")
    roles = {each["role"] for each in made if each["kind"].endswith("_iam_member")}
    table = rows("What it makes")
    cells = [resources for _, resources, _ in table]
    ending = sum(bool(each["ttl_config"]) for each in fields)
    files = {path.name for path in (ROOT / "terraform/modules/adk_store").glob("*.tf")}

    assert f"{len(fields)} fields without an index, {ending} of them with a TTL policy" in cells
    assert f"{len(indexes)} composite indexes" in cells
    assert f"{len(bucket['lifecycle_rule'])} lifecycle rules" in cells
    assert roles == set(re.findall(r"`(roles/[\w.]+)`", "".join(why for _, _, why in table)))
    assert files - {"variables.tf", "outputs.tf", "versions.tf"} == {
        file.strip("`") for file, _, _ in table if file
    }


@pytest.mark.parametrize("module", ["adk_store", "bulk_jobs"])
def test_the_configurations_of_the_readme_are_valid(
    terraform: Terraform, configurations: Path, module: str
) -> None:
    """Together, as a reader has them below this repository."""
    folder = configurations / "reader"
    folder.mkdir()
    readme = (ROOT / f"terraform/modules/{module}/README.md").read_text()
    text = "\n".join(["", *re.findall(r"^```hcl\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)])
    (folder / "main.tf").write_text(text.replace("./terraform/", "../"))

    assert f'source = "../modules/{module}"' in (folder / "main.tf").read_text()
    assert [] == terraform.validate(folder)


@pytest.mark.parametrize(
    ("begin", "folder"),
    [("# notes.auto.tfvars", "examples/cloud_run"), ("# of the module", "modules/adk_store")],
)
def test_the_values_of_the_guide_make_a_plan(
    terraform: Terraform, configurations: Path, begin: str, folder: str
) -> None:
    """All that docs/deploying.md says to put into a file, together."""
    shown = [text for text in blocks("docs/deploying.md", "hcl") if text.startswith(begin)]
    place = configurations / folder
    (place / "guide.auto.tfvars").write_text("".join(shown))
    declared = {each.name for each in variables(folder)}

    assert set(re.findall(r"^(\w+) += ", "".join(shown), re.MULTILINE)) <= declared  # a plan only warns
    assert shown
    assert [] == terraform.refusals(place, **REQUIRED[folder])


def test_the_backend_of_the_guide_is_valid(terraform: Terraform, configurations: Path) -> None:
    """Beside the example that it is for."""
    (text,) = [text for text in blocks("docs/deploying.md", "hcl") if text.startswith("# backend.tf")]
    place = configurations / "examples/cloud_run"
    (place / "backend.tf").write_text(text)

    assert [] == terraform.validate(place)


COMMAND = re.compile(r"terraform (?:-chdir=(\S+) )?(apply|output|state rm) ([^;|>)]*)")
NAMED = {"apply": r"-var '?(\w+)=", "output": r"(?:^|\s)(\w+)", "state rm": r"module\.adk_store\.([\w.]+)"}


def test_terraform_commands_of_the_documents_name_what_is_declared() -> None:
    """Folders, variables, outputs, and what is in the state."""
    of_module = {each for _, made in resources("modules/adk_store") for each in made}
    lines = [
        (document, line)
        for document in documents()
        for block in all_blocks(document)
        if block.language == "bash"
        for line in block.lines
    ]
    found = [(document, *command) for document, line in lines for command in COMMAND.findall(line)]
    wrong = []
    for document, place, verb, rest in found:
        folder = (place or str(Path(document).parent)).removeprefix("terraform/")
        known = {
            "apply": {each.name for each in variables(folder)},
            "output": {name for name, _ in outputs(folder)},
            "state rm": of_module,
        }
        wrong += [(document, name) for name in re.findall(NAMED[verb], rest) if name not in known[verb]]

    assert {*NAMED} == {verb for _, _, verb, _ in found}
    assert [] == wrong


def test_every_folder_is_in_the_overview() -> None:
    """Modules and examples, by their READMEs."""
    overview = (ROOT / "terraform/README.md").read_text()

    assert [f"{folder}/README.md" for folder in FOLDERS] == sorted(
        re.findall(r"\]\((\S+README\.md)\)", overview)
    )


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
def example_outputs(
    plans: Callable[..., Mapping[str, Any]], request: pytest.FixtureRequest
) -> Mapping[str, Any]:
    """What an example says with every default."""
    found = plans(f"examples/{request.param}")["planned_values"]["outputs"]
    return {name: each.get("value") for name, each in found.items()}


def test_a_shell_and_docker_and_adk_read_the_same(example_outputs: Mapping[str, Any], tmp_path: Path) -> None:
    """Each its own file; ``(default)`` with its parentheses, which a shell takes for its own."""
    variables = example_outputs["environment"]
    (tmp_path / ".env").write_text(example_outputs["env_file"])

    assert "(default)" == variables["ADK_STORE_DATABASE"]
    assert variables == taken_by_sh(example_outputs["env_file"], tmp_path / "sh")
    assert variables == taken_by_docker(example_outputs["docker_env_file"])
    assert variables == dotenv.dotenv_values(tmp_path / ".env")
    assert variables == yaml.safe_load(json.dumps(variables))  # what gcloud reads as YAML


def test_what_a_shell_would_run_is_refused(terraform: Terraform, module: Path) -> None:
    """In every value of the environment, so that quotes around it are enough."""
    names = ("bucket_name", "database", "prefix", "project_id")
    refused = terraform.refusals(module, location="europe-west1", **dict.fromkeys(names, HOSTILE[0]))
    patterns = {
        labels[0]: json.loads(pattern).replace("$", r"\Z")  # in Go the end of the text, not of a line
        for _, labels, body in declared_blocks("modules/adk_store", "variable")
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
