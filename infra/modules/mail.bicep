// Outgoing e-mail by Azure Communication Services, from a domain that Azure makes and manages, so no DNS record is needed.
// https://learn.microsoft.com/azure/communication-services/concepts/email/email-overview

@description('Name of the e-mail and of the communication service, unique in the world.')
param name string

@description('Tags.')
param tags object

@description('Object id of the identity the app runs as.')
param principalId string

@description('Where the service keeps its data at rest, for instance Europe or United States.')
param dataLocation string

// A custom role is not an answer here: the service takes the built-in one reliably, and custom ones were reported as
// not honoured. It is given on this one service only, and the service has its keys switched off.
// https://learn.microsoft.com/azure/role-based-access-control/built-in-roles/integration#communication-and-email-service-owner
var mailOwner = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '09976791-48a7-449e-bb21-39d1a415f350')

resource email 'Microsoft.Communication/emailServices@2025-09-01' = {
  name: name
  location: 'global'
  tags: tags
  properties: { dataLocation: dataLocation }
}

resource domain 'Microsoft.Communication/emailServices/domains@2025-09-01' = {
  parent: email
  name: 'AzureManagedDomain'
  location: 'global'
  tags: tags
  properties: {
    domainManagement: 'AzureManaged'
    userEngagementTracking: 'Disabled'
  }
}

resource service 'Microsoft.Communication/communicationServices@2025-09-01' = {
  name: name
  location: 'global'
  tags: tags
  properties: {
    dataLocation: dataLocation
    disableLocalAuth: true
    linkedDomains: [ domain.id ]
  }
}

resource send 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(service.id, principalId, mailOwner)
  scope: service
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: mailOwner
  }
}

@description('Address of the service, for REAPER_EMAIL_ENDPOINT.')
output endpoint string = 'https://${service.properties.hostName}'

@description('Address the summary comes from, for REAPER_EMAIL_SENDER.')
output sender string = 'DoNotReply@${domain.properties.fromSenderDomain}'
