"""Stand in for Terraform's providers: their schemas, and nothing behind them.

Terraform asks a provider's process which arguments a resource has before it can check, plan or test a
configuration. The real ones are downloaded; these answer from files, so that a module is checked offline.
They create nothing: an apply is refused. What only the real provider knows is not checked here: forms of
names, arguments that exclude each other, what Google's API accepts.

A schema file lists, for each resource and data source that the modules here use, the arguments that are
``required``, ``optional``, ``computed`` or both of the latter, with ``values`` where few are allowed, and its
``blocks``, of which a configuration may have from ``least`` to ``most``. An argument that a module needs and
that is missing here is added from the provider's documentation.

Runs in the environment of requirements.txt, until its standard input ends::

    python stand_in.py FOLDER SCHEMA.json...
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import msgpack
from tf.gen import tfplugin_pb2 as pb

Block = Mapping[str, Any]

_KINDS = ("required", "optional", "optional_computed", "computed")
_CONFIGURATION = {
    "optional": {
        "billing_project": "string",
        "project": "string",
        "region": "string",
        "user_project_override": "bool",
    }
}
"""The arguments of a ``provider`` block."""
_UNKNOWN = msgpack.ExtType(0, b"\x00")
"""How the protocol encodes a value that only an apply would show."""


class StandIn:
    """One provider: answers what Terraform asks for, by the name of the call."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.source: str = schema["provider"]
        self._resources: Mapping[str, Block] = schema["resources"]
        self._data_sources: Mapping[str, Block] = schema["data_sources"]

    def handler(self) -> grpc.GenericRpcHandler:
        """Return what a server needs to serve it."""
        calls: dict[str, Any] = {
            "GetProviderSchema": self.schema,
            "ValidateProviderConfig": lambda _, __: pb.ValidateProviderConfig.Response(),
            "ConfigureProvider": lambda _, __: pb.ConfigureProvider.Response(),
            "ValidateResourceConfig": partial(self.validate, pb.ValidateResourceConfig),
            "ValidateDataResourceConfig": partial(self.validate, pb.ValidateDataResourceConfig),
            "UpgradeResourceState": self.upgrade,
            "ReadResource": lambda request, _: pb.ReadResource.Response(new_state=request.current_state),
            "PlanResourceChange": self.plan,
            "ReadDataSource": self.read,
            "StopProvider": lambda _, __: pb.StopProvider.Response(),
        }
        return grpc.method_handlers_generic_handler(
            "tfplugin6.Provider",
            {
                name: grpc.unary_unary_rpc_method_handler(
                    call,
                    request_deserializer=getattr(pb, name).Request.FromString,
                    response_serializer=getattr(pb, name).Response.SerializeToString,
                )
                for name, call in calls.items()
            },
        )

    def schema(self, request: Any, context: Any) -> Any:
        """Return all that the schema file says."""
        del request, context
        return pb.GetProviderSchema.Response(
            provider=pb.Schema(block=_block(_CONFIGURATION)),
            resource_schemas={name: pb.Schema(block=_block(b)) for name, b in self._resources.items()},
            data_source_schemas={name: pb.Schema(block=_block(b)) for name, b in self._data_sources.items()},
        )

    def validate(self, call: Any, request: Any, context: Any) -> Any:
        """Return what is wrong with the values of a resource or a data source."""
        del context
        known = self._resources if call is pb.ValidateResourceConfig else self._data_sources
        wrong = _wrong(known[request.type_name], _decoded(request.config))
        return call.Response(diagnostics=[_error(*each) for each in wrong])

    def upgrade(self, request: Any, context: Any) -> Any:
        """Return a resource as a state file has it; what it leaves out is null."""
        del context
        state = _whole(self._resources[request.type_name], json.loads(request.raw_state.json))
        return pb.UpgradeResourceState.Response(upgraded_state=_encoded(state))

    def plan(self, request: Any, context: Any) -> Any:
        """Return what was proposed; what the provider would compute is unknown."""
        del context
        proposed = _decoded(request.proposed_new_state)
        if proposed is not None:
            proposed = _completed(self._resources[request.type_name], proposed, {})
        return pb.PlanResourceChange.Response(planned_state=_encoded(proposed))

    def read(self, request: Any, context: Any) -> Any:
        """Return a data source with made-up values."""
        del context
        made_up = {"string": f"stand-in-{request.type_name}", "number": 1, "bool": False}
        state = _completed(self._data_sources[request.type_name], _decoded(request.config), made_up)
        return pb.ReadDataSource.Response(state=_encoded(state))


