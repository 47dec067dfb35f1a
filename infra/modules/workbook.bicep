// A workbook over the lines that the app logs: what each sweep found and did, and the state of the alert rules. docs/dashboards.md describes its
// panels. workbook.json is its text as the portal's advanced editor shows it, with four names that are replaced here.
// https://learn.microsoft.com/azure/azure-monitor/visualize/workbooks-automate

@description('Prefix of its title.')
param name string

@description('Region.')
param location string

@description('Tags.')
param tags object

@description('Resource ID of the workspace to query. The workbook is in its gallery.')
param workspaceId string

@description('Name of the function app in the logs.')
param appName string

var withWorkspace = replace(loadTextContent('workbook.json'), 'WORKSPACE_ID', workspaceId)
var withApp = replace(withWorkspace, 'APP_NAME', appName)
var withGroup = replace(withApp, 'GROUP_NAME', resourceGroup().name)

resource workbook 'Microsoft.Insights/workbooks@2023-06-01' = {
  // The name must be a GUID. The same one on every deployment, so that an update changes the workbook and adds no second one.
  name: guid(workspaceId, appName, 'workbook')
  location: location
  tags: tags
  kind: 'shared'
  properties: {
    category: 'workbook'
    displayName: '${name}: idle ML resources'
    serializedData: replace(withGroup, 'SUBSCRIPTION_ID', subscription().id)
    sourceId: workspaceId
    version: '1.0'
  }
}
