#!/usr/bin/env bash
# A process that may have 128 MiB, its store's budget 64 MiB, under a mixed load of 1 KiB to 8 MiB: it
# lives, every operation succeeds, and no byte is wrong. FAULT_SECONDS is how long (10; `make
# pressure` gives it ten minutes); GOBLIN_SEED replays the choices.
FAULT_ON_DISK=1 # memory that a file system in RAM takes would count
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/fault/lib.sh
. "$here/lib.sh"
seconds=${FAULT_SECONDS:-10}

# A group of version 2, or of version 1's memory controller.
name=${work##*/}
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    group=/sys/fs/cgroup/$name
    grep -qw memory /sys/fs/cgroup/cgroup.subtree_control ||
        skip "the root cgroup does not hand the memory controller down"
    limit=memory.max peak=memory.peak
else
    group=/sys/fs/cgroup/memory/$name
    limit=memory.limit_in_bytes peak=memory.max_usage_in_bytes
fi
mkdir "$group" 2>/dev/null || skip "no memory cgroup can be made here"
echo $((128 << 20)) >"$group/$limit" || skip "no memory limit can be set here"

# shellcheck disable=SC2016 # the inner shell expands it
load_start log bash -c 'echo $$ >"$0" && exec "$@"' "$group/cgroup.procs"
patience=$((seconds + 120))
tell open "$work/store" create=1 size=512M memory=64M mode=cache && holds rc -ge 0
tell put 0 100 1K 8M none && whole
for ((at = 0; at < seconds; at += 10)); do
    tell churn 10 400 1K 8M none && sound && holds failed -eq 0
done
tell read 0 400 && sound && holds failed -eq 0
tell stats memory_used_bytes memory_budget_bytes left_ram left_disk
holds memory_used_bytes -le $((64 << 20))
alive
echo "peak of the group: $(($(cat "$group/$peak" 2>/dev/null || echo 0) >> 20)) MiB," \
    "of the process: $(grep VmHWM "/proc/$load_pid/status")"
ok close
load_end
finish
