"""Seeds metrics: any series point by point or as a steady run, and shorthands for the signals that show use.

Which metrics there are: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from reaper_sandbox.aws.series import Run, Series
from reaper_sandbox.aws.world import Region

Dimensions = Mapping[str, str]
Points = Iterable[tuple[datetime, float]]


class Signals:
    """What one region publishes."""

    def __init__(self, contents: Region) -> None:
        self.contents = contents

    def series(self, namespace: str, metric: str, dimensions: Dimensions) -> Series:
        """The series of exactly these dimensions, to add to."""
        return self.contents.metrics.of(namespace, metric, dimensions.items())

    def points(self, namespace: str, metric: str, dimensions: Dimensions, points: Points) -> None:
        """Single points, at any time in any namespace."""
        series = self.series(namespace, metric, dimensions)
        for when, value in points:
            series.add(int(when.timestamp()), float(value))

    def steady(
        self,
        namespace: str,
        metric: str,
        dimensions: Dimensions,
        since: datetime,
        until: datetime,
        value: float,
    ) -> None:
        """The same value every five minutes, from `since` on and before `until`, in the space of one point."""
        _add_run(self.series(namespace, metric, dimensions), since, until, value, timedelta(minutes=5))

    def steady_by_minute(
        self,
        namespace: str,
        metric: str,
        dimensions: Dimensions,
        since: datetime,
        until: datetime,
        value: float,
    ) -> None:
        """The same as `steady`, but with a point every minute."""
        _add_run(self.series(namespace, metric, dimensions), since, until, value, timedelta(minutes=1))

    def alive(self, endpoint: str, variant: str, since: datetime, until: datetime, percent: float = 1.5) -> None:
        """The variant's instances report their CPU every five minutes."""
        self.steady("/aws/sagemaker/Endpoints", "CPUUtilization", _pair(endpoint, variant), since, until, percent)

    def invoked(self, endpoint: str, variant: str, when: datetime, count: float = 1) -> None:
        """The variant got `count` requests in that minute."""
        self.points("AWS/SageMaker", "Invocations", _pair(endpoint, variant), [(when, count)])

    def component_alive(self, component: str, since: datetime, until: datetime, percent: float = 1.5) -> None:
        """The component's copies report their CPU every five minutes."""
        dimensions = {"InferenceComponentName": component}
        self.steady("/aws/sagemaker/InferenceComponents", "CPUUtilizationNormalized", dimensions, since, until, percent)

    def component_invoked(self, component: str, when: datetime, count: float = 1) -> None:
        """The component got `count` requests in that minute."""
        self.points("AWS/SageMaker", "Invocations", {"InferenceComponentName": component}, [(when, count)])

    def busy(self, arn: str, when: datetime, value: float = 1) -> None:
        """One point of the `Busy` signal."""
        self.points("MLIdleReaper", "Busy", {"Resource": arn}, [(when, value)])

    def busy_steadily(self, arn: str, since: datetime, until: datetime, value: float = 0) -> None:
        """`Busy` every five minutes, always the same."""
        self.steady("MLIdleReaper", "Busy", {"Resource": arn}, since, until, value)


def _add_run(series: Series, since: datetime, until: datetime, value: float, every: timedelta) -> None:
    run = Run(since=int(since.timestamp()), until=int(until.timestamp()), every=int(every.total_seconds()), value=float(value))
    if run.until > run.since:
        series.runs.append(run)


def _pair(endpoint: str, variant: str) -> dict[str, str]:
    return {"EndpointName": endpoint, "VariantName": variant}
