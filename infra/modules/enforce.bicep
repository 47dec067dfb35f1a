// What the app may change in the audited subscriptions. Deployed in mode enforce and in no other: without it nothing in this
// installation can change a resource. It comes on top of the role that reads.
// https://learn.microsoft.com/azure/role-based-access-control/custom-roles
targetScope = 'subscription'

@description('Name of the installation.')
param name string

@description('Display name of the role, unique in the tenant.')
param roleName string

@description('Ids of the subscriptions in which the app may act.')
param subscriptions array

@description('Object id of the identity the app runs as.')
param principalId string

// The one place where they are written down; a test compares them with what the acts of the Azure kinds declare, and with what
// they call. Azure has no deny for a tag: what protects by tag is in the code, which is not even loaded below mode enforce.
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
    description: 'What ML Idle Reaper changes in mode enforce: it stops and starts compute, scales in, and deletes online deployments that it can bring back.'
    type: 'customRole'
    permissions: [ { actions: actions, notActions: [], dataActions: [], notDataActions: [] } ]
    // One in which the role is still given cannot be taken out: https://github.com/Azure/bicep/issues/17145
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
