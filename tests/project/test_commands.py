"""Whatever the documents ask a reader to run is run by a test, or says that it needs what no test has."""

import asyncio
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from gcp_adk_store import Store
from gcp_adk_store.cli.command import command as gcp_adk_store
from gcp_adk_store.testing.emulators import Emulator
from tests.support.documents import ROOT, Block, all_blocks, blocks, command, documents
from tests.support.programs import ran
from tests.support.ready_programs import ready_path

TAKEN = ("gcp-adk-store adk ", "gcp-adk-store ces ", "PORT=", "URL=")
"""How blocks begin that tests/adk_server/test_servers.py and tests/ces/sample/test_sample.py take from the
documents and run as they are."""

RUN = {
    "test_one_test_is_run_as_contributors_begin": (
        "make python",
        ".venv/bin/python -m pytest -q tests/unit/test_keys.py",
    ),
    "test_bash_completes_with_the_line_of_the_documents": (
        'eval "$(_GCP_ADK_STORE_COMPLETE=bash_source gcp-adk-store)"',
    ),
    "test_a_short_storm_ends_well": ("make chaos SECONDS=60 SEED=7",),
    "test_templates_are_linted": (
        "gcp-adk-store template lint prompt.txt",
        "gcp-adk-store template lint my_agents.support:root_agent --session app/user/id",
    ),
    "test_the_page_of_encryption_is_run": ("gcp-adk-store rotate-keys",),
    "test_the_benchmark_measures_every_subject_of_every_scenario": (
        "make bench",
        "make bench OPTIONS=--quick",
    ),
    "test_the_benchmark_takes_the_options_of_the_documents": (
        'make bench OPTIONS="--only append --rounds 500"',
        'make bench OPTIONS="--rtt 0,10"',
        'make bench OPTIONS="--only append --uvloop"',
        'make bench OPTIONS="--only append --profile 8"',
    ),
    "test_the_collector_is_measured_as_it_is_set_in_three_ways": ("python -m tools.benchmarks.collector",),
    "test_the_command_runs_both_until_it_is_asked_to_end": (
        "python -m gcp_adk_store.testing --logs emulators/logs",
    ),
    "test_the_demo_needs_no_emulator": ("make demo",),
    "test_the_emulators_are_looked_at_as_far_as_they_go": (
        "gcp-adk-store doctor --project my-project --database '(default)' --bucket my-bucket --prefix adk",
    ),
    "test_the_commands_of_bulk_jobs_in_the_documents_run": (
        "gcp-adk-store bulk export --app support support -- --direct_num_workers 1",
        "gcp-adk-store bulk read --app support sessions",
        "gcp-adk-store bulk verify --app support broken",
        "gcp-adk-store bulk prune --app support --idle-days 90 --dry-run",
        "gcp-adk-store bulk erase --app support --dry-run users.txt receipts",
    ),
    "test_the_exports_are_all_that_adk_needs_to_keep_evaluations": (
        "gcp-adk-store emulators --bucket my-bucket",
    ),
    "test_the_page_of_long_histories_archives": (
        "gcp-adk-store sessions archive --app shop --user ada --session s1 --keep 200 --dry-run",
        "gcp-adk-store prune --app shop --keep-events 200",
    ),
    "test_the_command_of_the_page_opens_it": ("gcp-adk-store inspect --local support-store",),
    "test_the_folder_of_the_document_is_examined": ("gcp-adk-store doctor --local support-store",),
    "test_the_store_of_the_emulators_is_looked_at": (
        "gcp-adk-store doctor",
        "gcp-adk-store gc --dry-run",
        "python -m gcp_adk_store.testing --bucket my-bucket",
    ),
    "test_the_page_shows_a_session_with_its_history": ("python -m examples.chat.main",),
    "test_the_worked_example_is_what_the_command_says": (
        (
            "gcp-adk-store cost --turns-per-day 10000 --events-per-turn 6 --history 200 "
            "--scopes session,user --artifacts-per-turn 0.1"
        ),
    ),
    "test_the_costs_of_the_services_are_what_the_command_says": (
        "gcp-adk-store cost --like chat --turns-per-day 1000",
        "gcp-adk-store cost --like chat --turns-per-day 100000",
        "gcp-adk-store cost --like chat --turns-per-day 1000000",
    ),
    "test_the_table_of_sizes_is_what_the_command_says": (
        "gcp-adk-store cost --like chat --rate EUR=0.9",
        "gcp-adk-store cost --like voice --rate EUR=0.9",
        "gcp-adk-store cost --like agents --rate EUR=0.9",
    ),
    "test_what_was_not_run_shows_nothing": ("make test",),
}
"""Every other command that needs nothing but what tests have, by a test that runs it or a shorter form."""

