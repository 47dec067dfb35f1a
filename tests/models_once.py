"""boto3's clients made quickly: the same clients, without most of what making one takes.

Most of it is done anew for each session, and the rest for each client: reading the service's model, which is the same for all; a function
and a documentation string for each of its operations; and the registering of some hundred handlers, each of which is asked for its
signature. Made as it comes, a client in a new session takes as long as fifty calls with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any

import botocore.client
import botocore.hooks
import botocore.regions
import botocore.session
from botocore.hooks import EventAliaser, NodeList
from botocore.model import ServiceModel

LOADER = botocore.session.create_loader
METHODS = botocore.client.ClientCreator._create_methods
ALIAS = EventAliaser._alias_event_name
PROVIDER = botocore.regions.EndpointProvider
TRIE, MIDDLE = botocore.hooks._PrefixTrie, botocore.hooks._MIDDLE

READ: dict[str | None, dict[Any, Any]] = {}
"""What was read for all sessions of the process, by the folders that it was looked for in."""
NAMES: dict[str, str] = {}
MODELS: dict[int, tuple[Any, ServiceModel]] = {}
"""By the identity of what was read, which is kept so that the identity stays its own."""
PROVIDERS: dict[int, tuple[Any, Any]] = {}
FUNCTIONS: dict[str, dict[str, Any]] = {}
SERVICES = (
    *("sagemaker", "cloudwatch", "sts", "resourcegroupstaggingapi", "logs", "application-autoscaling", "dynamodb"),
    *("s3", "ec2", "organizations", "iam"),
)


def patch_with(set_attribute: Callable[[Any, str, Any], None]) -> None:
    """Change botocore with that function, `setattr` for the rest of the process."""
    set_attribute(botocore.session, "create_loader", _loader)
    set_attribute(botocore.hooks, "accepts_kwargs", _accepts_kwargs)
    set_attribute(botocore.hooks, "_PrefixTrie", Handlers)
    set_attribute(EventAliaser, "_alias_event_name", _alias)
    set_attribute(botocore.client.ClientCreator, "_load_service_model", _model)
    set_attribute(botocore.client.ClientCreator, "_create_methods", _methods)
    set_attribute(botocore.regions, "EndpointProvider", _provider)


def warm() -> None:
    """Read what clients of the services that commands ask need. No key, no address and no network is looked for."""
    session = botocore.session.Session()
    for service in SERVICES:
        session.create_client(service, region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")


def _loader(search_path: str | None = None) -> Any:
    made = LOADER(search_path)
    made._cache = READ.setdefault(search_path, {})
    return made


def _model(self: Any, service_name: str, api_version: str | None = None) -> ServiceModel:
    read = self._loader.load_service_model(service_name, "service-2", api_version=api_version)
    if service_name == "s3":  # its client takes the bucket out of the paths
        operations = {name: {**operation, "http": {**operation["http"]}} for name, operation in read["operations"].items()}
        return ServiceModel({**read, "operations": operations}, service_name=service_name)
    if id(read) not in MODELS:
        MODELS[id(read)] = read, ServiceModel(read, service_name=service_name)
    return MODELS[id(read)][1]


def _methods(self: Any, service_model: ServiceModel) -> dict[str, Any]:
    name = service_model.service_name
    if name not in FUNCTIONS:
        FUNCTIONS[name] = METHODS(self, service_model)
    return dict(FUNCTIONS[name])


def _provider(ruleset_data: Any, partition_data: Any, excluded_params: Any = None) -> Any:
    if id(ruleset_data) not in PROVIDERS:
        PROVIDERS[id(ruleset_data)] = ruleset_data, PROVIDER(ruleset_data, partition_data, excluded_params)
    return PROVIDERS[id(ruleset_data)][1]


def _alias(self: Any, event_name: str) -> str:
    if event_name not in NAMES:
        NAMES[event_name] = ALIAS(self, event_name)
    return NAMES[event_name]


def _accepts_kwargs(function: Any) -> Any:
    plain = getattr(function, "__func__", function)
    return _asked(plain) if isinstance(plain, FunctionType) else inspect.getfullargspec(function).varkw


@lru_cache(4096)
def _asked(function: FunctionType) -> Any:
    return inspect.getfullargspec(function).varkw


class Handlers(TRIE):  # type: ignore[misc, valid-type]
    """A client starts with the handlers of its session: here with the very same tree of them, of which it copies what it adds to."""

    def __init__(self) -> None:
        super().__init__()
        self._mine = object()

    def __copy__(self) -> Handlers:
        copied = Handlers()
        copied._root, self._mine = self._root, object()
        return copied

    def append_item(self, key: str, value: Any, section: int = MIDDLE) -> None:
        node = self._root = self._own(self._root)
        for part in key.split("."):
            known = node["children"].get(part) or {"chunk": part, "values": None, "children": {}}
            node["children"][part] = node = self._own(known)
        node["values"] = node["values"] or NodeList([], [], [])
        node["values"][section].append(value)

    def remove_item(self, key: str, value: Any) -> None:
        self._root = self._recursive_copy(self._root)
        super().remove_item(key, value)

    def _own(self, node: dict[str, Any]) -> dict[str, Any]:
        if node.get("mine") is self._mine:
            return node
        values = node["values"] and NodeList(*(list(section) for section in node["values"]))
        return {**node, "children": dict(node["children"]), "values": values, "mine": self._mine}
