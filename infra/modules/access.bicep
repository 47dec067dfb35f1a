// Assigns a role in one subscription to the app's identity.
// At subscription level, because the batch metrics service checks the right to read metrics there.
// https://learn.microsoft.com/azure/azure-monitor/metrics/migrate-to-batch-api
targetScope = 'subscription'

@description('GUID of the role definition.')
param role string

@description('Object ID of the identity the app runs as.')
param principalId string

@description('Purpose of the role assignment.')
param purpose string = 'ML Idle Reaper: reads Azure ML resources and their metrics'

var roleId = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role)

resource assignment 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(subscription().id, principalId, role)
  properties: {
    description: purpose
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: roleId
  }
}
