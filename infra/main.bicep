// ML Idle Reaper on Azure: one resource group with everything in it, one custom role that reads, and that role's assignment in
// every audited subscription; in mode enforce a second role, that acts.
//
//   az deployment sub create --name ml-reaper --location westeurope --template-file infra/main.bicep --parameters infra/main.bicepparam
//
// docs/deploy-azure.md explains each parameter, each permission, what it costs and how to take it away again.
targetScope = 'subscription'

@description('Short name of this installation, its own in the tenant; names of resources, roles and deployment records start with it. Letters, digits and inner hyphens only.')
@minLength(4)
@maxLength(16)
param name string = 'ml-reaper'

@description('Region of the resource group and all in it. It must offer Flex Consumption.')
param location string = deployment().location

@description('The resource group to make. Deleting it removes the installation.')
param resourceGroupName string = 'rg-${name}'

@description('Tags for the resource group and all in it.')
param tags object = {}

@description('E-mail addresses of the admins: they get the summary of each sweep and the alerts.')
@minLength(1)
param admins array

@description('Ids of the subscriptions to audit. Without it, the one that is deployed to. Before you take one out, take back the roles there (docs/deploy-azure.md).')
@minLength(1)
param subscriptions array = [ subscription().subscriptionId ]

@description('Object ids of the Entra groups that may read the stored reports.')
param reportReaders array = []

@description('How far a run may go: audit reports only, notify also tells the owners, announce also says when an action comes and leaves it to `reaper apply`, enforce also acts. Below enforce the identity can change no resource.')
@allowed([ 'audit', 'notify', 'announce', 'enforce' ])
param mode string = 'audit'

@description('The policy: a blob\'s https URL that the identity may read, or the YAML itself. Empty: the built-in defaults.')
param policy string = ''

@description('When to sweep, in UTC: second minute hour day month weekday. Keep it at least daily, or the dead man calls.')
param schedule string = '0 0 6 * * *'

@description('No summary when nothing is idle, unknown or missing.')
param quiet bool = true

@description('Keep a table with what was told to whom even for an audit, which then knows of snoozes. Every mode above audit always keeps it.')
param remember bool = false

@description('Where the keys are that sign keep-links: the https address of a Key Vault secret that the identity may read. Empty: no links.')
param snoozeKeys string = ''

@description('Which Key Vault secrets the policy may name: https addresses, * for any letters in them. The identity must be able to read them.')
param channelSecrets array = []

@description('Days the logs are kept.')
@minValue(30)
@maxValue(730)
param logRetentionDays int = 90

@description('Gigabytes of logs a day after which no more are taken in until the next day.')
@minValue(1)
param logDailyCapGb int = 1

@description('Days after which a stored report is deleted.')
@minValue(1)
param reportRetentionDays int = 365

@description('Days from its making in which nobody can delete or change a manifest, by an unlocked policy on their container. 0: no such policy.')
@minValue(0)
@maxValue(3650)
param manifestImmutabilityDays int = 0

@description('Public IPv4 addresses or ranges that may reach reports, memory and manifests, besides the app. With them or subnets given every other network is refused; with neither the account\'s rules stay as they are.')
param allowedAddresses array = []

@description('Ids of the subnets that may reach them, with the service endpoint Microsoft.Storage.')
param allowedSubnets array = []

@description('Id of a subnet, delegated to Microsoft.App/environments, that the app goes out through. Needed where networks are refused, or the app would be, too.')
param appSubnet string = ''

@description('Hours without a successful sweep after which the admins are told.')
@minValue(1)
@maxValue(48)
param silentHours int = 26

@description('Where Azure Communication Services keeps its data at rest, for instance Europe or United States.')
param mailDataLocation string = 'Europe'

@description('Display name of the custom role that reads, unique in the tenant.')
param roleName string = name == 'ml-reaper' ? 'reaper-audit' : '${name}-audit'

@description('Display name of the custom role that acts, unique in the tenant; made and assigned in mode enforce only.')
param enforceRoleName string = name == 'ml-reaper' ? 'reaper-enforce' : '${name}-enforce'

@description('Ids of the user-assigned identities that your online endpoints run as. In mode enforce the app may assign these and no other, without which it cannot set the traffic of such an endpoint.')
param endpointIdentities array = []

@description('Further settings of the function app, by name, such as Key Vault references. One that has a parameter of its own is refused.')
@secure()
param extraSettings object = {}

@description('Python version of the worker.')
@allowed([ '3.12', '3.13' ])
param pythonVersion string = '3.13'

@description('Name of the timer function in function_app.py; the alert rules look for it in the logs.')
param timerFunction string = 'sweep_on_schedule'

