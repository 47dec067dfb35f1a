// The Functions host's own storage account, with the deployed package, its leases and its keys. Nothing here outlives the app. Reports,
// ledger and manifests have their own account (storage.bicep), so that this role can be as wide as the host needs.
// Account keys are off: every access is by Entra identity and role.
// https://learn.microsoft.com/azure/azure-functions/functions-reference#connecting-to-host-storage-with-an-identity

@description('Name of the account: 3 to 24 lower-case letters and digits, globally unique.')
@minLength(3)
@maxLength(24)
param name string

@description('Region.')
param location string

@description('Tags.')
param tags object

@description('Object ID of the identity the app runs as.')
param principalId string

var blobDataOwner = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b')

resource account 'Microsoft.Storage/storageAccounts@2024-01-01' = {
  name: name
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: { name: 'Standard_LRS' }
  properties: {
    accessTier: 'Hot'
    allowBlobPublicAccess: false
    allowCrossTenantReplication: false
    allowSharedKeyAccess: false
    defaultToOAuthAuthentication: true
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2024-01-01' = {
  parent: account
  name: 'default'
}

resource package 'Microsoft.Storage/storageAccounts/blobServices/containers@2024-01-01' = {
  parent: blobs
  name: 'package'
  properties: { publicAccess: 'None' }
}

// The host creates its own containers here and requires this very role on the account, so it can't be narrowed to a container.
resource hostAccess 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(account.id, principalId, blobDataOwner)
  scope: account
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: blobDataOwner
  }
}

@description('Address of the blob service, for AzureWebJobsStorage.')
output blobEndpoint string = account.properties.primaryEndpoints.blob

@description('Address of the container the package is deployed to.')
output packageUrl string = '${account.properties.primaryEndpoints.blob}${package.name}'
