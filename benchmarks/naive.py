"""The script that everybody writes first: what had no invocation for a day is idle. It is here to be compared with, not to be used.

List, describe, and one GetMetricStatistics for each production variant; names of idle endpoints go to standard output as JSON.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import boto3


def main() -> None:
    sagemaker, cloudwatch = boto3.client("sagemaker"), boto3.client("cloudwatch")
    end = datetime.now(UTC)
    idle = []
    for page in sagemaker.get_paginator("list_endpoints").paginate():
        for row in page["Endpoints"]:
            endpoint = sagemaker.describe_endpoint(EndpointName=row["EndpointName"])
            total = 0.0
            for variant in endpoint.get("ProductionVariants", []):
                names = {"EndpointName": row["EndpointName"], "VariantName": variant["VariantName"]}
                answer = cloudwatch.get_metric_statistics(
                    Namespace="AWS/SageMaker",
                    MetricName="Invocations",
                    Dimensions=[{"Name": name, "Value": value} for name, value in names.items()],
                    StartTime=end - timedelta(days=1),
                    EndTime=end,
                    Period=3600,
                    Statistics=["Sum"],
                )
                total += sum(point["Sum"] for point in answer["Datapoints"])
            if total == 0:
                idle.append(row["EndpointName"])
    print(json.dumps(idle))


if __name__ == "__main__":
    main()