var suffix = uniqueString(subscription().id, resourceGroupName)
var appName = '${name}-${suffix}'

// A deployment at a subscription keeps its first location and outlives the resource group. Its name must therefore say which
// installation it belongs to and where, or a second one, or the same one in another region, is refused.
var installation = uniqueString(suffix, deployment().location)

// Bicep has no pattern for a parameter. Asking an object for a key that it lacks fails instead, and the error quotes the key. The
// group's name asks: names are worked out before anything is made.
var strange = filter(range(0, length(name)), i => !contains('abcdefghijklmnopqrstuvwxyz0123456789-', toLower(substring(name, i, 1))))
var fits = empty(strange) && !startsWith(name, '-') && !endsWith(name, '-')

// Nor has it one for addresses. A variable of a pipeline that nobody has set is one empty address, and summaries to it would fail one by one.
var odd = filter(admins, address => !contains(address, '@') || contains(address, ' '))
var complaint = fits ? 'admins: e-mail addresses, with commas and no spaces between them' : '${name}: letters, digits and inner hyphens only'
var groupName = { fits: resourceGroupName }[fits && empty(odd) ? 'fits' : complaint]

// The same way: an app without a subnet that shuts every network out would shut itself out, and no sweep could store anything.
var closed = !empty(allowedAddresses) || !empty(allowedSubnets)
var appGetsIn = !closed || !empty(appSubnet)
var subnets = { in: closed ? union(allowedSubnets, [ appSubnet ]) : [] }[appGetsIn ? 'in' : 'appSubnet: needed with allowedAddresses or allowedSubnets']

// And a setting that this deployment makes itself, whatever its case: two values of one setting, and nobody knows which one holds.
var own = [
  'applicationinsights_authentication_string'
  'applicationinsights_connection_string'
  'azure_client_id'
  'azurewebjobsstorage__blobserviceuri'
  'azurewebjobsstorage__clientid'
  'azurewebjobsstorage__credential'
  'reaper_deployment'
  'reaper_email_endpoint'
  'reaper_email_sender'
  'reaper_email_to'
  'reaper_ledger'
  'reaper_manifests'
  'reaper_mode'
  'reaper_policy'
  'reaper_quiet'
  'reaper_reports'
  'reaper_schedule'
  'reaper_secrets'
  'reaper_snooze_keys'
  'reaper_snooze_url'
  'reaper_subscriptions'
]
var twice = filter(objectKeys(extraSettings), key => contains(own, toLower(key)))
var further = { free: extraSettings }[empty(twice) ? 'free' : 'extraSettings: ${join(twice, ', ')} is made by the deployment itself']

resource group 'Microsoft.Resources/resourceGroups@2024-11-01' = {
  name: groupName
  location: location
  tags: tags
}

module identity 'modules/identity.bicep' = {
  scope: group
  name: 'reaper-identity'
  params: {
    name: name
    location: location
    tags: tags
  }
}

module host 'modules/host.bicep' = {
  scope: group
  name: 'reaper-host'
  params: {
    name: 'reaperhost${suffix}'
    location: location
    tags: tags
    principalId: identity.outputs.principalId
  }
}

module storage 'modules/storage.bicep' = {
  scope: group
  name: 'reaper-storage'
  params: {
    name: 'reaper${suffix}'
    location: location
    tags: tags
    principalId: identity.outputs.principalId
    reportReaders: reportReaders
    reportRetentionDays: reportRetentionDays
    remember: remember || mode != 'audit'
    acts: mode == 'enforce'
    manifestImmutabilityDays: manifestImmutabilityDays
    allowedAddresses: allowedAddresses
    allowedSubnets: subnets
  }
}

module monitoring 'modules/monitoring.bicep' = {
  scope: group
  name: 'reaper-monitoring'
  params: {
    name: name
    location: location
    tags: tags
    principalId: identity.outputs.principalId
    retentionDays: logRetentionDays
    dailyCapGb: logDailyCapGb
  }
}

module mail 'modules/mail.bicep' = {
  scope: group
  name: 'reaper-mail'
  params: {
    name: appName
    tags: tags
    principalId: identity.outputs.principalId
    dataLocation: mailDataLocation
  }
}

// Deployed to the first audited subscription: a role can only be made at one of the scopes it names.
module role 'modules/role.bicep' = {
  scope: subscription(subscriptions[0])
  name: '${name}-role-${installation}'
  params: {
    roleName: roleName
    subscriptions: subscriptions
  }
}

module access 'modules/access.bicep' = [for id in subscriptions: {
  scope: subscription(id)
  name: '${name}-access-${uniqueString(id, installation)}'
  params: {
    role: role.outputs.name
    principalId: identity.outputs.principalId
  }
}]

