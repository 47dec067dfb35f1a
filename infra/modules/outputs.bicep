// Makes nothing: its record in the resource group keeps what the last deployment that went through put out. The record of the whole
// deployment loses its outputs as soon as one fails, and the commands of docs/deploy-azure.md, taking rights back among them, need them then, too.
// https://learn.microsoft.com/azure/azure-resource-manager/templates/deployment-history

@description('The outputs by their names.')
param values object

@description('The same.')
output values object = values
