// Rules that watch the reaper. They fire if a sweep failed, had coverage gaps or put actions on hold; if no sweep has succeeded for too
// long; if two starts in a row were skipped, because a run is still under way; if the workspace stores no more logs, which blinds the first rule and sooner or later sets off the second; and, if the app has a
// snooze page, if the page can't answer.
// They query the workspace behind Application Insights for lines that the app writes and failures that the host reports. A successful
// call leaves no row of its own. Anyone can call the page, and rows can't be limited to one function
// (https://github.com/Azure/azure-functions-host/issues/4742), so strangers could use up the workspace's daily cap. host.json has the
// levels, with sampling off: https://learn.microsoft.com/azure/azure-functions/configure-monitoring#configure-log-levels
// https://learn.microsoft.com/azure/azure-monitor/alerts/alerts-types#log-alerts

@description('Prefix of the names of the rules and the action group.')
param name string

@description('Region.')
param location string

@description('Tags.')
param tags object

@description('Resource ID of the workspace to query.')
param workspaceId string

@description('Name of the function app in the logs.')
param appName string

@description('Name of the timer function in the logs.')
param timerFunction string

@description('Name of the orchestrator function in the logs.')
param runFunction string

@description('Name of the snooze page\'s function in the logs. Empty if the app has no such page.')
param pageFunction string

@description('Email addresses that get the alerts.')
param recipients array

@description('Hours without a successful sweep before the alert for missing sweeps fires.')
param silentHours int

var sweeps = 'AppRequests | where AppRoleName =~ "${appName}" and OperationName == "${timerFunction}"'

// The events that the app logs as errors: for coverage gaps, failed actions and failed activities, for a report, summary or note that couldn't
// be stored or sent, for actions on hold because too many were due at once, and for a run that was ended because it was stuck.
var gaps = 'AppTraces | where AppRoleName =~ "${appName}" and tostring(parse_json(Message).event) in ("coverage incomplete", "activity failed", "summary not sent", "report not stored", "note not stored", "acts held", "run ended")'

// The timer's starts. The second start in a row that is skipped means that a run takes longer than the schedule allows.
var starts = 'AppTraces | where AppRoleName =~ "${appName}" | extend m = parse_json(Message) | where tostring(m.event) in ("run started", "start skipped") and tobool(m.scheduled)'

var succeeded = 'AppTraces | where AppRoleName =~ "${appName}" and tostring(parse_json(Message).event) == "scheduled sweep succeeded"'
var thrown = 'AppExceptions | where AppRoleName =~ "${appName}" and OperationName'

resource people 'Microsoft.Insights/actionGroups@2023-01-01' = {
  name: '${name}-people'
  location: 'global'
  tags: tags
  properties: {
    enabled: true
    groupShortName: 'ml-reaper'
    emailReceivers: [for (address, index) in recipients: {
      name: 'admin-${index}'
      emailAddress: address
      useCommonAlertSchema: true
    }]
  }
}

resource failed 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = {
  name: '${name}-sweep-failed'
  location: location
  tags: tags
  kind: 'LogAlert'
  properties: {
    displayName: 'ML Idle Reaper: a sweep failed, had coverage gaps or put actions on hold'
    description: 'The timer function or a run ended with an error (see Failures in Application Insights), or a sweep could not see everything. Its report and the trace "coverage incomplete" name the missing permission. A row "acts" in that trace means that an action failed. The trace "acts held" means that actions are on hold. Read the report, then run `reaper release` to allow them.'
    enabled: true
    severity: 2
    autoMitigate: true
    evaluationFrequency: 'PT15M'
    // Twice the frequency, so that a late row still counts once.
    windowSize: 'PT30M'
    scopes: [ workspaceId ]
    // A new workspace has no such rows yet. If Azure checked the query, the rule couldn't be created before the first sweep.
    skipQueryValidation: true
    criteria: {
      allOf: [
        {
          query: 'union (${sweeps} and Success == false), (${thrown} in ("${timerFunction}", "${runFunction}")), (${gaps})'
          timeAggregation: 'Count'
          operator: 'GreaterThan'
          threshold: 0
          failingPeriods: { minFailingPeriodsToAlert: 1, numberOfEvaluationPeriods: 1 }
        }
      ]
    }
    actions: { actionGroups: [ people.id ] }
  }
}

