"""Acts on one target in a step of a workflow. Loaded in mode enforce only.

Everything since the decision may have changed: the deployment's mode, its policy, the accounts and regions it sweeps, and whether this one can
still be reached.
"""

from __future__ import annotations

from dataclasses import replace

from reaper.act import act, refuse_target
from reaper.calendars.resolve import FreshFreezes
from reaper.conclude import leases_of
from reaper.coverage import failure_row
from reaper.errors import CloudError, ReaperError, Reason
from reaper.handover import Acted, Decided
from reaper.model import Target
from reaper.run import act_context, open_archive
from reaper.sessions import open_account, session_of
from reaper.settings import Settings
from reaper.workflow import lease
from reaper.workflow.stored_run import EngineState, StoredRun, WorkflowContext, current_policy, setup_of


def act_on_target(decided: Decided, stored: StoredRun, engine: EngineState, context: WorkflowContext) -> Acted:
    """Carry out the decisions about one target. Never raises ReaperError: what can't be carried out is refused, with the reason."""
    [target] = decided.leased
    if not context.settings.mode.acts:
        return refuse_target(decided, target, f"the deployment is in mode {context.settings.mode} by now")
    if target.account in context.settings.exclude_accounts:
        return refuse_target(decided, target, "the deployment excludes this account by now")
    if _is_left_out(target, context.settings):
        return refuse_target(decided, target, "the deployment doesn't sweep this account or region by now")
    policy, because = current_policy(context, engine.policy_sha256, stored.calendars)
    if because:
        return refuse_target(decided, target, because)
    try:
        setup = setup_of(stored, context, policy)
        if setup.ledger is None or lease.own_run_lease(setup.ledger, engine.run, engine.execution) is None:
            return refuse_target(decided, target, "this run has ended, or another one has taken over")
        account = stored.account(target.account)
        regions = (target.region,) if target.region else account.regions
        session = session_of(target, *open_account(setup.settings, replace(account, regions=regions), may_act=True))
        archive, leases = open_archive(setup.settings), leases_of(decided, setup.ledger, setup.clock)
        if archive is None or leases is None:
            raise CloudError(Reason.REFUSED, "act", "acting needs a ledger and a store of manifests")
        freezes = FreshFreezes(policy=policy, where=context.settings.policy)
        opened = act_context(setup, session, leases, archive, engine.policy_sha256, freezes)
    except ReaperError as error:
        return refuse_target(decided, target, f"the re-check couldn't begin: {error}", (failure_row("acts", error),))
    return act(decided, opened)


def _is_left_out(target: Target, settings: Settings) -> bool:
    """Whether the accounts and regions that the deployment names leave it out. What an organization has isn't asked again."""
    if target.cloud != "aws":
        return False
    left_by_accounts = bool(settings.accounts) and target.account not in settings.accounts
    return left_by_accounts or (bool(settings.regions) and not {"all", target.region} & {*settings.regions})
