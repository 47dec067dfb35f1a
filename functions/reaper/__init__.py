"""ML Idle Reaper: finds machine-learning resources that cost money and do nothing, tells their owner, and stops them reversibly.

The map, in the order of one sweep: an entry point (`cli`, `aws.lambda_function`, `azure.triggers`) reads the clock, `settings` and the
`policy`; `sweep` walks targets and kinds (`registry`); each kind under `aws/kinds` or `azure/kinds` discovers and observes through its
`cloud`; `judge` (with `evidence`) says what is idle, `plan` what the policy would do now, `report` shows it. `model` holds the nouns,
`errors` the ways it can fail, `sandbox` a pretend fleet on both clouds for the demo and the tests.
"""

from __future__ import annotations

__version__ = "0.1.0"
