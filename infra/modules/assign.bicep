// Lets the app set the traffic of an online endpoint that runs as a user-assigned identity. Setting traffic writes the whole endpoint,
// including its identities, and Resource Manager requires the right to assign each of them. The right applies to this one identity and
// to no other: anyone who may assign an identity to an endpoint can run code as it.
// https://learn.microsoft.com/azure/role-based-access-control/built-in-roles/identity#managed-identity-operator

@description('Name of the identity, in the resource group of this deployment.')
param identityName string

@description('Object ID of the identity the app runs as.')
param principalId string

// Microsoft.ManagedIdentity/userAssignedIdentities/assign/action, and reading it.
var identityOperator = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', 'f1a07417-d97a-45cb-824c-7a7467783830')

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' existing = {
  name: identityName
}

resource assign 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(identity.id, principalId, identityOperator)
  scope: identity
  properties: {
    description: 'ML Idle Reaper: sets the traffic of endpoints that run as this identity, in mode enforce'
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: identityOperator
  }
}
