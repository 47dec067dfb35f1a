// Creates nothing: its record in the resource group keeps the outputs of the last successful deployment. The record of the whole
// deployment loses its outputs as soon as one fails, but the commands of docs/deploy-azure.md still need them, for example to remove rights.
// https://learn.microsoft.com/azure/azure-resource-manager/templates/deployment-history

@description('Outputs by name.')
param values object

@description('The same outputs.')
output values object = values
