// Gives the app's identity a role in one subscription.
// At subscription level, because the batch metrics service checks the right to read metrics there.
// https://learn.microsoft.com/azure/azure-monitor/metrics/migrate-to-batch-api
targetScope = 'subscription'

@description('Guid of the role definition.')
param role string

@description('Object id of the identity the app runs as.')
param principalId string

@description('What the role is given for.')
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