PAGES = {
    "docs/cli.md": "test_the_examples_of_the_page_run",
    "docs/erasure.md": "test_the_commands_of_the_page_run",
    "docs/how-to/back-up-and-restore.md": "test_an_export_of_the_page_is_imported",
    "docs/how-to/encrypt.md": "test_the_store_of_the_page_keeps_nothing_in_the_clear",
    "docs/how-to/remember-across-sessions.md": "test_the_agent_of_the_page_remembers",
    "docs/quickstart.md": "test_the_quickstart_runs",
    **{page: "test_the_tutorial_runs" for page in documents() if page.startswith("docs/tutorial/")},
}
"""Pages from which a test takes each of their commands, but for those that are listed above."""

PYTHON = {
    "README.md": 2,
    "docs/bulk.md": 1,
    "docs/ces-commands.md": 1,
    "docs/ces-conversations.md": 2,
    "docs/ces-runtime.md": 2,
    "docs/credentials.md": 1,
    "docs/deploying.md": 1,
    "docs/encryption.md": 1,
    "docs/erasure.md": 3,
    "docs/following.md": 3,
    "docs/fsck.md": 1,
    "docs/how-to/authenticate.md": 1,
    "docs/how-to/encrypt.md": 1,
    "docs/how-to/fork-and-restore.md": 1,
    "docs/how-to/handle-conflicts.md": 1,
    "docs/how-to/limit-lifetime.md": 1,
    "docs/how-to/list-sessions.md": 1,
    "docs/how-to/long-histories.md": 3,
    "docs/how-to/remember-across-sessions.md": 1,
    "docs/how-to/signed-urls.md": 1,
    "docs/how-to/simulate.md": 2,
    "docs/how-to/test-with-faults.md": 1,
    "docs/inspector.md": 2,
    "docs/integrations/adk-catalogue.md": 1,
    "docs/memory.md": 5,
    "docs/moving.md": 2,
    "docs/performance.md": 1,
    "docs/points.md": 4,
    "docs/quickstart.md": 2,
    "docs/tasks.md": 1,
    "docs/telemetry.md": 2,
    "docs/templates.md": 2,
    "docs/testing.md": 4,
    "docs/turns.md": 8,
    "docs/tutorial/1-persist.md": 2,
    "docs/tutorial/2-artifacts.md": 1,
    "docs/tutorial/3-test.md": 1,
    "docs/tutorial/5-one-turn-at-a-time.md": 1,
    "docs/tutorial/6-cloud-run.md": 1,
}
"""How many blocks of Python a document has: tests/telemetry runs those of telemetry.md, tests/memory those of
memory.md, tests/beam that of bulk.md, tests/erasure that of erasure.md, tests/encryption that of
encryption.md, tests/inspector that of inspector.md, tests/ces those of ces-*.md, tests/tasks that of
tasks.md, tests/turns those of turns.md, tests/adk_server those of following.md, tests/website those of the
quickstart, the tutorial, how-to/ and integrations/, and test_documents_for_readers.py all others."""

CONFIGURATION = {
    "docs/adk-server.md": "test_a_server_reads_the_file_beside_the_agents",
    "docs/ces-commands.md": "test_scripts_evaluations_and_tests_of_the_pages_are_read",
    "docs/ces-conversations.md": "test_scripts_evaluations_and_tests_of_the_pages_are_read",
    "docs/ces-evaluations.md": "test_scripts_evaluations_and_tests_of_the_pages_are_read",
    "docs/cli.md": "test_the_lines_of_the_page_are_those_of_an_export",
    "docs/deploying.md": "test_the_values_of_the_guide_make_a_plan",
    "docs/doctor.md": "test_every_check_is_explained",
    "docs/memory.md": "test_a_services_yaml_may_give_an_embedder",
    "docs/tasks.md": "test_the_services_yaml_of_tasks_is_loaded",
    "terraform/modules/bulk_jobs/README.md": "test_the_configurations_of_the_readme_are_valid",
    "terraform/modules/adk_store/README.md": "test_the_configurations_of_the_readme_are_valid",
}
"""Documents with blocks of YAML, JSON or HCL, and a test that reads them."""

PROGRAMS = {"apt-get", "curl", "docker", "export", "gcloud", "gcp-adk-store", "git", "kubectl", "make", "npx"}
PROGRAMS |= {"pip", "pytest", "python", "sudo", "terraform"}


@cache
def every_block() -> list[Block]:
    """Return the blocks of all documents."""
    return [block for document in documents() for block in all_blocks(document)]


