// The function app, on a Flex Consumption plan: it runs for the length of a sweep and costs nothing in between.
// https://learn.microsoft.com/azure/azure-functions/flex-consumption-plan

@description('Name of the app, unique in the world: it becomes the host name.')
param name string

@description('Region; it must offer Flex Consumption.')
param location string

@description('Tags.')
param tags object

@description('Python version of the worker.')
param pythonVersion string

@description('Resource id of the identity the app runs as.')
param identityId string

@description('Client id of that identity.')
param identityClientId string

@description('Address of the blob service the host uses.')
param blobEndpoint string

@description('Address of the container the package is deployed to.')
param packageUrl string

@description('Name of the Application Insights component, in the same resource group.')
param insightsName string

@description('Id of the subnet the app goes out through; empty for the public network.')
param subnetId string

@description('The settings the product reads: REAPER_... names and their values.')
param settings object

@description('Further settings. The product\'s own and the host\'s win over them.')
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

// No ftpsState here: Flex Consumption has no FTP and refuses the property (error 51021). The two policies below close
// what is left of password sign-in, for FTP and for the deployment site.
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
    // Whom a setting that is a Key Vault reference is read as; without it, as the system-assigned identity, which this app has not.
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
      // 40 is the smallest limit that Flex takes in every region. A timer runs on one instance, a hand-made call starts a second one; the
      // rest is what strangers can make of the snooze page. HTTP concurrency stays at its default.
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

// After the other one: two changes of one app at the same time may be refused.
resource noScmPassword 'Microsoft.Web/sites/basicPublishingCredentialsPolicies@2024-11-01' = {
  parent: app
  name: 'scm'
  properties: { allow: false }
  dependsOn: [ noFtpPassword ]
}

// This replaces the whole set: a setting that is not named here is gone after each deployment, whoever made it.
resource appsettings 'Microsoft.Web/sites/config@2024-11-01' = {
  parent: app
  name: 'appsettings'
  properties: union(extraSettings, settings, {
    AZURE_CLIENT_ID: identityClientId
    AzureWebJobsStorage__blobServiceUri: blobEndpoint
    AzureWebJobsStorage__clientId: identityClientId
    AzureWebJobsStorage__credential: 'managedidentity'
    // The host takes the address of Application Insights in this form only. It carries no secret: the component refuses the
    // instrumentation key on its own (DisableLocalAuth), and the next setting makes the host sign in with the identity.
    APPLICATIONINSIGHTS_CONNECTION_STRING: insights.properties.ConnectionString
    APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${identityClientId};Authorization=AAD'
  })
}

@description('Name of the app.')
output name string = app.name

@description('Host name of the app.')
output hostName string = app.properties.defaultHostName
