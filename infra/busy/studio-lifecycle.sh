#!/bin/bash
# On start of a SageMaker Studio JupyterLab app: publish Busy every five minutes. docs/busy.md says how busy.py gets in at the end.
# It never keeps the app from starting: what failed is in the LifecycleConfigOnStart log, and Busy is missing.
# A loop instead of cron: the images do not start one, and the app's credentials are in this environment only.
set_up() {
    local home=/var/tmp/ml-idle-reaper python=
    grep -q '"AppType": *"JupyterLab"' /opt/ml/metadata/resource-metadata.json || { echo "not a JupyterLab app"; return 1; }
    mkdir -p "$home" && cat >"$home/busy.py" || return
    for found in /opt/conda/bin/python /usr/bin/python3; do
        "$found" -c 'import sys, boto3; sys.exit(sys.version_info < (3, 8))' 2>/dev/null && python=$found && break
    done
    [ "$python" ] || { echo "no Python 3.8 with boto3"; return 1; }
    local run="timeout 120 $python $home/busy.py --jupyter http://localhost:8888/jupyterlab/default >$home/log 2>&1"
    setsid nohup flock -n "$home" bash -c "while sleep 300; do $run; done" >/dev/null 2>&1 </dev/null &
    echo "Busy is published from now on; the last run is in $home/log"
}
set_up <<'# end of busy.py' || echo "Busy will not be published"
