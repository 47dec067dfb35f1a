// ML Idle Reaper on Azure: one resource group, one custom role that reads, and that role's assignment in every audited
// subscription. In enforce mode there is a second role, which acts.
//
//   az deployment sub create --name ml-reaper --location westeurope --template-file infra/main.bicep --parameters infra/ml-reaper.bicepparam
//
// The parameter file is your own copy of example.bicepparam. docs/deploy-azure.md explains each parameter, each permission and the cost.
targetScope = 'subscription'

@description('Short name of this installation, unique in the tenant. Names of resources, roles and deployment records start with it. Letters, digits and inner hyphens only.')
@minLength(4)
@maxLength(16)
param name string = 'ml-reaper'

@description('Region of the resource group and everything in it. It must offer Flex Consumption.')
param location string = deployment().location

@description('Resource group to create. Deleting it removes the installation.')
param resourceGroupName string = 'rg-${name}'

@description('Tags for the resource group and everything in it.')
param tags object = {}

@description('Email addresses of the admins, who get the summary of each sweep and the alerts.')
@minLength(1)
param admins array

@description('IDs of the subscriptions to audit. Default: the one you deploy to. Before you remove one, remove the roles there (docs/deploy-azure.md).')
@minLength(1)
param subscriptions array = [ subscription().subscriptionId ]

@description('ID of the management group to audit instead of subscriptions: everything below it. Its roles come from management-group.bicep.')
param managementGroup string = ''

@description('Object IDs of the Entra groups that may read the stored reports.')
param reportReaders array = []

@description('Run mode. audit only reports. notify also notifies owners. announce also gives them the date of an action, which only `reaper apply` carries out. enforce also acts. Below enforce the identity can\'t change any resource.')
@allowed([ 'audit', 'notify', 'announce', 'enforce' ])
param mode string = 'audit'

@description('Policy: a blob\'s https URL that the identity may read, or the YAML itself. Empty: the built-in defaults.')
param policy string = ''

@description('Schedule in UTC: second minute hour day month weekday. Sweep at least daily, or the alert for missing sweeps fires.')
param schedule string = '0 0 6 * * *'

@description('No summary if nothing is idle, unknown or missing.')
param quiet bool = true

@description('Keep the ledger table even in an audit, so that the audit sees snoozes. Modes above audit always keep it.')
param remember bool = false

@description('Https address of a Key Vault secret with the keys that sign snooze links. The identity must be able to read it. Empty: no links.')
param snoozeKeys string = ''

@description('Https addresses of the Key Vault secrets that the policy may name; * matches any characters. The identity must be able to read them.')
param channelSecrets array = []

@description('Days to keep the logs.')
@minValue(30)
@maxValue(730)
param logRetentionDays int = 90

@description('Gigabytes of logs a day. Above it, no logs are stored until the next day.')
@minValue(1)
param logDailyCapGb int = 1

@description('Days to keep a stored report.')
@minValue(1)
param reportRetentionDays int = 365

@description('Days after its creation in which a manifest can\'t be deleted or changed, by an unlocked policy on its container. 0: no such policy.')
@minValue(0)
@maxValue(3650)
param manifestImmutabilityDays int = 0

@description('Public IPv4 addresses or ranges that may reach reports, ledger and manifests, besides the app. With addresses or subnets, every other network is refused. With neither, the account\'s rules don\'t change.')
param allowedAddresses array = []

@description('IDs of the subnets that may reach them, with the service endpoint Microsoft.Storage.')
param allowedSubnets array = []

@description('ID of a subnet, delegated to Microsoft.App/environments, for the app\'s outgoing traffic. Required if networks are refused, because the app would be refused too.')
param appSubnet string = ''

@description('Hours without a successful sweep before the admins are alerted.')
@minValue(1)
@maxValue(48)
param silentHours int = 26

@description('Region in which Azure Communication Services stores its data, for example Europe or United States.')
param mailDataLocation string = 'Europe'

@description('Display name of the custom role that reads, unique in the tenant.')
param roleName string = name == 'ml-reaper' ? 'reaper-audit' : '${name}-audit'

@description('Display name of the custom role that acts, unique in the tenant. Created and assigned in enforce mode only.')
param enforceRoleName string = name == 'ml-reaper' ? 'reaper-enforce' : '${name}-enforce'

@description('IDs of the user-assigned identities of your online endpoints. In enforce mode the app may assign these and no other. It needs that to set the traffic of such an endpoint.')
param endpointIdentities array = []

@description('Other settings of the function app, by name, such as Key Vault references. A setting with its own parameter is refused.')
@secure()
param extraSettings object = {}

@description('Python version of the worker.')
@allowed([ '3.12', '3.13' ])
param pythonVersion string = '3.13'

@description('Name of the timer function in function_app.py, which the alert rules query in the logs.')
param timerFunction string = 'sweep_on_schedule'

