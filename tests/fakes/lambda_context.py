"""What AWS hands to a function besides the event."""

from __future__ import annotations

from types import SimpleNamespace


def lambda_context(name: str) -> SimpleNamespace:
    """The context of a function of that name, with all of its 15 minutes left."""
    return SimpleNamespace(
        function_name=name,
        memory_limit_in_mb=1024,
        invoked_function_arn=f"arn:aws:lambda:us-east-1:123456789012:function:{name}",
        aws_request_id="1",
        get_remaining_time_in_millis=lambda: 900_000,
    )
