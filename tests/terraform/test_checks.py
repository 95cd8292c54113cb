"""The module and its examples are what the provider takes, and a mistake in them is told."""

import json
import re
from pathlib import Path

import pytest

from setup.tools import ROOT
from tests.terraform.command import Terraform

CONFIGURATIONS = sorted(
    str(folder.relative_to(ROOT / "terraform"))
    for parent in ("modules", "examples")
    for folder in (ROOT / "terraform" / parent).iterdir()
)
MODULE = "modules/adk_store"


def test_files_are_formatted(terraform: Terraform) -> None:
    """As ``terraform fmt`` has them."""
    told = terraform("fmt", "-check", "-recursive", "-diff", folder=ROOT / "terraform")

    assert (0, "") == (told.returncode, told.stdout)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_configuration_is_valid(terraform: Terraform, configurations: Path, name: str) -> None:
    """Every argument is one that the provider has, of its type, and nothing required is missing."""
    assert [] == terraform.validate(configurations / name)


def test_the_modules_own_tests_pass(terraform: Terraform, module: Path) -> None:
    """They plan, apply to mocked providers, and ask what cannot be."""
    told = terraform("test", "-no-color", folder=module)

    assert "0 failed" in told.stdout, told.stdout + told.stderr
    assert "Success!" in told.stdout


@pytest.mark.parametrize("name", [name for name in CONFIGURATIONS if name.startswith("examples/")])
def test_an_example_can_be_planned(terraform: Terraform, configurations: Path, name: str) -> None:
    """With no more than what it requires."""
    required = {"project_id": "my-project"}
    if name.endswith(("cloud_run", "dataflow")):
        required["image"] = "europe-west1-docker.pkg.dev/my-project/agents/support:1"
    plan = terraform.plan(configurations / name, **required)
    actions = {action for change in plan["resource_changes"] for action in change["change"]["actions"]}

    assert {"create"} <= actions <= {"create", "read"}


@pytest.mark.parametrize(
    ("file", "right", "wrong", "told"),
    [
        pytest.param(
            f"{MODULE}/storage.tf",
            "public_access_prevention ",
            "public_access_preventoin ",
            'Did you mean "public_access_prevention"',
            id="a misspelt argument",
        ),
        pytest.param(
            f"{MODULE}/firestore.tf",
            "  location_id      = var.location\n",
            "",
            'The argument "location_id" is required',
            id="a required argument is missing",
        ),
        pytest.param(
            f"{MODULE}/iam.tf",
            '    expression  = "resource.name',
            '    # expression  = "resource.name',
            'The argument "expression" is required',
            id="a required argument of a block is missing",
        ),
        pytest.param(
            f"{MODULE}/firestore.tf",
            "  fields {\n",
            "  field {\n",
            'Did you mean "fields"',
            id="a misspelt block",
        ),
        pytest.param(
            f"{MODULE}/storage.tf",
            '    action {\n      type = "AbortIncompleteMultipartUpload"\n    }\n',
            "",
            'At least 1 "action" blocks are required',
            id="a required block is missing",
        ),
        pytest.param(
            f"{MODULE}/storage.tf",
            "  soft_delete_policy {\n",
            "  soft_delete_policy {}\n  soft_delete_policy {\n",
            'No more than 1 "soft_delete_policy" blocks are allowed',
            id="a block too many",
        ),
        pytest.param(
            f"{MODULE}/firestore.tf",
            "  index_config {}\n",
            "  index_config = {}\n",
            'An argument named "index_config" is not expected here',
            id="a block as an argument",
        ),
        pytest.param(
            f"{MODULE}/storage.tf",
            "uniform_bucket_level_access = true",
            'uniform_bucket_level_access = "yes"',
            "a bool is required",
            id="another type",
        ),
        pytest.param(
            f"{MODULE}/firestore.tf",
            '"FIRESTORE_NATIVE"',
            '"NATIVE"',
            "expected type to be one of",
            id="a value that is none",
        ),
        pytest.param(
            f"{MODULE}/storage.tf",
            "  labels  ",
            '  self_link = "mine"\n  labels  ',
            "self_link cannot be set",
            id="an argument that the provider computes",
        ),
        pytest.param(
            f"{MODULE}/firestore.tf",
            'resource "google_firestore_backup_schedule" "daily"',
            'resource "google_firestore_backup" "daily"',
            'does not support resource type "google_firestore_backup"',
            id="a resource that is none",
        ),
        pytest.param(
            f"{MODULE}/outputs.tf",
            "google_storage_bucket.this.name",
            "google_storage_bucket.this.bucket",
            'no argument, nested block, or exported attribute named "bucket"',
            id="an attribute that is none",
        ),
        pytest.param(
            f"{MODULE}/firestore.tf",
            "var.prefix",
            "var.prefx",
            'An input variable with the name "prefx" has not been declared',
            id="a misspelt variable",
        ),
        pytest.param(
            "examples/minimal/main.tf",
            "  project_id = var.project_id\n}",
            "}",
            'The argument "project_id" is required',
            id="a required variable of the module is missing",
        ),
        pytest.param(
            "examples/cloud_run/main.tf",
            "min_instance_count =",
            "min_instances =",
            'An argument named "min_instances" is not expected here',
            id="a misspelt argument of an example",
        ),
    ],
)
def test_a_mistake_is_told(
    terraform: Terraform, configurations: Path, file: str, right: str, wrong: str, told: str
) -> None:
    """Each in a copy that is right but for it."""
    path = configurations / file
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong, 1))
    errors = terraform.validate(path.parent)

    assert any(told in error for error in errors), errors