@description('Name of the function in function_app.py that runs a sweep from start to end, which the alert rules query in the logs.')
param runFunction string = 'sweep_run'

var suffix = uniqueString(subscription().id, resourceGroupName)
var appName = '${name}-${suffix}'

// A deployment at a subscription keeps its first location and outlives the resource group. Its name must therefore contain
// the installation and the location, or Azure refuses a second installation, or the same one in another region.
var installation = uniqueString(suffix, deployment().location)

// Bicep has no pattern for a parameter. Reading a missing key of an object fails instead, and the error quotes the key. The
// group's name does that: names are evaluated before anything is created.
var strange = filter(range(0, length(name)), i => !contains('abcdefghijklmnopqrstuvwxyz0123456789-', toLower(substring(name, i, 1))))
var fits = empty(strange) && !startsWith(name, '-') && !endsWith(name, '-')

// The same for addresses. The example's placeholder isn't one, and every summary to it would fail.
var odd = filter(admins, address => !contains(address, '@') || contains(address, ' '))
var complaint = fits ? 'admins: write your email addresses in the parameter file, without spaces' : '${name}: letters, digits and inner hyphens only'
var groupName = { fits: resourceGroupName }[fits && empty(odd) ? 'fits' : complaint]

// The same again: without a subnet, an app that refuses every network would refuse itself, and no sweep could store anything.
var closed = !empty(allowedAddresses) || !empty(allowedSubnets)
var appGetsIn = !closed || !empty(appSubnet)
var subnets = { in: closed ? union(allowedSubnets, [ appSubnet ]) : [] }[appGetsIn ? 'in' : 'appSubnet: needed with allowedAddresses or allowedSubnets']

// And a setting that this deployment creates, in upper or lower case: with two values of one setting, it isn't clear which one applies.
var own = [
  'applicationinsights_authentication_string'
  'applicationinsights_connection_string'
  'azure_client_id'
  'azurewebjobsstorage__blobserviceuri'
  'azurewebjobsstorage__clientid'
  'azurewebjobsstorage__credential'
  'durablestorage__blobserviceuri'
  'durablestorage__clientid'
  'durablestorage__credential'
  'durablestorage__queueserviceuri'
  'durablestorage__tableserviceuri'
  'python_threadpool_thread_count'
  'reaper_deployment'
  'reaper_email_endpoint'
  'reaper_email_sender'
  'reaper_email_to'
  'reaper_ledger'
  'reaper_management_group'
  'reaper_manifests'
  'reaper_mode'
  'reaper_policy'
  'reaper_quiet'
  'reaper_reports'
  'reaper_runs'
  'reaper_schedule'
  'reaper_secrets'
  'reaper_snooze_keys'
  'reaper_snooze_url'
  'reaper_subscriptions'
]
var twice = filter(objectKeys(extraSettings), key => contains(own, toLower(key)))
var further = { free: extraSettings }[empty(twice) ? 'free' : 'extraSettings: ${join(twice, ', ')} is made by the deployment itself']

// What-if doesn't show how the app's settings change, because Azure hides their old values. It shows these tags of the group instead, so that you
// see before it happens what a deployment resets. The digest changes with any value that has no tag of its own. A tag has 256 characters at most.
var others = [
  admins
  allowedAddresses
  allowedSubnets
  appSubnet
  channelSecrets
  endpointIdentities
  enforceRoleName
  logDailyCapGb
  logRetentionDays
  mailDataLocation
  manifestImmutabilityDays
  pythonVersion
  quiet
  remember
  reportReaders
  reportRetentionDays
  roleName
  runFunction
  silentHours
  timerFunction
]
var shown = {
  'reaper-audits': take(empty(managementGroup) ? join(subscriptions, ' ') : 'management group ${managementGroup}', 256)
  'reaper-mode': mode
  'reaper-policy': empty(policy) ? 'built-in' : take(startsWith(policy, 'https://') ? policy : uniqueString(policy), 256)
  'reaper-schedule': schedule
  'reaper-settings': empty(extraSettings) ? 'none' : take(join(objectKeys(extraSettings), ' '), 256)
  'reaper-snooze-keys': empty(snoozeKeys) ? 'none' : take(snoozeKeys, 256)
  'reaper-values': uniqueString(string(others))
}

