#!/bin/bash
# On start of a SageMaker notebook instance: publish Busy every five minutes. docs/busy.md says how busy.py gets in at the end.
# It never keeps the notebook from starting: what failed is in the LifecycleConfigOnStart log, and Busy is missing.
set_up() {
    local home=/opt/ml-idle-reaper conda=/home/ec2-user/anaconda3 python=
    mkdir -p "$home" && cat >"$home/busy.py" || return
    for found in /usr/bin/python3 "$conda/envs/JupyterSystemEnv/bin/python" "$conda/bin/python" "$conda/envs/python3/bin/python"; do
        "$found" -c 'import sys, boto3; sys.exit(sys.version_info < (3, 8))' 2>/dev/null && python=$found && break
    done
    [ "$python" ] || { echo "no Python 3.8 with boto3"; return 1; }
    echo "*/5 * * * * root flock -n $home timeout 120 $python $home/busy.py --jupyter https://localhost:8443 >$home/log 2>&1" \
        >/etc/cron.d/ml-idle-reaper && echo "Busy is published from now on; the last run is in $home/log"
}
set_up <<'# end of busy.py' || echo "Busy will not be published"