@cache
def sources() -> str:
    """Return all tests."""
    return "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


def without_blocks(document: str) -> str:
    """Return a document without its fenced blocks."""
    return re.sub(r"^( *)```.*?^\1```$", "", (ROOT / document).read_text(), flags=re.DOTALL | re.MULTILINE)


def inline(document: str) -> Iterator[tuple[str, str]]:
    """Yield each command within the text of a document, with the section that it stands in."""
    for section in re.split(r"^#+ ", without_blocks(document), flags=re.MULTILINE):
        for found in re.findall(r"`([^`\n]+)`", section):
            if found.partition(" ")[0] in PROGRAMS and " " in found:
                yield found, section


def test_a_block_is_of_a_language_that_is_looked_at() -> None:
    """One without a language has no commands; indented code without a fence would not be seen at all."""
    known = {"", "bash", "hcl", "json", "python", "yaml"}
    hidden = [
        (block.document, line)
        for block in every_block()
        if not block.language
        for line in block.lines
        if line.split()[0] in PROGRAMS
    ]
    unfenced = [
        (document, line)
        for document in documents()
        for line in re.findall(r"(?:^|\n)\n    (\w.*)", without_blocks(document))
    ]

    assert known >= {block.language for block in every_block()}
    assert [] == hidden
    assert [] == unfenced


def test_every_command_is_run_by_a_test_or_says_what_it_needs() -> None:
    """And no test is named for what no document has any more."""
    free = [block for block in every_block() if block.language == "bash" and not block.needs]
    asked = [
        (block.document, line) for block in free if not block.text.startswith(TAKEN) for line in block.lines
    ]
    taken = {line for page, line in asked if page in PAGES}
    listed = {line for named in RUN.values() for line in named}

    assert set() == listed - {line for _, line in asked}
    assert [] == [(page, line) for page, line in asked if line not in listed | taken]
    assert set() == {name for name in (*RUN, *PAGES.values()) if f"def {name}(" not in sources()}
    assert set() == {*PAGES} - {page for page, _ in asked}


def test_every_other_block_is_run_or_read_by_a_test() -> None:
    """Python as often as there are tests for it, and configurations where one reads them."""
    python: dict[str, int] = {}
    for block in every_block():
        if block.language == "python" and not block.needs:
            python[block.document] = python.get(block.document, 0) + 1
    configuration = {block.document for block in every_block() if block.language in ("hcl", "json", "yaml")}

    assert python == PYTHON
    assert set(CONFIGURATION) == configuration
    assert set() == {name for name in CONFIGURATION.values() if f"def {name}(" not in sources()}


@pytest.mark.parametrize("document", documents())
def test_commands_within_the_text_can_be_given(document: str) -> None:
    """Ours with these options, make's targets, extras; what needs a project stands where that is said."""
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for given, section in inline(document):
        program, *arguments = shlex.split(given.replace("...", ""))
        if program == "gcp-adk-store" and arguments:
            part: Any = gcp_adk_store
            while arguments and isinstance(part, click.Group):
                part = part.get_command(click.Context(part), arguments.pop(0))
                assert part is not None, given
            if part.name != "adk" and arguments:
                part.make_context(part.name, arguments)
        elif program == "make":
            assert arguments[0] in targets, given
        elif program == "pip":
            named = re.findall(r"\[([\w,]+)\]", given)
            assert set(",".join(named).split(",")) <= {*extras, ""}, given
        elif program in ("docker", "gcloud", "kubectl", "npx", "terraform"):
            named_only = re.fullmatch(r"[\w -]+?", given) and " -" not in given
            assert named_only or re.search(r"needs? (a real|the network)", section), given


@pytest.mark.parametrize(
    ("target", "module"),
    [
        ("bench", "tools.benchmarks"),
        ("bench-memory", "tools.benchmarks.memory"),
        ("bench-templates", "tools.benchmarks.templates"),
        ("chaos", "tests.chaos"),
        ("demo", "examples.demo"),
        ("emulators", "gcp_adk_store.testing"),
    ],
)
def test_make_runs_the_module_that_tests_run(target: str, module: str) -> None:
    """On its environment, with nothing around it."""
    (line,) = made(target)

    assert ["-m", module] == [word for word in line if word not in ("-W", "ignore")][1:3]


def dry(target: str, *variables: str) -> str:
    """Return the lines that ``make`` would run for a target."""
    run = ran(
        ["make", "--dry-run", target, *variables], cwd=ROOT, env={"PATH": os.environ["PATH"]}, check=True
    )
    return run.stdout


