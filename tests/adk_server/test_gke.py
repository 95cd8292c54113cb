"""The manifest for GKE is one that Kubernetes takes, and runs the example for Cloud Run on a store."""

import functools
import json
import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from gcp_adk_store import StoreSettings
from gcp_adk_store.cli.command import command
from tests.support.documents import ROOT

MANIFEST = ROOT / "examples/gke/agent.yaml"
EXAMPLE = ROOT / "examples/cloud_run"
FIELDS: Mapping[str, Any] = json.loads((Path(__file__).parent / "kubernetes.json").read_text())
"""Kubernetes 1.31's own fields of the objects that the manifest has, by the reference of its API."""

SCALARS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "integer or string": (int, str),
    "quantity": (int, str),
}

Object = dict[str, Any]


@functools.cache
def objects() -> list[Object]:
    """Return what the manifest has, in order."""
    return list(yaml.safe_load_all(MANIFEST.read_text()))


def the(kind: str) -> Object:
    """Return its one object of a kind."""
    (found,) = (each for each in objects() if each["kind"] == kind)
    return found


def wrong(value: Any, kind: str, place: str) -> Iterator[str]:
    """Yield why *value* is no *kind* of Kubernetes's, each after its place."""
    many, _, inner = kind.partition(" of ")
    types = {"list": (list,), "map": (dict,)}.get(many) or SCALARS.get(kind, (dict,))
    if type(value) not in types:
        yield f"{place}: no {many}"
    elif many == "list":
        for number, each in enumerate(value):
            yield from wrong(each, inner, f"{place}[{number}]")
    elif many == "map":
        for name, each in value.items():
            yield from wrong(each, inner, f"{place}.{name}")
    elif kind not in SCALARS:
        yield from wrong_fields(value, kind, place)


def wrong_fields(value: Object, kind: str, place: str) -> Iterator[str]:
    """Yield which fields of an object are missing, unknown, or wrong themselves."""
    known = FIELDS[kind]["fields"]
    for name in FIELDS[kind].get("required", ()):
        if name not in value:
            yield f"{place}.{name}: missing"
    for name, each in value.items():
        if name in known:
            yield from wrong(each, known[name], f"{place}.{name}")
        else:
            yield f"{place}.{name}: unknown"


def pod(kind: str) -> tuple[Object, Object]:
    """Return the pod that an object makes, and its one container."""
    spec = the(kind)["spec"]
    if kind == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    found = spec["template"]["spec"]
    (container,) = found["containers"]
    return found, container


def test_every_field_is_one_of_kubernetes() -> None:
    """By name and type, with those that are required."""
    assert [] == [fault for each in objects() for fault in wrong(each, each["kind"], each["kind"])]


