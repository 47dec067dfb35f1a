// Logs and custom metrics: a Log Analytics workspace with an Application Insights component on top of it.
// Local authentication is off on both: the instrumentation key only says where to send, the app's identity says who is sending.
// https://learn.microsoft.com/azure/azure-monitor/app/azure-ad-authentication

@description('Name of the component; the workspace has the same name.')
param name string

@description('Region.')
param location string

@description('Tags.')
param tags object

@description('Object ID of the identity the app runs as.')
param principalId string

@description('Days to keep the logs.')
param retentionDays int

@description('Gigabytes of logs a day. Above it, no logs are stored until the next day.')
param dailyCapGb int

var metricsPublisher = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '3913510d-42f4-4e42-8a64-420c390055eb')

resource workspace 'Microsoft.OperationalInsights/workspaces@2025-02-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    features: { disableLocalAuth: true }
    retentionInDays: retentionDays
    sku: { name: 'PerGB2018' }
    workspaceCapping: { dailyQuotaGb: dailyCapGb }
  }
}

resource insights 'Microsoft.Insights/components@2020-02-02' = {
  name: name
  location: location
  tags: tags
  kind: 'web'
  properties: {
    Application_Type: 'web'
    DisableLocalAuth: true
    IngestionMode: 'LogAnalytics'
    WorkspaceResourceId: workspace.id
  }
}

resource publish 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(insights.id, principalId, metricsPublisher)
  scope: insights
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: metricsPublisher
  }
}

@description('Name of the Application Insights component.')
output insightsName string = insights.name

@description('Resource ID of the workspace, for the alert rules.')
output workspaceId string = workspace.id
