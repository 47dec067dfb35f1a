// Copy this file to NAME.bicepparam, where NAME is the installation's name (ml-reaper), and write your own values there. Git ignores the copy, so a
// pull never conflicts with it. Keep it: a deployment without one of your values sets that value back to its default.
// Every parameter of main.bicep that isn't here keeps its default. docs/deploy-azure.md lists them.
using 'main.bicep'

// Admins, who get the summary of each sweep and the alerts. Nothing is deployed before you replace this.
param admins = [ 'YOUR_ADDRESS' ]

// Run mode: 'audit', 'notify', 'announce' or 'enforce'. Below 'enforce' nothing is created that can act.
param mode = 'audit'

// Subscriptions to audit. Default: the one you deploy to. Before you remove one, remove the roles there:
// "Fewer subscriptions" in docs/deploy-azure.md.
// param subscriptions = [ '00000000-0000-0000-0000-000000000000', '11111111-1111-1111-1111-111111111111' ]

// Management group to audit instead. Its roles are a deployment of their own: "A management group" in docs/deploy-azure.md.
// param managementGroup = 'ml-platform'

// Entra groups that may read the stored reports. Default: none; only the app can read them.
// param reportReaders = [ '22222222-2222-2222-2222-222222222222' ]

// Your own policy. Default: the built-in policy.
// param policy = loadTextContent('../policies/default.yaml')

// Key Vault secret that signs snooze links. Default: notices without links.
// param snoozeKeys = 'https://VAULT.vault.azure.net/secrets/SECRET'

// Schedule in UTC: second minute hour day month weekday.
param schedule = '0 0 6 * * *'

// Region in which the email service stores its data.
param mailDataLocation = 'Europe'

param tags = { application: 'ml-idle-reaper' }
