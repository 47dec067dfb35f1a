// The storage account of Durable Functions: the queues, histories and leases of runs. Its role has to be as wide as the account, so nothing
// else is in it: what runs hand over, reports, ledger and manifests have their own account, where rights are per container and table.
// Account keys are off: every access is by Entra identity and role.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-configure-managed-identity

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

var blobDataContributor = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', 'ba92f5b4-2d11-453d-a403-e96b0029c9fe')
var queueDataContributor = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '974c5e8b-45b9-4653-ba55-5f855dd0fb88')
var tableDataContributor = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3')

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

resource leases 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(account.id, principalId, blobDataContributor)
  scope: account
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: blobDataContributor
  }
}

resource messages 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(account.id, principalId, queueDataContributor)
  scope: account
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: queueDataContributor
  }
}

resource histories 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(account.id, principalId, tableDataContributor)
  scope: account
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: tableDataContributor
  }
}

@description('Addresses of the services, for the connection that host.json names.')
output endpoints object = {
  blob: account.properties.primaryEndpoints.blob
  queue: account.properties.primaryEndpoints.queue
  table: account.properties.primaryEndpoints.table
}
