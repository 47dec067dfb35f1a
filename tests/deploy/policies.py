"""The template's IAM policies with their references resolved, and an evaluator for them.

The evaluator follows https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html for identity policies:
an explicit deny wins, otherwise any allow does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

ACCOUNT, REGION = "123456789012", "us-east-1"
PSEUDO = {
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::AccountId": ACCOUNT,
    "AWS::StackName": "ml-idle-reaper",
    "AWS::URLSuffix": "amazonaws.com",
}
Context = Mapping[str, str | Collection[str]]
"""Condition keys of one request: one value, or for keys such as `dynamodb:Attributes` a collection of them."""
Question = tuple[str, str, Context]
"""Action, resource and condition keys."""
TEXTS: Mapping[str, Callable[..., Any]] = {
    "Fn::Join": lambda between, parts: between.join(parts),
    "Fn::Select": lambda index, parts: parts[int(index)],
    "Fn::Split": lambda between, text: text.split(between),
}
"""CloudFormation's own functions on texts."""


@dataclass(slots=True)
class Policies:
    """Policy documents, and which of their statements' actions have been needed so far."""

    documents: list[dict[str, Any]]
    used: set[tuple[int, str]] = field(default_factory=set)
    denied: list[tuple[str, str]] = field(default_factory=list)

    def allow(self, action: str, resource: str, context: Context | None = None) -> bool:
        """Whether these policies let `action` on `resource` pass; remembers which statements said so."""
        for number, statement in enumerate(statements(self.documents)):
            if _hits(statement, action, resource, context or {}):
                self.used |= {(number, granted) for granted in listed(statement["Action"]) if like(granted, action)}
        allowed = evaluate(self.documents, action, resource, context or {})
        if not allowed:
            self.denied.append((action, resource))
        return allowed

    def unused(self) -> set[str]:
        """Granted actions that nothing asked for, statement by statement: one that two statements grant must be needed in both."""
        allows = [(n, s) for n, s in enumerate(statements(self.documents)) if s["Effect"] == "Allow"]
        return {a for n, s in allows for a in listed(s["Action"]) if (n, a) not in self.used}


def of_template(
    cloudformation: Mapping[str, Any], names: Mapping[str, str], only: set[str] | None = None
) -> list[dict[str, Any]]:
    """The documents of the template's managed policies, or of those named in `only`. `names` says what a Ref or GetAtt becomes."""
    resources = {n: r for n, r in cloudformation["Resources"].items() if r["Type"] == "AWS::IAM::ManagedPolicy"}
    return [resolve(r["Properties"]["PolicyDocument"], names) for n, r in resources.items() if only is None or n in only]


def of_role(cloudformation: Mapping[str, Any], role: str, names: Mapping[str, str]) -> set[str]:
    """Which managed policies a role gets: those it names, and those that name it, where their condition holds."""
    resources = cloudformation["Resources"]
    logical = {n: n for n, r in resources.items() if r["Type"].startswith("AWS::IAM::")}
    own = set(resolve(resources[role]["Properties"].get("ManagedPolicyArns", []), {**names, **logical}))
    for name, resource in resources.items():
        is_present = "Condition" not in resource or names.get(resource["Condition"]) == "true"
        if is_present and role in resolve(resource["Properties"].get("Roles", []), logical):
            own.add(name)
    return own


def resolve(node: Any, names: Mapping[str, str]) -> Any:
    """The node with Ref, Sub, GetAtt and If replaced; an unknown reference is an error, so that nothing is overlooked."""
    if isinstance(node, list):
        return [r for item in node if (r := resolve(item, names)) is not None]
    if not isinstance(node, dict):
        return node
    if len(node) == 1:
        [(key, value)] = node.items()
        if key == "Ref":
            return None if value == "AWS::NoValue" else {**PSEUDO, **names}[value]
        if key == "Fn::GetAtt":
            return names[".".join(value) if isinstance(value, list) else value]
        if key == "Fn::Sub":
            text, own = value if isinstance(value, list) else (value, {})
            return _substituted(text, {**PSEUDO, **names, **resolve(own, names)})
        if key == "Fn::If":
            return resolve(value[1] if names.get(value[0]) == "true" else value[2], names)
        if key in TEXTS:
            return TEXTS[key](*resolve(value, names))
    return {key: r for key, value in node.items() if (r := resolve(value, names)) is not None}


def _substituted(text: str, names: Mapping[str, str]) -> str:
    """`${!name}` is CloudFormation's way to write `${name}` itself."""
    return re.sub(r"\$\{(!?)([^}]+)\}", lambda m: f"${{{m[2]}}}" if m[1] else names[m[2]], text)


