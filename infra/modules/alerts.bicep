// Rules that watch the watcher: a sweep failed, did not see everything or holds acts back; (dead man) no sweep has succeeded for
// too long; the workspace takes in no more logs, which blinds the first one and sooner or later wakes the second; and, where there is a
// snooze page, it cannot answer.
// They ask the workspace behind Application Insights, and rest on lines that the app writes and on failures that the host reports. A call
// that succeeds leaves no row of its own: anybody may call the page, and such rows, which cannot be had for one function only
// (https://github.com/Azure/azure-functions-host/issues/4742), would let strangers use up the workspace's daily cap. host.json has the
// levels, with sampling off: https://learn.microsoft.com/azure/azure-functions/configure-monitoring#configure-log-levels
// https://learn.microsoft.com/azure/azure-monitor/alerts/alerts-types#log-alerts

@description('Start of the rules\' and the action group\'s names.')
param name string

@description('Region.')
param location string

@description('Tags.')
param tags object

@description('Resource id of the workspace to ask.')
param workspaceId string

@description('Name of the function app, as the logs call it.')
param appName string

@description('Name of the timer function, as the logs call it.')
param timerFunction string

@description('Name of the snooze page\'s function, as the logs call it; empty where the app has no such page.')
param pageFunction string

@description('E-mail addresses that are told.')
param recipients array

@description('Hours without a successful sweep after which the dead man calls.')
param silentHours int

var sweeps = 'AppRequests | where AppRoleName =~ "${appName}" and OperationName == "${timerFunction}"'

// What reaper.azure.triggers logs for each list that is not complete and for acts that failed, for a report or summary that got
// nowhere, and for acts that are held because they are too many at once.
var gaps = 'AppTraces | where AppRoleName =~ "${appName}" and tostring(parse_json(Message).event) in ("coverage incomplete", "summary not sent", "report not stored", "acts held")'

// An app of an earlier version has no such line, but its host logs each call that succeeds.
var succeeded = 'union (${sweeps} and Success == true), (AppTraces | where AppRoleName =~ "${appName}" and tostring(parse_json(Message).event) == "scheduled sweep succeeded")'
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
    displayName: 'ML Idle Reaper: a sweep failed, did not see everything or holds acts back'
    description: 'The timer function ended with an error (in Application Insights, under Failures), or a sweep could not see everything: its report and the trace "coverage incomplete" name the missing permission; its row "acts" is an act that failed. The trace "acts held": actions are on hold until a person looks and runs `reaper release`.'
    enabled: true
    severity: 2
    autoMitigate: true
    evaluationFrequency: 'PT15M'
    // Twice as long as the frequency, so that a row that arrives late is still seen once.
    windowSize: 'PT30M'
    scopes: [ workspaceId ]
    // A new workspace has no such rows yet; without this the rule could not be made before the first sweep.
    skipQueryValidation: true
    criteria: {
      allOf: [
        {
          query: 'union (${sweeps} and Success == false), (${thrown} == "${timerFunction}"), (${gaps})'
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
    // Two days is the longest look back a rule may have; the query narrows it to the hours asked for.
    windowSize: 'P2D'
    scopes: [ workspaceId ]
    skipQueryValidation: true
    criteria: {
      allOf: [
        {
          // Counting without a group gives one row even where nothing matches, so silence is a row and not an empty answer.
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

// The workspace tells about itself, also when it takes in nothing else any more.
// https://learn.microsoft.com/azure/azure-monitor/logs/daily-cap
resource deaf 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = {
  name: '${name}-logs-stopped'
  location: location
  tags: tags
  kind: 'LogAlert'
  properties: {
    displayName: 'ML Idle Reaper: no more logs are taken in'
    description: 'The workspace has reached its daily cap, or ingestion was stopped: until it goes on, a sweep that fails is not noticed. Look at what fills it, or raise logDailyCapGb.'
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

// What reaper.azure.snooze_route logs as an error: the page answers 503, or answers with keys that it cannot read again, or could not write
// its history. The log names what failed.
resource page 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = if (!empty(pageFunction)) {
  name: '${name}-page-failed'
  location: location
  tags: tags
  kind: 'LogAlert'
  properties: {
    displayName: 'ML Idle Reaper: the snooze page fails'
    description: 'Owners who follow the link of a notice get an error instead of the page, or soon will: the trace "keep-link" of the function ${pageFunction} says which permission, secret or table is missing. Their tag reaper:keep-until works meanwhile.'
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