def test_what_belongs_together_is_found() -> None:
    """In one namespace: pods by their labels, accounts and variables by name, ports by name and number."""
    deployment = the("Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    _, container = pod("Deployment")
    (port,) = container["ports"]
    (listens,) = (each["value"] for each in container["env"] if each["name"] == "PORT")
    namespaces = {each["metadata"].get("namespace") for each in objects() if each["kind"] != "Namespace"}

    assert {the("Namespace")["metadata"]["name"]} == namespaces
    assert labels == deployment["selector"]["matchLabels"] == the("Service")["spec"]["selector"]
    assert [port["name"]] == [each["targetPort"] for each in the("Service")["spec"]["ports"]]
    assert str(port["containerPort"]) == listens
    assert {(port["name"], "/health")} == {
        (container[probe]["httpGet"]["port"], container[probe]["httpGet"]["path"])
        for probe in ("startupProbe", "readinessProbe", "livenessProbe")
    }


@pytest.mark.parametrize("kind", ["Deployment", "CronJob"])
def test_pods_act_as_the_account_of_the_store_on_the_store(kind: str) -> None:
    """With the module's environment, and as a user without rights, which is that of the image.

    They meet the standard that their namespace enforces.
    """
    found, container = pod(kind)
    account = the("ServiceAccount")["metadata"]
    (variables,) = container["envFrom"]
    environment = the("ConfigMap")
    user = re.findall(r"^USER (\d+)$", (EXAMPLE / "Dockerfile").read_text(), re.MULTILINE)
    email = account["annotations"]["iam.gke.io/gcp-service-account"]

    assert account["name"] == found["serviceAccountName"]
    assert re.fullmatch(r"adk-store@my-project\.iam\.gserviceaccount\.com", email)
    assert environment["metadata"]["name"] == variables["configMapRef"]["name"]
    assert StoreSettings.from_env(environment["data"]) == StoreSettings(
        project="my-project", database="(default)", bucket="my-project-adk", prefix="adk"
    )
    assert found["securityContext"]["runAsNonRoot"]
    assert user == [str(found["securityContext"]["runAsUser"])]
    assert ["ALL"] == container["securityContext"]["capabilities"]["drop"]

    # What the standard ``restricted`` asks of a pod beside a user without rights. It writes nothing but a
    # bounded folder of its own, where ADK and Python look for their home and for temporary files.
    (volume,) = found["volumes"]
    (mount,) = container["volumeMounts"]
    homes = {each["value"] for each in container["env"] if each["name"] == "HOME"}

    assert {"pod-security.kubernetes.io/enforce": "restricted"} == the("Namespace")["metadata"]["labels"]
    assert "RuntimeDefault" == found["securityContext"]["seccompProfile"]["type"]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert {"name", "emptyDir"} == set(volume)
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert {mount["mountPath"]} == {"/tmp"} == homes  # noqa: S108  # the pod's
    assert volume["name"] == mount["name"]
    assert volume["emptyDir"]["sizeLimit"]


def test_a_drain_of_nodes_leaves_a_pod() -> None:
    """One of those of the deployment, so that the drain can go on."""
    budget = the("PodDisruptionBudget")["spec"]
    deployment = the("Deployment")["spec"]

    assert budget["selector"] == deployment["selector"]
    assert 1 == budget["minAvailable"] < deployment["replicas"]


def allowed(address: str, port: int) -> bool:
    """Whether the policy lets a pod send to an address outside of the cluster."""
    return any(
        ip_address(address) in ip_network(peer["ipBlock"]["cidr"])
        and not any(ip_address(address) in ip_network(each) for each in peer["ipBlock"].get("except", ()))
        for rule in the("NetworkPolicy")["spec"]["egress"]
        if port in {each["port"] for each in rule["ports"]}
        for peer in rule["to"]
        if "ipBlock" in peer
    )


def test_pods_reach_what_they_need_and_nothing_beside_it() -> None:
    """Google's APIs, names and tokens; not the machines of the network."""
    policy = the("NetworkPolicy")["spec"]
    (way_in,) = policy["ingress"]
    (port,) = pod("Deployment")[1]["ports"]

    assert {"Ingress", "Egress"} == set(policy["policyTypes"])
    assert {} == policy["podSelector"]
    assert [port["name"]] == [each["port"] for each in way_in["ports"]]
    assert all({"namespaceSelector", "podSelector"} == set(peer) for peer in way_in["from"])
    for needed in (
        ("199.36.153.8", 443),
        ("142.250.0.1", 443),
        ("169.254.169.254", 80),
        ("169.254.169.252", 988),
    ):
        assert allowed(*needed)
    for other in (("10.0.0.5", 443), ("192.168.1.1", 443), ("142.250.0.1", 80), ("169.254.169.254", 443)):
        assert not allowed(*other)


def test_a_pod_that_ends_has_time_for_its_turns() -> None:
    """Those that come until nobody sends any more, then those that the server lets end."""
    found, container = pod("Deployment")
    program, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    (grace_s,) = re.findall(r"^GRACE_S = (\d+)$", (EXAMPLE / "main.py").read_text(), re.MULTILINE)

    assert "sleep" == program
    assert int(seconds) + int(grace_s) < found["terminationGracePeriodSeconds"]


def test_the_collector_is_a_command_of_the_package() -> None:
    """In the same image; one at a time."""
    _, agent = pod("Deployment")
    _, container = pod("CronJob")
    name, *arguments = container["args"]
    part = command.get_command(click.Context(command), name)
    assert part is not None
    parsed = part.make_context(name, arguments)

    assert agent["image"] == container["image"]
    assert "command" not in agent
    assert ["gcp-adk-store", "gc"] == [*container["command"], name]
    assert not parsed.params["dry_run"]
    assert "Forbid" == the("CronJob")["spec"]["concurrencyPolicy"]
