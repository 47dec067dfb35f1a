// The app's roles at a management group, so that it reads (and in enforce mode acts in) every subscription below, those that are added later
// included. Deploy main.bicep with the parameter managementGroup first: its identity is what gets the roles.
//
//   az deployment mg create --management-group-id GROUP --name ml-reaper --location westeurope --template-file infra/management-group.bicep --parameters principalId=OBJECT_ID
//
// docs/deploy-azure.md has the commands. A role for a management group can name only that one, so these are not the roles of main.bicep:
// https://learn.microsoft.com/azure/role-based-access-control/custom-roles#custom-role-limits
targetScope = 'managementGroup'

@description('Object ID of the identity the app runs as: the output principalId of main.bicep.')
@minLength(36)
@maxLength(36)
param principalId string

@description('Short name of the installation, as in main.bicep.')
param name string = 'ml-reaper'

@description('Run mode, as in main.bicep. Only enforce creates and assigns the role that acts.')
@allowed([ 'audit', 'notify', 'announce', 'enforce' ])
param mode string = 'audit'

@description('Display name of the custom role that reads, unique in the tenant.')
param roleName string = name == 'ml-reaper' ? 'reaper-group-audit' : '${name}-group-audit'

@description('Display name of the custom role that acts, unique in the tenant. Created and assigned in enforce mode only.')
param enforceRoleName string = name == 'ml-reaper' ? 'reaper-group-enforce' : '${name}-group-enforce'

// Those of modules/role.bicep, and the one that lists what is below the group. A test compares them.
var actions = [
  'Microsoft.Insights/autoscaleSettings/read'
  'Microsoft.Insights/metrics/read'
  'Microsoft.MachineLearningServices/workspaces/computes/read'
  'Microsoft.MachineLearningServices/workspaces/jobs/read'
  'Microsoft.MachineLearningServices/workspaces/onlineEndpoints/deployments/read'
  'Microsoft.MachineLearningServices/workspaces/onlineEndpoints/read'
  'Microsoft.MachineLearningServices/workspaces/read'
  'Microsoft.Management/managementGroups/descendants/read'
  'Microsoft.Resources/subscriptions/read'
]

// Those of modules/enforce.bicep. A test compares them.
var enforceActions = [
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
  name: guid(tenant().tenantId, roleName)
  properties: {
    roleName: roleName
    description: 'What ML Idle Reaper reads below this management group. It can\'t change, start, stop or delete anything.'
    type: 'customRole'
    permissions: [ { actions: actions, notActions: [], dataActions: [], notDataActions: [] } ]
    assignableScopes: [ managementGroup().id ]
  }
}

resource access 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(managementGroup().id, principalId, role.id)
  properties: {
    description: 'ML Idle Reaper: reads Azure ML resources and their metrics'
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: role.id
  }
}

// Leaving enforce mode doesn't remove these: a deployment deletes nothing. docs/deploy-azure.md has the command.
resource enforceRole 'Microsoft.Authorization/roleDefinitions@2022-04-01' = if (mode == 'enforce') {
  name: guid(tenant().tenantId, enforceRoleName)
  properties: {
    roleName: enforceRoleName
    description: 'What ML Idle Reaper changes below this management group in enforce mode: it stops and starts compute, scales in, and deletes online deployments that it can recreate.'
    type: 'customRole'
    permissions: [ { actions: enforceActions, notActions: [], dataActions: [], notDataActions: [] } ]
    assignableScopes: [ managementGroup().id ]
  }
}

resource enforceAccess 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (mode == 'enforce') {
  name: guid(managementGroup().id, principalId, enforceRole.id)
  properties: {
    description: 'ML Idle Reaper: acts on idle Azure ML resources, in mode enforce'
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: enforceRole.id
  }
}
