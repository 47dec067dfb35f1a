// What the app may read in the audited subscriptions, and nothing else. Below enforce mode this is its only role there. Resource
// Graph needs no action of its own: it shows the rows that the caller may read.
// A role definition belongs to the tenant, not to a resource group, and its name must be unique there.
// https://learn.microsoft.com/azure/role-based-access-control/custom-roles
targetScope = 'subscription'

@description('Display name of the role, unique in the tenant.')
param roleName string

@description('IDs of the subscriptions in which the role can be assigned.')
param subscriptions array

// The only list of these actions. A test compares it with what the Azure kinds declare.
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
  // From the tenant and the name only, so that the subscriptions in another order update the same role.
  name: guid(subscription().tenantId, roleName)
  properties: {
    roleName: roleName
    description: 'What ML Idle Reaper reads. It can\'t change, start, stop or delete anything.'
    type: 'customRole'
    permissions: [ { actions: actions, notActions: [], dataActions: [], notDataActions: [] } ]
    // A subscription in which the role is still assigned can't be removed: https://github.com/Azure/bicep/issues/17145
    assignableScopes: [for id in subscriptions: '/subscriptions/${id}']
  }
}

@description('GUID of the role definition.')
output name string = role.name
