"""Reads Bicep files as syntax trees, with the published tree-sitter grammar. It knows the syntax and no types.

https://learn.microsoft.com/azure/azure-resource-manager/bicep/file
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import tree_sitter_bicep
from tree_sitter import Language, Node, Parser

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"
MAIN = INFRA / "main.bicep"
FILES = sorted(INFRA.rglob("*.bicep"))


def tree(path: Path) -> Node:
    """The file's root node; it may hold error nodes (see `faults`)."""
    return Parser(Language(tree_sitter_bicep.language())).parse(path.read_bytes()).root_node


def walk(node: Node) -> Iterator[Node]:
    """`node` and all below it."""
    yield node
    for child in node.children:
        yield from walk(child)


def text(node: Node) -> str:
    """The source text of `node`."""
    return node.text.decode() if node.text else ""


def faults(path: Path) -> list[str]:
    """One line per syntax error, with its line number."""
    return [f"{path.name}:{n.start_point[0] + 1}: {text(n)!r}" for n in walk(tree(path)) if n.is_error or n.is_missing]


def declared(path: Path, what: str) -> dict[str, Node]:
    """The file's declarations of one sort (parameter, variable, resource, module, output) by their names."""
    nodes = (n for n in tree(path).named_children if n.type == f"{what}_declaration")
    return {text(n.named_children[0]): n for n in nodes}


def value(declaration: Node) -> Node | None:
    """What is declared: a default, an expression or a body; through a condition or a loop; None where there is none."""
    node = declaration.named_children[-1]
    if node.type in ("type", "identifier") and declaration.type == "parameter_declaration":
        return None
    while node.type in ("if_statement", "for_statement"):
        node = node.named_children[-1]
    return node


def properties(node: Node) -> dict[str, Node]:
    """The keys and values of an object, or of the objects that `union` puts together, without those that are there under a condition."""
    if node.type == "call_expression" and text(node.named_children[0]) == "union":
        parts = [part for part in node.named_children[1].named_children if part.type == "object"]
        return {key: node for part in parts for key, node in properties(part).items()}
    pairs = (n.named_children for n in node.named_children if n.type == "object_property")
    return {text(key).strip("'"): node for key, node, *_ in pairs}


def at(path: Path, resource: str, keys: str) -> str:
    """The text at a dotted path of keys in a resource's body; empty where a key is missing."""
    node = value(declared(path, "resource")[resource])
    for key in keys.split("."):
        node = properties(node).get(key) if node is not None else None
    return text(node) if node is not None else ""


def resource_type(declaration: Node) -> str:
    """A resource's type without its api-version, or a module's path."""
    return text(declaration.named_children[1]).strip("'").partition("@")[0]


def strings(node: Node) -> list[str]:
    """Every literal string below `node`, those with an interpolation left out."""
    return [
        text(n).strip("'") for n in walk(node) if n.type == "string" and not any(c.type == "interpolation" for c in n.children)
    ]


def decorators(path: Path, name: str) -> dict[str, Node]:
    """The decorators of a parameter: their names and their calls."""
    nodes = tree(path).named_children
    place = next(i for i, n in enumerate(nodes) if n.type == "parameter_declaration" and text(n.named_children[0]) == name)
    block = nodes[place - 1] if place and nodes[place - 1].type == "decorators" else None
    calls = [d.named_children[0] for d in block.named_children] if block is not None else []
    return {text(call.named_children[0]): call for call in calls}
