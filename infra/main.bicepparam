// Fill in and deploy; every parameter of main.bicep that is not here keeps its default. docs/deploy-azure.md lists them.
using 'main.bicep'

// Who gets the summary of each sweep and the alerts: e-mail addresses, with commas and no spaces between them. From the environment, so that
// nothing is deployed before someone has said who; or write a list of them here.
param admins = split(readEnvironmentVariable('ADMIN_EMAILS'), ',')

// Which subscriptions to audit. Left out: the one that is deployed to. Before you take one out, take back the roles there:
// "Fewer subscriptions" in docs/deploy-azure.md.
// param subscriptions = [ '00000000-0000-0000-0000-000000000000', '11111111-1111-1111-1111-111111111111' ]

// Which Entra groups may read the stored reports. Left out: nobody but the app.
// param reportReaders = [ '22222222-2222-2222-2222-222222222222' ]

// How far a run may go: 'audit', 'notify', 'announce' or 'enforce'. Left out: 'audit'. Below 'enforce' nothing is made that can act.
// param mode = 'notify'

// Your own policy. Left out: the built-in defaults.
// param policy = loadTextContent('../policies/default.yaml')

// When to sweep, in UTC: second minute hour day month weekday.
param schedule = '0 0 6 * * *'

// Where the e-mail service keeps its data at rest.
param mailDataLocation = 'Europe'

param tags = { application: 'ml-idle-reaper' }
