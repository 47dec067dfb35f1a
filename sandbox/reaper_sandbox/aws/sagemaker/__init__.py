"""SageMaker, as strict as the real one, for what moto lacks or gets wrong: endpoints, configurations, inference components, notebook
instances, Studio and the tags of all of them. Models, jobs, clusters and the rest stay moto's."""

from __future__ import annotations

from reaper_sandbox.aws.sagemaker import apps, components, configs, endpoints, models, notebooks, studio, tags

OPERATIONS = {
    **endpoints.OPERATIONS,
    **configs.OPERATIONS,
    **components.OPERATIONS,
    **models.OPERATIONS,
    **notebooks.OPERATIONS,
    **studio.OPERATIONS,
    **apps.OPERATIONS,
    **tags.OPERATIONS,
}
"""Handlers by operation: (region, parameters) to the reply's members; None leaves the call to moto."""
