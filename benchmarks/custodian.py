"""Cloud Custodian with a metrics filter for SageMaker endpoints, run in an environment of its own (`.venv-c7n`) by `peers.py`.

The released version has no such filter (https://github.com/cloud-custodian/cloud-custodian/issues/10853), so it cannot find an idle
endpoint at all. This gives it the one that its own generic filter makes with the dimensions that CloudWatch needs: one
GetMetricStatistics per production variant, every one of which must be silent. What it then does is its own code and its own way.
"""

from __future__ import annotations

import sys
from typing import Any

from c7n.cli import main
from c7n.filters.metrics import MetricsFilter
from c7n.resources.sagemaker import SagemakerEndpoint


class EndpointMetrics(MetricsFilter):  # type: ignore[misc]
    """`metrics`, with the points of every production variant."""

    def get_dimensions(self, resource: dict[str, Any]) -> list[dict[str, str]]:
        """The endpoint; `get_metric_data` adds the variants."""
        return [{"Name": "EndpointName", "Value": resource["EndpointName"]}]

    def get_metric_data(self, client: Any, params: dict[str, Any]) -> list[dict[str, Any]]:
        """The points of all variants."""
        endpoint = params["Dimensions"][0]
        names = [variant["VariantName"] for variant in self._described[endpoint["Value"]].get("ProductionVariants") or ()]
        queries = [{**params, "Dimensions": [endpoint, {"Name": "VariantName", "Value": name}]} for name in names]
        return [point for one in queries for point in super(EndpointMetrics, self).get_metric_data(client, one)]

    def process(self, resources: list[dict[str, Any]], event: Any = None) -> Any:
        """Remembers the descriptions for `get_metric_data`; several threads ask."""
        self._described = {resource["EndpointName"]: resource for resource in resources}
        return super().process(resources, event)


SagemakerEndpoint.filter_registry.register("metrics", EndpointMetrics)

if __name__ == "__main__":
    sys.exit(main())