def evaluate(documents: list[dict[str, Any]], action: str, resource: str, context: Context) -> bool:
    """Allowed by one statement and denied by none."""
    hits = [s for s in statements(documents) if _hits(s, action, resource, context)]
    return any(s["Effect"] == "Allow" for s in hits) and not any(s["Effect"] == "Deny" for s in hits)


def statements(documents: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every statement of every document."""
    for document in documents:
        yield from listed(document["Statement"])


def listed(value: Any) -> list[Any]:
    """The value as a list."""
    return value if isinstance(value, list) else [value]


def like(pattern: str, text: str, *, case: bool = False) -> bool:
    """IAM's own globs: `*` and `?`. Actions ignore case."""
    shape = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(shape, text, 0 if case else re.IGNORECASE | re.DOTALL) is not None


def _hits(statement: dict[str, Any], action: str, resource: str, context: Context) -> bool:
    on_action = any(like(a, action) for a in listed(statement["Action"]))
    on_resource = any(like(r, resource, case=True) for r in listed(statement["Resource"]))
    return on_action and on_resource and conditions_hold(statement.get("Condition", {}), context)


def conditions_hold(conditions: Mapping[str, Mapping[str, Any]], context: Context) -> bool:
    """Whether all of a statement's conditions hold. Keys ignore case, values do not."""
    known = {key.lower(): value for key, value in context.items()}
    return all(
        _holds(operator, known.get(key.lower()), [str(w) for w in listed(wanted)])
        for operator, pairs in conditions.items()
        for key, wanted in pairs.items()
    )


def _holds(operator: str, value: str | Collection[str] | None, wanted: list[str]) -> bool:
    """A key that is not there fails every operator but Null, ...IfExists, StringNot... and, as AWS warns, ForAllValues.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-single-vs-multi-valued-context-keys.html
    """
    if operator == "Null":
        return (value is None) == (wanted[0].lower() == "true")
    every = operator.startswith("ForAllValues:")
    name = operator.removesuffix("IfExists").removeprefix("ForAllValues:").removeprefix("ForAnyValue:")
    if value is None:
        return operator.endswith("IfExists") or every or name.startswith("StringNot")
    test = TESTS[name]
    matches = [test(one, wanted) for one in ([value] if isinstance(value, str) else value)]
    return all(matches) if every else any(matches)


def _arn_like(value: str, pattern: str) -> bool:
    """ARNs are compared component by component, so that no asterisk reaches beyond a colon of the first five."""
    parts, patterns = value.split(":", 5), pattern.split(":", 5)
    return len(parts) == len(patterns) and all(like(p, part, case=True) for p, part in zip(patterns, parts, strict=True))


TESTS: Mapping[str, Callable[[str, list[str]], bool]] = {
    "StringEquals": lambda value, wanted: value in wanted,
    "StringNotEquals": lambda value, wanted: value not in wanted,
    "StringEqualsIgnoreCase": lambda value, wanted: value.lower() in [w.lower() for w in wanted],
    "StringNotEqualsIgnoreCase": lambda value, wanted: value.lower() not in [w.lower() for w in wanted],
    "StringLike": lambda value, wanted: any(like(w, value, case=True) for w in wanted),
    "StringNotLike": lambda value, wanted: not any(like(w, value, case=True) for w in wanted),
    "ArnLike": lambda value, wanted: any(_arn_like(value, w) for w in wanted),
    "ArnEquals": lambda value, wanted: any(_arn_like(value, w) for w in wanted),
    "Bool": lambda value, wanted: value.lower() in [w.lower() for w in wanted],
}
"""One value of the request against those of the policy; an operator that is not here is a KeyError, so that none is overlooked."""


def present(cloudformation: Mapping[str, Any], parameters: Mapping[str, str]) -> set[str]:
    """The logical names of what a stack with these parameters, and defaults for the others, consists of."""
    values = {name: str(p.get("Default", "")) for name, p in cloudformation["Parameters"].items()} | parameters
    conditions = cloudformation["Conditions"]
    resources = cloudformation["Resources"]
    return {n for n, r in resources.items() if "Condition" not in r or _true({"Condition": r["Condition"]}, conditions, values)}


def _true(node: Any, conditions: Mapping[str, Any], parameters: Mapping[str, str]) -> bool:
    """Whether a condition holds; a function that is not here is an error, so that none is overlooked."""
    [(key, value)] = node.items()
    if key == "Condition":
        return _true(conditions[value], conditions, parameters)
    if key == "Fn::Equals":
        one, other = (str(resolve(part, parameters)) for part in value)
        return one == other
    parts = [_true(part, conditions, parameters) for part in value]
    return {"Fn::Not": not parts[0], "Fn::And": all(parts), "Fn::Or": any(parts)}[key]
