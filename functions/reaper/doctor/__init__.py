"""`reaper doctor`: what is missing for a deployment, or for this shell, to work. It only asks: the sole thing it writes are its own markers.

`examine` runs one subject per file side by side, each for a limited time: `credentials`, `rights`, `stores`, `channels`, `links`, `clocks`,
`schedule` and `policies`. What only one cloud knows is in `aws/doctor*.py` and `azure/doctor*.py`.
"""
