"""The figures of a run as CloudWatch metrics, through the embedded metric format: a line of the function's log for each set of dimensions.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

from collections.abc import Iterable

from aws_lambda_powertools.metrics import EphemeralMetrics

from reaper.report.figures import Figure

NAMESPACE = "MLIdleReaper"
SERVICE = "ml-idle-reaper"


def publish_figures(figures: Iterable[Figure], deployment: str) -> None:
    """Print the figures, with the dimensions `service` and `stack`, and `kind` if they are about one. `deployment`: the stack's ARN."""
    rows = tuple(figures)
    for kind in dict.fromkeys(figure.kind for figure in rows):
        metrics = EphemeralMetrics(namespace=NAMESPACE, service=SERVICE)
        for name, value in (("service", SERVICE), ("stack", stack_name(deployment)), ("kind", kind)):
            if value:
                metrics.add_dimension(name=name, value=value)
        for figure in rows:
            if figure.kind == kind:
                metrics.add_metric(name=figure.name, unit=figure.unit.value, value=figure.value)
        metrics.flush_metrics()


def stack_name(deployment: str) -> str:
    """The name in a stack's ARN, `arn:aws:cloudformation:REGION:ACCOUNT:stack/NAME/ID`; empty for anything else.

    It is the dimension of the stack's metrics, so that no stack silences another's alarms.
    """
    kind, _, rest = deployment.strip().rpartition(":")[2].partition("/")
    return rest.partition("/")[0] if kind == "stack" else ""
