// The reaper's own storage account: reports, what the phases of a run hand over and, if needed, ledger and manifests. The app has a role on each container and on the
// table, and none on the account.
// Account keys are off: every access is by Entra identity and role.
// https://learn.microsoft.com/azure/storage/common/shared-key-authorization-prevent

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

@description('Object IDs of the Entra groups that may read the stored reports.')
param reportReaders array

@description('Days to keep a stored report.')
param reportRetentionDays int

@description('Whether the app keeps the ledger table.')
param remember bool

@description('Whether the app acts, and therefore stores manifests.')
param acts bool

@description('Days after its creation in which a manifest can\'t be deleted or changed. 0: no such rule.')
param manifestImmutabilityDays int

@description('Public IPv4 addresses or ranges that may reach the account.')
param allowedAddresses array

@description('IDs of the subnets that may reach the account. With neither addresses nor subnets, its network rules don\'t change, and a new account is open to all.')
param allowedSubnets array

var closed = !empty(allowedAddresses) || !empty(allowedSubnets)
var networks = {
  bypass: 'AzureServices'
  defaultAction: 'Deny'
  ipRules: map(allowedAddresses, address => { action: 'Allow', value: address })
  virtualNetworkRules: map(allowedSubnets, id => { action: 'Allow', id: id })
}
var blobDataContributor = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', 'ba92f5b4-2d11-453d-a403-e96b0029c9fe')
var blobDataReader = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '2a2b9908-6ea1-4ae2-8e65-a410df84e7d1')
var tableDataContributor = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3')

resource account 'Microsoft.Storage/storageAccounts@2024-01-01' = {
  name: name
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: { name: 'Standard_LRS' }
  // If the parameters name no network, the rules are left out, not opened: manual rules stay.
  properties: union({
    accessTier: 'Hot'
    allowBlobPublicAccess: false
    allowCrossTenantReplication: false
    allowSharedKeyAccess: false
    defaultToOAuthAuthentication: true
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
  }, closed ? { networkAcls: networks } : {})
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2024-01-01' = {
  parent: account
  name: 'default'
  properties: {
    containerDeleteRetentionPolicy: { enabled: true, days: 7 }
    deleteRetentionPolicy: { enabled: true, days: 7 }
    isVersioningEnabled: true
  }
}

resource reports 'Microsoft.Storage/storageAccounts/blobServices/containers@2024-01-01' = {
  parent: blobs
  name: 'reports'
  properties: { publicAccess: 'None' }
}

// What the phases of a run hand over to each other, and notes about runs. A run needs it for a few hours.
resource runs 'Microsoft.Storage/storageAccounts/blobServices/containers@2024-01-01' = {
  parent: blobs
  name: 'runs'
  properties: { publicAccess: 'None' }
}

// Manifests: everything an undo needs. Nothing here expires: the rules below are for reports and runs. The app writes each name once.
// Manifests contain settings of deployments, including environment variables, so only the app gets a role on them here.
resource manifests 'Microsoft.Storage/storageAccounts/blobServices/containers@2024-01-01' = if (acts) {
  parent: blobs
  name: 'manifests'
  properties: { publicAccess: 'None' }
}

// Unlocked, and it must stay so: a locked one could never be removed, nor could the resource group while it lasts.
// https://learn.microsoft.com/azure/storage/blobs/immutable-time-based-retention-policy-overview
resource unchangeable 'Microsoft.Storage/storageAccounts/blobServices/containers/immutabilityPolicies@2024-01-01' = if (acts && manifestImmutabilityDays > 0) {
  parent: manifests
  name: 'default'
  properties: {
    allowProtectedAppendWrites: false
    immutabilityPeriodSinceCreationInDays: manifestImmutabilityDays
  }
}

resource expiry 'Microsoft.Storage/storageAccounts/managementPolicies@2024-01-01' = {
  parent: account
  name: 'default'
  properties: {
    policy: {
      rules: [
        {
          // As long as the history of a run. Its report stays.
          name: 'runs-expire'
          type: 'Lifecycle'
          enabled: true
          definition: {
            filters: { blobTypes: [ 'blockBlob' ], prefixMatch: [ '${runs.name}/' ] }
            actions: {
              baseBlob: { delete: { daysAfterModificationGreaterThan: 14 } }
              version: { delete: { daysAfterCreationGreaterThan: 14 } }
            }
          }
        }
        {
          name: 'reports-expire'
          type: 'Lifecycle'
          enabled: true
          definition: {
            filters: { blobTypes: [ 'blockBlob' ], prefixMatch: [ '${reports.name}/' ] }
            actions: {
              baseBlob: { delete: { daysAfterModificationGreaterThan: reportRetentionDays } }
              version: { delete: { daysAfterCreationGreaterThan: reportRetentionDays } }
            }
          }
        }
      ]
    }
  }
}

resource tables 'Microsoft.Storage/storageAccounts/tableServices@2024-01-01' = if (remember) {
  parent: account
  name: 'default'
}

resource ledger 'Microsoft.Storage/storageAccounts/tableServices/tables@2024-01-01' = if (remember) {
  parent: tables
  name: 'ledger'
}

resource reportsWritten 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(reports.id, principalId, blobDataContributor)
  scope: reports
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: blobDataContributor
  }
}

resource runsWritten 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(runs.id, principalId, blobDataContributor)
  scope: runs
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: blobDataContributor
  }
}

resource manifestsWritten 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (acts) {
  name: guid(manifests.id, principalId, blobDataContributor)
  scope: manifests
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: blobDataContributor
  }
}

resource ledgerAccess 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (remember) {
  name: guid(ledger.id, principalId, tableDataContributor)
  scope: ledger
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: tableDataContributor
  }
}

// Account keys are off, so even an Owner of the subscription needs this role to read a report.
resource reportAccess 'Microsoft.Authorization/roleAssignments@2022-04-01' = [for reader in reportReaders: {
  name: guid(reports.id, reader, blobDataReader)
  scope: reports
  properties: {
    principalId: reader
    principalType: 'Group'
    roleDefinitionId: blobDataReader
  }
}]

@description('Name of the account.')
output accountName string = account.name

@description('Address of the container for full reports, for REAPER_REPORTS.')
output reportsUrl string = '${account.properties.primaryEndpoints.blob}${reports.name}'

@description('Address of the container for what phases hand over, for REAPER_RUNS.')
output runsUrl string = '${account.properties.primaryEndpoints.blob}${runs.name}'

@description('Address of the container for manifests, for REAPER_MANIFESTS. Empty if the app doesn\'t act.')
output manifestsUrl string = acts ? '${account.properties.primaryEndpoints.blob}manifests' : ''

@description('Address of the ledger, for REAPER_LEDGER.')
output ledgerUrl string = remember ? 'table://${account.name}/ledger' : 'memory:'
