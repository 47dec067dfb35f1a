"""`reaper doctor`: what is missing for a deployment, or for this shell, to work. It only reads.

`examine` runs every check of `access`, `stores`, `channels` and `policies`. What only one cloud knows is in `aws/doctor` and `azure/doctor`.
"""
