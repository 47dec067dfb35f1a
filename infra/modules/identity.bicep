// The only identity of the function app.
// User-assigned, so that it (and every role assigned to it) survives if the app is replaced.
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

@description('Resource ID, for the app.')
output id string = identity.id

@description('Client ID, for AZURE_CLIENT_ID. It names the identity and is not a secret.')
output clientId string = identity.properties.clientId

@description('Object ID, for role assignments.')
output principalId string = identity.properties.principalId
