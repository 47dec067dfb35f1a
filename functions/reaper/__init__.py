"""ML Idle Reaper: finds machine-learning resources that cost money and do nothing, notifies their owners, and stops them reversibly.

One run has four phases: `observe`, `decide`, `act`, `conclude`; `run` composes them. An entry point (`cli.main`, `aws.functions.sweep`,
`azure.functions.triggers`) reads the clock, `settings` and the policy. Each kind under `aws/kinds` or `azure/kinds` discovers and observes its resources
through a session; `judge` (with `evidence`) says what is idle, `plan` what the policy does about it. `model`, `observation` and `case` hold
the nouns, `errors` the ways a run can fail. CONTRIBUTING.md follows one endpoint through all of it.
"""

from __future__ import annotations

__version__ = "0.1.0"