resource silent 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = {
  name: '${name}-sweep-missing'
  location: location
  tags: tags
  kind: 'LogAlert'
  properties: {
    displayName: 'ML Idle Reaper: no sweep has run'
    description: 'No sweep has succeeded for ${silentHours} hours. The app may be stopped, broken at start, or not deployed.'
    enabled: true
    severity: 1
    autoMitigate: true
    evaluationFrequency: 'PT1H'
    // Two days is the longest look-back a rule may have. The query narrows it to silentHours.
    windowSize: 'P2D'
    scopes: [ workspaceId ]
    skipQueryValidation: true
    criteria: {
      allOf: [
        {
          // A count without a group returns one row even if nothing matches, so silence is a row and not an empty answer.
          query: '${succeeded} | where TimeGenerated > ago(${silentHours}h) | summarize sweeps = count() | where sweeps == 0'
          timeAggregation: 'Count'
          operator: 'GreaterThan'
          threshold: 0
          failingPeriods: { minFailingPeriodsToAlert: 1, numberOfEvaluationPeriods: 1 }
        }
      ]
    }
    actions: { actionGroups: [ people.id ] }
  }
}

resource skipped 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = {
  name: '${name}-starts-skipped'
  location: location
  tags: tags
  kind: 'LogAlert'
  properties: {
    displayName: 'ML Idle Reaper: two sweeps in a row were skipped'
    description: 'The last two scheduled sweeps were skipped, because another run was under way. The trace "start skipped" names it. A run of this app that is stuck is ended after three hours. If every run takes too long, sweep less often or fewer subscriptions.'
    enabled: true
    severity: 2
    autoMitigate: true
    evaluationFrequency: 'PT1H'
    windowSize: 'P2D'
    scopes: [ workspaceId ]
    skipQueryValidation: true
    criteria: {
      allOf: [
        {
          // A start that the app let through can still be skipped by the run's lease, so the later line of a run counts.
          query: '${starts} | summarize arg_max(TimeGenerated, m) by attempt = tostring(m.attempt) | top 2 by TimeGenerated desc | where tostring(m.event) == "start skipped" | summarize skipped = count() | where skipped == 2'
          timeAggregation: 'Count'
          operator: 'GreaterThan'
          threshold: 0
          failingPeriods: { minFailingPeriodsToAlert: 1, numberOfEvaluationPeriods: 1 }
        }
      ]
    }
    actions: { actionGroups: [ people.id ] }
  }
}

// The workspace reports on its own state, even when it stores nothing else.
// https://learn.microsoft.com/azure/azure-monitor/logs/daily-cap
resource deaf 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = {
  name: '${name}-logs-stopped'
  location: location
  tags: tags
  kind: 'LogAlert'
  properties: {
    displayName: 'ML Idle Reaper: logging has stopped'
    description: 'The workspace has reached its daily cap, or ingestion was stopped. Until it resumes, a failed sweep goes unnoticed. Find out what fills it, or raise logDailyCapGb.'
    enabled: true
    severity: 2
    autoMitigate: true
    evaluationFrequency: 'PT1H'
    windowSize: 'PT2H'
    scopes: [ workspaceId ]
    skipQueryValidation: true
    criteria: {
      allOf: [
        {
          query: '_LogOperation | where Category =~ "Ingestion" and Detail has_any ("OverQuota", "ForceOff", "SubscriptionSuspended")'
          timeAggregation: 'Count'
          operator: 'GreaterThan'
          threshold: 0
          failingPeriods: { minFailingPeriodsToAlert: 1, numberOfEvaluationPeriods: 1 }
        }
      ]
    }
    actions: { actionGroups: [ people.id ] }
  }
}

// What reaper.azure.functions.triggers logs as an error: the page returns 503, or uses keys that it can no longer read, or couldn't write its
// history. The log names what failed.
resource page 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = if (!empty(pageFunction)) {
  name: '${name}-page-failed'
  location: location
  tags: tags
  kind: 'LogAlert'
  properties: {
    displayName: 'ML Idle Reaper: the snooze page failed'
    description: 'Owners who open a snooze link get an error instead of the page, or soon will. The trace "keep-link" of the function ${pageFunction} names the missing permission, secret or table. Meanwhile, the tag reaper:keep-until works.'
    enabled: true
    severity: 2
    autoMitigate: true
    evaluationFrequency: 'PT15M'
    windowSize: 'PT30M'
    scopes: [ workspaceId ]
    skipQueryValidation: true
    criteria: {
      allOf: [
        {
          query: 'union (AppTraces | where AppRoleName =~ "${appName}" and Message startswith "keep-link" and SeverityLevel >= 3), (${thrown} == "${pageFunction}")'
          timeAggregation: 'Count'
          operator: 'GreaterThan'
          threshold: 0
          failingPeriods: { minFailingPeriodsToAlert: 1, numberOfEvaluationPeriods: 1 }
        }
      ]
    }
    actions: { actionGroups: [ people.id ] }
  }
}
