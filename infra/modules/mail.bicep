// Outgoing email through Azure Communication Services, from a domain that Azure creates and manages, so you need no DNS record.
// https://learn.microsoft.com/azure/communication-services/concepts/email/email-overview

@description('Name of the email service and of the communication service, globally unique.')
param name string

@description('Tags.')
param tags object

@description('Object ID of the identity the app runs as.')
param principalId string

@description('Region in which the service stores its data, for example Europe or United States.')
param dataLocation string

// Not a custom role: the service accepts the built-in one reliably, and custom ones are reported not to work. It is assigned on
// this one service only, whose keys are switched off.
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

@description('Sender of the summary, for REAPER_EMAIL_SENDER.')
output sender string = 'DoNotReply@${domain.properties.fromSenderDomain}'
