"""moto's DynamoDB made quick: the same answers, without most of what it does for an update of many attributes.

An update expression is a chain of nested clauses, one for each attribute. moto reads it twice, copies it with `deepcopy` before each use,
walks all of it once for each of ten processors, asks of every node anew which classes it may belong to, and counts from every link of the
chain on what it has counted from the first one already. An update of a record, which has some forty attributes, takes 20 ms by that.
For each request it also lists the folders of its package, and tries two hundred patterns, to find which service it is for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from functools import lru_cache
from threading import Lock
from typing import Any

import pytest
from moto.dynamodb.exceptions import MockValidationException
from moto.dynamodb.parsing import validators
from moto.dynamodb.parsing.ast_nodes import DepthFirstTraverser, Expression, Node, UpdateExpression, UpdateExpressionFunction
from moto.dynamodb.parsing.expressions import UpdateExpressionParser
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from reaper_sandbox.aws.wire import Listener


@contextmanager
def patched() -> Iterator[None]:
    """moto as it is meant until this ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DepthFirstTraverser, "traverse_node_recursively", _traversed)
        patch.setattr(Node, "find_clauses", _found)
        patch.setattr(UpdateExpressionParser, "make", lru_cache(256)(UpdateExpressionParser.make))
        patch.setattr(
            validators, "deepcopy", lambda value: _copy(value) if isinstance(value, UpdateExpression) else deepcopy(value)
        )
        for validator in (validators.ActionCountValidator, validators.OverlappingPathsValidator):
            patch.setattr(validator, "traverse", _counted)
        patch.setattr(DomainDispatcherApplication, "get_backend_for_host", _service)
        yield


@contextmanager
def serving(lock: Lock | None = None) -> Iterator[int]:
    """moto's server on that port of loopback, one request at a time under a lock; it ends at once."""
    moto = DomainDispatcherApplication(create_backend_app)

    def application(environ: dict[str, Any], start: Any) -> list[bytes]:
        with lock or nullcontext():
            return list(moto(environ, start))

    listener = Listener(application)
    try:
        yield listener.server_port
    finally:
        listener.stop()


def _traversed(self: Any, node: Any, child_id: int = -1) -> Any:
    """As moto does it, but whether a class is to be processed is asked once for each class."""
    known: dict[type, bool] = self.__dict__.setdefault("_known", {})
    wanted = self.nodes_to_be_processed()

    def walk(node: Any, child_id: int) -> Any:
        sort = type(node)
        if sort not in KINDS:
            KINDS[sort] = isinstance(node, Node)
        if not KINDS[sort]:
            return node
        above = node.parent
        for index, child in enumerate(node.children or ()):
            self.pre_processing_of_child(node, index)
            walk(child, index)
        if sort not in known:
            known[sort] = isinstance(node, wanted)
        if known[sort]:
            node = self.process(node)
            node.parent = above
            if above:
                above.children[child_id] = node
        return node

    return walk(node, child_id)


def _counted(self: Any, node: Any) -> Any:
    """Of what is right, the whole tells it; of what is not, moto names the part that it comes to first."""
    [count] = self._processing_map().values()
    try:
        return count(node)
    except MockValidationException:
        return self.traverse_node_recursively(node)


SERVICES: dict[str | None, Any] = {}
FIND_SERVICE = DomainDispatcherApplication.get_backend_for_host


def _service(self: Any, host: str | None) -> Any:
    """Which service a host name is for is the same for every server, and asked once."""
    if host not in SERVICES:
        SERVICES[host] = FIND_SERVICE(self, host)
    return SERVICES[host]


KINDS: dict[type, bool] = {}
NESTING: dict[type, bool] = {}


def _found(self: Any, clause_types: Any) -> list[Any]:
    """As moto finds them, in the same order."""
    children = []
    nodes = list(reversed(self.children or ()))
    while nodes:
        child = nodes.pop()
        sort = type(child)
        if sort not in NESTING:
            NESTING[sort] = issubclass(sort, (Expression, UpdateExpressionFunction))
        if sort in clause_types:
            children.append(child)
        elif NESTING[sort]:
            nodes.extend(reversed(child.children or ()))
    return children


def _copy(node: Any) -> Any:
    """The same tree of nodes anew; what its leaves hold is never changed."""
    made = object.__new__(type(node))
    made.__dict__.update(node.__dict__)
    if node.children is not None:
        made.children = [_copy(child) if isinstance(child, Node) else child for child in node.children]
        for child in made.children:
            if isinstance(child, Node):
                child.parent = made
    return made
