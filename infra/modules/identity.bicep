// The one identity the function app runs as.
// User-assigned, so that it (and every role given to it) survives when the app is replaced.
// https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/overview

@description('Name of the identity.')
param name string

@description('Region.')
param location string

@description('Tags.')
param tags object

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: name
  location: location
  tags: tags
}

@description('Resource id, for the app.')
output id string = identity.id

@description('Client id, for AZURE_CLIENT_ID. It names the identity and is not a secret.')
output clientId string = identity.properties.clientId

@description('Object id, for role assignments.')
output principalId string = identity.properties.principalId