// Leaving mode enforce does not take this away again: a deployment deletes nothing. docs/deploy-azure.md has the command.
module enforce 'modules/enforce.bicep' = if (mode == 'enforce') {
  scope: subscription(subscriptions[0])
  name: '${name}-enforce-${installation}'
  params: {
    name: name
    roleName: enforceRoleName
    subscriptions: subscriptions
    principalId: identity.outputs.principalId
  }
}

// Not part of the role that acts, which holds in whole subscriptions: assigning any identity there would be far too much.
module assign 'modules/assign.bicep' = [for id in endpointIdentities: if (mode == 'enforce') {
  scope: resourceGroup(split(id, '/')[2], split(id, '/')[4])
  name: '${name}-assign-${uniqueString(id, installation)}'
  params: {
    identityName: last(split(id, '/'))
    principalId: identity.outputs.principalId
  }
}]

module app 'modules/app.bicep' = {
  scope: group
  name: 'reaper-app'
  params: {
    name: appName
    location: location
    tags: tags
    pythonVersion: pythonVersion
    identityId: identity.outputs.id
    identityClientId: identity.outputs.clientId
    blobEndpoint: host.outputs.blobEndpoint
    packageUrl: host.outputs.packageUrl
    subnetId: appSubnet
    insightsName: monitoring.outputs.insightsName
    extraSettings: further
    settings: {
      // The app's own id: what links are signed for.
      REAPER_DEPLOYMENT: '${group.id}/providers/Microsoft.Web/sites/${appName}'
      REAPER_EMAIL_ENDPOINT: mail.outputs.endpoint
      REAPER_EMAIL_SENDER: mail.outputs.sender
      REAPER_EMAIL_TO: join(admins, ',')
      REAPER_LEDGER: storage.outputs.ledgerUrl
      REAPER_MANIFESTS: storage.outputs.manifestsUrl
      REAPER_MODE: mode
      REAPER_POLICY: policy
      REAPER_QUIET: quiet ? 'true' : 'false'
      REAPER_REPORTS: storage.outputs.reportsUrl
      REAPER_SCHEDULE: schedule
      REAPER_SECRETS: join(channelSecrets, ',')
      REAPER_SNOOZE_KEYS: empty(snoozeKeys) ? '' : 'keyvault:${snoozeKeys}'
      REAPER_SNOOZE_URL: empty(snoozeKeys) ? '' : 'https://${appName}.azurewebsites.net/api'
      REAPER_SUBSCRIPTIONS: join(subscriptions, ',')
    }
  }
}

module alerts 'modules/alerts.bicep' = {
  scope: group
  name: 'reaper-alerts'
  params: {
    name: name
    location: location
    tags: tags
    workspaceId: monitoring.outputs.workspaceId
    appName: appName
    timerFunction: timerFunction
    pageFunction: empty(snoozeKeys) ? '' : 'Keep'
    recipients: admins
    silentHours: silentHours
  }
}

// After everything else, so that it is left alone when anything fails.
module kept 'modules/outputs.bicep' = {
  scope: group
  name: 'reaper-outputs'
  dependsOn: [ access, alerts, assign, enforce ]
  params: {
    values: {
      appHostName: app.outputs.hostName
      appName: app.outputs.name
      auditRole: roleName
      auditedSubscriptions: subscriptions
      enforceRole: enforceRoleName
      mailSender: mail.outputs.sender
      principalId: identity.outputs.principalId
      reportsUrl: storage.outputs.reportsUrl
      resourceGroupName: group.name
      roleGuid: role.outputs.name
      storageAccount: storage.outputs.accountName
      workspaceName: name
    }
  }
}

@description('The resource group to publish to, and to delete one day.')
output resourceGroupName string = group.name

@description('The function app to publish to.')
output appName string = app.outputs.name

@description('Where the hand-made call goes.')
output appHostName string = app.outputs.hostName

@description('Where the full reports are.')
output reportsUrl string = storage.outputs.reportsUrl

@description('Whom the summary comes from, for the allow list of your mail filter.')
output mailSender string = mail.outputs.sender

@description('Object id of the app\'s identity, for a further role.')
output principalId string = identity.outputs.principalId

@description('Guid of the custom role that reads.')
output roleGuid string = role.outputs.name

@description('Display name of the custom role that reads.')
output auditRole string = roleName

@description('Display name of the custom role that acts; there is one once mode enforce was deployed.')
output enforceRole string = enforceRoleName

@description('Ids of the audited subscriptions.')
output auditedSubscriptions array = subscriptions

@description('The storage account with reports, memory and manifests.')
output storageAccount string = storage.outputs.accountName

@description('The Log Analytics workspace, which Azure keeps for two weeks after its deletion.')
output workspaceName string = name
