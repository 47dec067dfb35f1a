// The function app, on a Flex Consumption plan: it runs only during a sweep and costs nothing in between.
// https://learn.microsoft.com/azure/azure-functions/flex-consumption-plan

@description('Name of the app, globally unique: it becomes the host name.')
param name string

@description('Region; it must offer Flex Consumption.')
param location string

@description('Tags.')
param tags object

@description('Python version of the worker.')
param pythonVersion string

@description('Resource ID of the identity the app runs as.')
param identityId string

@description('Client ID of that identity.')
param identityClientId string

@description('Address of the blob service the host uses.')
param blobEndpoint string

@description('Addresses of the blob, queue and table services that Durable Functions uses.')
param durableEndpoints object

@description('Address of the container the package is deployed to.')
param packageUrl string

@description('Name of the Application Insights component, in the same resource group.')
param insightsName string

@description('ID of the subnet for the app\'s outgoing traffic. Empty: the public network.')
param subnetId string

@description('Settings of the reaper: REAPER_... names and their values.')
param settings object

@description('Other settings. The reaper\'s own and the host\'s override them.')
@secure()
param extraSettings object

resource insights 'Microsoft.Insights/components@2020-02-02' existing = {
  name: insightsName
}

resource plan 'Microsoft.Web/serverfarms@2024-11-01' = {
  name: name
  location: location
  tags: tags
  kind: 'functionapp'
  sku: { name: 'FC1', tier: 'FlexConsumption' }
  properties: { reserved: true }
}

// No ftpsState here: Flex Consumption has no FTP and refuses the property (error 51021). The two policies below switch off
// the remaining password sign-in, for FTP and for the deployment site.
resource app 'Microsoft.Web/sites@2024-11-01' = {
  name: name
  location: location
  tags: tags
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: { '${identityId}': {} }
  }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    virtualNetworkSubnetId: empty(subnetId) ? null : subnetId
    // Identity that reads Key Vault references in settings. The default is the system-assigned identity, which this app doesn't have.
    // https://learn.microsoft.com/azure/app-service/app-service-key-vault-references
    keyVaultReferenceIdentity: identityId
    functionAppConfig: {
      deployment: {
        storage: {
          type: 'blobContainer'
          value: packageUrl
          authentication: { type: 'UserAssignedIdentity', userAssignedIdentityResourceId: identityId }
        }
      }
      runtime: { name: 'python', version: pythonVersion }
      // 40 is the lowest limit that Flex accepts in every region. The timer, the HTTP routes and the activities of a run have their own
      // instances. Strangers can start the rest through the snooze page. HTTP concurrency stays at its default.
      scaleAndConcurrency: { instanceMemoryMB: 2048, maximumInstanceCount: 40 }
    }
    siteConfig: {
      http20Enabled: true
      minTlsVersion: '1.2'
      scmMinTlsVersion: '1.2'
    }
  }
}

resource noFtpPassword 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-11-01' = {
  parent: app
  name: 'ftp'
  properties: { allow: false }
}

// After the other one: Azure may refuse two changes of one app at the same time.
resource noScmPassword 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-11-01' = {
  parent: app
  name: 'scm'
  properties: { allow: false }
  dependsOn: [ noFtpPassword ]
}

// This replaces all settings: each deployment removes any setting that isn't named here.
resource appsettings 'Microsoft.Web/sites/config@2024-11-01' = {
  parent: app
  name: 'appsettings'
  properties: union(extraSettings, settings, {
    AZURE_CLIENT_ID: identityClientId
    AzureWebJobsStorage__blobServiceUri: blobEndpoint
    AzureWebJobsStorage__clientId: identityClientId
    AzureWebJobsStorage__credential: 'managedidentity'
    // The connection of Durable Functions, under the name that host.json gives it.
    DurableStorage__blobServiceUri: durableEndpoints.blob
    DurableStorage__clientId: identityClientId
    DurableStorage__credential: 'managedidentity'
    DurableStorage__queueServiceUri: durableEndpoints.queue
    DurableStorage__tableServiceUri: durableEndpoints.table
    // More threads than the activities that host.json lets one instance run at once, or some would wait while their timers run.
    PYTHON_THREADPOOL_THREAD_COUNT: '16'
    // The host accepts the address of Application Insights in this form only. It contains no secret: the component refuses the
    // instrumentation key alone (DisableLocalAuth), and the next setting makes the host sign in with the identity.
    APPLICATIONINSIGHTS_CONNECTION_STRING: insights.properties.ConnectionString
    APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${identityClientId};Authorization=AAD'
  })
}

@description('Name of the app.')
output name string = app.name

@description('Host name of the app.')
output hostName string = app.properties.defaultHostName