def _block(block: Block) -> Any:
    return pb.Schema.Block(
        attributes=[
            pb.Schema.Attribute(
                name=name,
                type=_type(kind_of),
                required=kind == "required",
                optional=kind.startswith("optional"),
                computed=kind.endswith("computed"),
            )
            for kind in _KINDS
            for name, kind_of in block.get(kind, {}).items()
        ],
        block_types=[
            pb.Schema.NestedBlock(
                type_name=name,
                block=_block(nested),
                nesting=pb.Schema.NestedBlock.NestingMode.Value(nested.get("nesting", "list").upper()),
                min_items=nested.get("least", 0),
                max_items=nested.get("most", 0),
            )
            for name, nested in block.get("blocks", {}).items()
        ],
    )


def _type(text: str) -> bytes:
    """Return a type as the protocol encodes it: ``list(string)`` is ``["list", "string"]``."""
    outer, _, inner = text.rstrip(")").partition("(")
    return json.dumps([outer, inner] if inner else outer).encode()


def _wrong(block: Block, values: Any, top: str = "") -> Iterator[tuple[str, str]]:
    """Yield why values are none that the provider takes, each after the outermost name that it is in."""
    if not isinstance(values, dict):
        return
    for name, allowed in block.get("values", {}).items():
        value = values.get(name)
        if isinstance(value, str) and value not in allowed:
            yield top or name, f"expected {name} to be one of {allowed}, got {value}"
    for name in block.get("computed", {}):
        if values.get(name) is not None:
            yield top or name, f"{name} cannot be set: the provider computes it"
    for name, nested in block.get("blocks", {}).items():
        found = values.get(name)
        for one in found if isinstance(found, list) else [found]:
            yield from _wrong(nested, one, top or name)


def _error(name: str, text: str) -> Any:
    where = pb.AttributePath(steps=[pb.AttributePath.Step(attribute_name=name)])
    return pb.Diagnostic(severity=pb.Diagnostic.ERROR, summary=text, attribute=where)


def _completed(block: Block, values: Any, made_up: Mapping[str, Any]) -> Any:
    """Return *values* with those that the provider computes: *made_up* by type, else unknown."""
    if not isinstance(values, dict):
        return values
    computed = {**block.get("computed", {}), **block.get("optional_computed", {})}
    completed = {
        name: made_up.get(computed[name], _UNKNOWN) if name in computed and value is None else value
        for name, value in values.items()
    }
    for name, nested in block.get("blocks", {}).items():
        found = completed[name]
        if isinstance(found, list):
            completed[name] = [_completed(nested, one, made_up) for one in found]
    return completed


def _whole(block: Block, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return *values* with every argument and block of a schema."""
    names = (name for kind in _KINDS for name in block.get(kind, {}))
    blocks = {
        name: [_whole(nested, one) for one in values.get(name) or []]
        for name, nested in block.get("blocks", {}).items()
    }
    return {name: values.get(name) for name in names} | blocks


def _decoded(value: Any) -> Any:
    return msgpack.unpackb(value.msgpack, raw=False, strict_map_key=False)


def _encoded(value: Any) -> Any:
    return pb.DynamicValue(msgpack=msgpack.packb(value, use_bin_type=True))


def main(folder: str, *schemas: str) -> None:
    """Serve each of *schemas* on a socket in *folder*; print what TF_REATTACH_PROVIDERS must be, and wait."""
    reattach = {}
    servers = []
    for path in map(Path, schemas):
        provider = StandIn(json.loads(path.read_text()))
        server = grpc.server(ThreadPoolExecutor(8), handlers=[provider.handler()])
        socket = f"{folder}/{path.stem}.socket"
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        servers.append(server)
        reattach[provider.source] = {
            "Protocol": "grpc",
            "ProtocolVersion": 6,
            "Pid": os.getpid(),
            "Test": True,
            "Addr": {"Network": "unix", "String": socket},
        }
    sys.stdout.write(json.dumps(reattach) + "\n")
    sys.stdout.flush()
    sys.stdin.read()  # ends with whoever started this, however that ends
    for server in servers:
        server.stop(grace=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
