// What the app may change in the audited subscriptions, in addition to the role that reads. Deployed in enforce mode only: otherwise
// nothing in this installation can change a resource.
// https://learn.microsoft.com/azure/role-based-access-control/custom-roles
targetScope = 'subscription'

@description('Name of the installation.')
param name string

@description('Display name of the role, unique in the tenant.')
param roleName string

@description('IDs of the subscriptions in which the app may act.')
param subscriptions array

@description('Object ID of the identity the app runs as.')
param principalId string

// The only list of these actions. A test compares it with what the Azure kinds' actions declare, and with what they call. Azure can't
// deny by tag: protection by tag is in the code, which isn't loaded below enforce mode.
var actions = [
  'Microsoft.MachineLearningServices/workspaces/codes/versions/read'
  'Microsoft.MachineLearningServices/workspaces/computes/start/action'
  'Microsoft.MachineLearningServices/workspaces/computes/stop/action'
  'Microsoft.MachineLearningServices/workspaces/computes/updateIdleShutdownSetting/action'
  'Microsoft.MachineLearningServices/workspaces/computes/write'
  'Microsoft.MachineLearningServices/workspaces/environments/versions/read'
  'Microsoft.MachineLearningServices/workspaces/models/versions/read'
  'Microsoft.MachineLearningServices/workspaces/onlineEndpoints/deployments/delete'
  'Microsoft.MachineLearningServices/workspaces/onlineEndpoints/deployments/write'
  'Microsoft.MachineLearningServices/workspaces/onlineEndpoints/write'
]

resource role 'Microsoft.Authorization/roleDefinitions@2022-04-01' = {
  name: guid(subscription().tenantId, roleName)
  properties: {
    roleName: roleName
    description: 'What ML Idle Reaper changes in enforce mode: it stops and starts compute, scales in, and deletes online deployments that it can recreate.'
    type: 'customRole'
    permissions: [ { actions: actions, notActions: [], dataActions: [], notDataActions: [] } ]
    // A subscription in which the role is still assigned can't be removed: https://github.com/Azure/bicep/issues/17145
    assignableScopes: [for id in subscriptions: '/subscriptions/${id}']
  }
}

// Named for the installation (its identity) and the location: a deployment at a subscription keeps its first location.
module access 'access.bicep' = [for id in subscriptions: {
  scope: subscription(id)
  name: '${name}-enforce-${uniqueString(id, principalId, deployment().location)}'
  params: {
    role: role.name
    principalId: principalId
    purpose: 'ML Idle Reaper: acts on idle Azure ML resources, in mode enforce'
  }
}]