def made(target: str, *variables: str) -> list[list[str]]:
    """Return the commands that ``make`` would run for a target after its set-up, word by word."""
    lines = [shlex.split(line) for line in dry(target, *variables).splitlines()]
    return [line for line in lines if line[1:3] != ["-m", "tools.setup"]]


def test_one_test_is_run_as_contributors_begin() -> None:
    """In the environment of the clone; the first command does no more than make it."""
    install, (_, *words) = (shlex.split(line) for line in blocks("CONTRIBUTING.md", "bash")[0].splitlines())
    run = ran([sys.executable, *words], cwd=ROOT)

    assert [] == made(*install[1:])
    assert 0 == run.returncode, run.stdout
    assert " passed" in run.stdout


@pytest.fixture
def environ(firestore_emulator: Emulator, storage_emulator: Emulator) -> Mapping[str, str]:
    """The variables of a reader who has installed the package and runs the emulators."""
    return {
        firestore_emulator.variable: firestore_emulator.address,
        storage_emulator.variable: storage_emulator.address,
        "PATH": ready_path(os.environ),
        "PYTHONPATH": str(ROOT),  # the code of this folder, whatever is installed
    }


def test_the_store_of_the_emulators_is_looked_at(environ: Mapping[str, str], tmp_path: Path) -> None:
    """In a shell that took the printed lines, as docs/deploying.md says."""
    start = command("docs/deploying.md", "gcp_adk_store.testing").strip()
    look = command("docs/deploying.md", "gcp-adk-store doctor")
    shell = ["bash", "-e", "-c"]
    with subprocess.Popen(
        [*shell, f"exec {start}"], cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True
    ) as emulators:
        assert emulators.stdout is not None
        printed = "".join(
            iter(
                emulators.stdout.readline,
                "# Paste these lines into the shell that needs them; "
                "Ctrl-C here ends what was started here.\n",
            )
        )
        run = ran([*shell, printed + look], cwd=tmp_path, env=environ)
        emulators.terminate()

    assert 0 == run.returncode, run.stdout + run.stderr
    assert re.search(r"^ *ok +documents ", run.stdout, re.MULTILINE)
    assert re.search(r"^ *ok +objects ", run.stdout, re.MULTILINE)
    assert "nothing: all content is in use" in run.stdout


async def test_templates_are_linted(project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file, and an agent of a module beside a session, as docs/templates.md has them."""
    async with Store.connect(project=project) as store:
        await store.sessions.create_session(app_name="app", user_id="user", session_id="id")
    (tmp_path / "prompt.txt").write_text("Report on {topic}")
    (tmp_path / "my_agents").mkdir()
    agent = 'LlmAgent(name="support", instruction="You help {user:name?}.")'
    (tmp_path / "my_agents/support.py").write_text(
        f"from google.adk.agents import LlmAgent\nroot_agent = {agent}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ADK_STORE_PROJECT", project)
    found = [line for text in blocks("docs/templates.md", "bash") for line in text.splitlines()]
    linted = [
        await asyncio.to_thread(CliRunner().invoke, gcp_adk_store, shlex.split(line)[1:]) for line in found
    ]
    output = "".join(result.output for result in linted)

    assert ["{topic}", "{user:name?}"] == re.findall(r"\{[\w:?]+\}", output), output


@pytest.mark.long
def test_the_benchmark_takes_the_options_of_the_documents(environ: Mapping[str, str], tmp_path: Path) -> None:
    """All in one run, which other options then make a short one."""
    named = re.findall(
        r'^make bench OPTIONS="?([^"\n]+)"?', (ROOT / "docs/performance.md").read_text(), re.MULTILINE
    )
    options = [word for option in named for word in shlex.split(option.split("  ")[0])]
    ((_, *words),) = made("bench", f"OPTIONS={' '.join(options)}")
    # What is said last holds: figures, and no profile, which has none.
    short = ["--only", "create", "--rounds", "2", "--profile", "0", "--json", str(tmp_path / "bench.json")]
    run = ran([sys.executable, *words, *short], cwd=ROOT, env=environ)

    assert {"--only", "--rounds", "--rtt", "--quick", "--uvloop", "--profile"} <= set(options)
    assert 0 == run.returncode, run.stderr
    assert (tmp_path / "bench.json").exists()


@pytest.mark.long
def test_a_short_storm_ends_well(environ: Mapping[str, str]) -> None:
    """The command of docs/proofs.md, for a second."""
    (line,) = (shlex.split(text) for text in blocks("docs/proofs.md", "bash"))
    ((_, *words),) = made(*line[1:])
    run = ran([sys.executable, *words, "--seconds", "1"], cwd=ROOT, env=environ)

    assert 0 == run.returncode, run.stdout + run.stderr
    assert "seed 7" in run.stdout
