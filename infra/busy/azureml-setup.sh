#!/bin/bash
# Startup script of an Azure ML compute instance: publish Busy every five minutes. Arguments: subscription id, workspace's region.
# docs/busy.md says how busy.py gets in at the end. It never fails: what went wrong is in its log, and Busy is missing.
# https://learn.microsoft.com/azure/machine-learning/how-to-customize-compute-instance
set_up() {
    local home=/opt/ml-idle-reaper python=
    [ $# = 2 ] && [ "${CI_RESOURCE_GROUP:-}" ] && [ "${CI_WORKSPACE:-}" ] && [ "${CI_NAME:-}" ] ||
        { echo "expected a subscription id and a region, and CI_RESOURCE_GROUP, CI_WORKSPACE and CI_NAME"; return 1; }
    mkdir -p "$home" && cat >"$home/busy.py" || return
    for found in /usr/bin/python3 /anaconda/bin/python; do
        "$found" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null && python=$found && break
    done
    [ "$python" ] || { echo "no Python 3.8"; return 1; }
    local workspace="/subscriptions/$1/resourceGroups/$CI_RESOURCE_GROUP/providers/Microsoft.MachineLearningServices/workspaces/$CI_WORKSPACE"
    local run="$python $home/busy.py --jupyter http://localhost:8888 --workspace '$workspace' --region '$2' --compute '$CI_NAME'"
    echo "*/5 * * * * root flock -n $home timeout 120 $run >$home/log 2>&1" >/etc/cron.d/ml-idle-reaper &&
        echo "Busy is published from now on; the last run is in $home/log"
}
set_up "$@" <<'# end of busy.py' || echo "Busy will not be published"