resource group 'Microsoft.Resources/resourceGroups@2024-11-01' = {
  name: groupName
  location: location
  tags: union(tags, shown)
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

module durable 'modules/durable.bicep' = {
  scope: group
  name: 'reaper-durable'
  params: {
    name: 'reaperruns${suffix}'
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

// Deployed to the first audited subscription: a role can only be created at one of the scopes it names. With a management group the roles are
// in a deployment of their own (management-group.bicep), because a deployment at a subscription can't give rights above it.
module role 'modules/role.bicep' = if (empty(managementGroup)) {
  scope: subscription(subscriptions[0])
  name: '${name}-role-${installation}'
  params: {
    roleName: roleName
    subscriptions: subscriptions
  }
}

module access 'modules/access.bicep' = [for id in subscriptions: if (empty(managementGroup)) {
  scope: subscription(id)
  name: '${name}-access-${uniqueString(id, installation)}'
  params: {
    role: role!.outputs.name
    principalId: identity.outputs.principalId
  }
}]

// Leaving enforce mode doesn't remove this: a deployment deletes nothing. docs/deploy-azure.md has the command.
module enforce 'modules/enforce.bicep' = if (mode == 'enforce' && empty(managementGroup)) {
  scope: subscription(subscriptions[0])
  name: '${name}-enforce-${installation}'
  params: {
    name: name
    roleName: enforceRoleName
    subscriptions: subscriptions
    principalId: identity.outputs.principalId
  }
}

// Not part of the role that acts, which applies to whole subscriptions: assigning any identity there would be far too much.
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
    durableEndpoints: durable.outputs.endpoints
    packageUrl: host.outputs.packageUrl
    subnetId: appSubnet
    insightsName: monitoring.outputs.insightsName
    extraSettings: further
    settings: {
      // The app's own ID, which links are signed for.
      REAPER_DEPLOYMENT: '${group.id}/providers/Microsoft.Web/sites/${appName}'
      REAPER_EMAIL_ENDPOINT: mail.outputs.endpoint
      REAPER_EMAIL_SENDER: mail.outputs.sender
      REAPER_EMAIL_TO: join(admins, ',')
      REAPER_LEDGER: storage.outputs.ledgerUrl
      REAPER_MANAGEMENT_GROUP: managementGroup
      REAPER_MANIFESTS: storage.outputs.manifestsUrl
      REAPER_MODE: mode
      REAPER_POLICY: policy
      REAPER_QUIET: quiet ? 'true' : 'false'
      REAPER_REPORTS: storage.outputs.reportsUrl
      REAPER_RUNS: storage.outputs.runsUrl
      REAPER_SCHEDULE: schedule
      REAPER_SECRETS: join(channelSecrets, ',')
      REAPER_SNOOZE_KEYS: empty(snoozeKeys) ? '' : 'keyvault:${snoozeKeys}'
      REAPER_SNOOZE_URL: empty(snoozeKeys) ? '' : 'https://${appName}.azurewebsites.net/api'
      REAPER_SUBSCRIPTIONS: empty(managementGroup) ? join(subscriptions, ',') : ''
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
    runFunction: runFunction
    pageFunction: empty(snoozeKeys) ? '' : 'Keep'
    recipients: admins
    silentHours: silentHours
  }
}

module workbook 'modules/workbook.bicep' = {
  scope: group
  name: 'reaper-workbook'
  params: {
    name: name
    location: location
    tags: tags
    workspaceId: monitoring.outputs.workspaceId
    appName: appName
  }
}

// After everything else, so that it doesn't change if anything fails.
module kept 'modules/outputs.bicep' = {
  scope: group
  name: 'reaper-outputs'
  dependsOn: [ access, alerts, assign, enforce, workbook ]
  params: {
    values: {
      appHostName: app.outputs.hostName
      appName: app.outputs.name
      auditRole: roleName
      auditedSubscriptions: empty(managementGroup) ? subscriptions : []
      enforceRole: enforceRoleName
      mailSender: mail.outputs.sender
      principalId: identity.outputs.principalId
      reportsUrl: storage.outputs.reportsUrl
      resourceGroupName: group.name
      roleGuid: empty(managementGroup) ? role!.outputs.name : ''
      storageAccount: storage.outputs.accountName
      workspaceName: name
    }
  }
}

@description('Resource group to publish to, and to delete when you uninstall.')
output resourceGroupName string = group.name

@description('Function app to publish to.')
output appName string = app.outputs.name

@description('Host for manual calls.')
output appHostName string = app.outputs.hostName

@description('Container with the full reports.')
output reportsUrl string = storage.outputs.reportsUrl

@description('Sender of the summary, for your mail filter\'s allow list.')
output mailSender string = mail.outputs.sender

@description('Object ID of the app\'s identity, if you want to assign it another role.')
output principalId string = identity.outputs.principalId

@description('GUID of the custom role that reads. Empty with a management group.')
output roleGuid string = empty(managementGroup) ? role!.outputs.name : ''

@description('Display name of the custom role that reads.')
output auditRole string = roleName

@description('Display name of the custom role that acts. The role exists once you have deployed enforce mode.')
output enforceRole string = enforceRoleName

@description('IDs of the audited subscriptions. Empty with a management group.')
output auditedSubscriptions array = empty(managementGroup) ? subscriptions : []

@description('Storage account with reports, ledger and manifests.')
output storageAccount string = storage.outputs.accountName

@description('Log Analytics workspace, which Azure keeps for two weeks after its deletion.')
output workspaceName string = name