def test_the_modules_own_tests_can_fail(terraform: Terraform, module: Path) -> None:
    """What is valid can be wrong all the same."""
    for file, right, wrong in (
        ("firestore.tf", 'deletion_policy = "DELETE"', 'deletion_policy = "ABANDON"'),
        ("iam.tf", "databases/${google_firestore_database.this.name}", "databases/*"),
        ("variables.tf", "days <= 98", "days <= 99"),
    ):
        text = (module / file).read_text()
        assert right in text
        (module / file).write_text(text.replace(right, wrong))
    told = terraform("test", "-no-color", folder=module)
    failed = set(re.findall(r'run "(\w+)"\.\.\. fail', told.stdout))

    assert {"by_default_data_is_hard_to_lose", "grants_are_the_least", "what_cannot_be_is_refused"} == failed


@pytest.mark.parametrize(
    ("version", "taken"), [("6.50.0", False), ("7.0.0", True), ("8.99.0", True), ("9.0.0", False)]
)
def test_the_provider_may_be_of_two_major_versions(
    terraform: Terraform,
    configurations: Path,
    tmp_path: Path,
    version: str,
    taken: bool,  # noqa: FBT001
) -> None:
    """A folder has that version and no other, so that terraform takes it or finds none."""
    platform = json.loads(terraform("version", "-json", folder=tmp_path).stdout)["platform"]
    sources = terraform("providers", folder=configurations / MODULE).stdout
    mirror = tmp_path / "mirror"
    for name, number in (("google", version), ("time", "0.13.0")):
        source = re.search(rf"provider\[(\S+/{name})\]", sources)
        assert source is not None
        folder = mirror / source[1] / number / platform
        folder.mkdir(parents=True)
        # Installed, never run.
        (folder / f"terraform-provider-{name}_v{number}").touch(mode=0o755)
    settings = tmp_path / "mirror.tfrc"
    settings.write_text(
        f'provider_installation {{\n  filesystem_mirror {{\n    path = "{mirror}"\n  }}\n}}\n'
    )
    told = terraform(
        "init",
        "-input=false",
        "-no-color",
        folder=configurations / "examples/minimal",
        environ={"TF_CLI_CONFIG_FILE": str(settings), "TF_REATTACH_PROVIDERS": None},
    )

    assert taken == (told.returncode == 0), told.stdout + told.stderr
    assert taken or "no available releases match the given constraints" in told.stderr.replace("\n", " ")


def test_stand_ins_make_nothing(terraform: Terraform, configurations: Path) -> None:
    """An apply by mistake must not look as if it had worked."""
    folder = configurations / "examples/minimal"
    terraform("get", folder=folder)
    told = terraform("apply", "-auto-approve", "-var=project_id=my-project", "-no-color", folder=folder)

    assert 1 == told.returncode
    assert "Apply complete" not in told.stdout
