// What the app may read in the audited subscriptions, and nothing else: below mode enforce it is all there is. Resource Graph
// needs no action of its own: it shows the rows the caller may read.
// A role definition lives in the tenant, not in a resource group; its name must be the only one of its kind there.
// https://learn.microsoft.com/azure/role-based-access-control/custom-roles
targetScope = 'subscription'

@description('Display name of the role, unique in the tenant.')
param roleName string

@description('Ids of the subscriptions in which the role can be assigned.')
param subscriptions array

// The one place where they are written down; a test compares them with what the Azure kinds declare.
var actions = [
  'Microsoft.Insights/autoscaleSettings/read'
  'Microsoft.Insights/metrics/read'
  'Microsoft.MachineLearningServices/workspaces/computes/read'
  'Microsoft.MachineLearningServices/workspaces/jobs/read'
  'Microsoft.MachineLearningServices/workspaces/onlineEndpoints/deployments/read'
  'Microsoft.MachineLearningServices/workspaces/onlineEndpoints/read'
  'Microsoft.MachineLearningServices/workspaces/read'
  'Microsoft.Resources/subscriptions/read'
]

resource role 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  // From the tenant and the name only, so that listing the subscriptions in another order updates the same role.
  name: guid(subscription().tenantId, roleName)
  properties: {
    roleName: roleName
    description: 'What ML Idle Reaper reads: it cannot change, start, stop or delete anything.'
    type: 'customRole'
    permissions: [ { actions: actions, notActions: [], dataActions: [], notDataActions: [] } ]
    // One in which the role is still given cannot be taken out: https://github.com/Azure/bicep/issues/17145
    assignableScopes: [for id in subscriptions: '/subscriptions/${id}']
  }
}

@description('Guid of the role definition.')
output name string = role.name
