// Fill in and deploy. Every parameter of main.bicep that isn't here keeps its default. docs/deploy-azure.md lists them.
using 'main.bicep'

// Recipients of the summary of each sweep and of the alerts: email addresses, with commas and no spaces between them. They come from the
// environment, so that nothing is deployed before you set them. Or write a list of them here.
param admins = split(readEnvironmentVariable('ADMIN_EMAILS'), ',')

// Subscriptions to audit. Default: the one you deploy to. Before you remove one, remove the roles there:
// "Fewer subscriptions" in docs/deploy-azure.md.
// param subscriptions = [ '00000000-0000-0000-0000-000000000000', '11111111-1111-1111-1111-111111111111' ]

// Management group to audit instead. Its roles are a deployment of their own: "A management group" in docs/deploy-azure.md.
// param managementGroup = 'ml-platform'

// Entra groups that may read the stored reports. Default: none; only the app can read them.
// param reportReaders = [ '22222222-2222-2222-2222-222222222222' ]

// Run mode: 'audit', 'notify', 'announce' or 'enforce'. Default: 'audit'. Below 'enforce' nothing is created that can act.
// param mode = 'notify'

// Your own policy. Default: the built-in policy.
// param policy = loadTextContent('../policies/default.yaml')

// Schedule in UTC: second minute hour day month weekday.
param schedule = '0 0 6 * * *'

// Region in which the email service stores its data.
param mailDataLocation = 'Europe'

param tags = { application: 'ml-idle-reaper' }
