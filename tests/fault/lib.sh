# What the fault scripts share: a private place that vanishes whatever happens, a store told what to
# do through faultload, and block devices whose faults can be ordered. Sourced, not run.
#
# A script runs in mount and process namespaces of its own: when it ends, however it ends, the kernel
# kills what it started, takes its mounts away and with them the loop devices.
set -uo pipefail

skip() {
    echo "SKIPPED: $*"
    exit 77
}

need() { # tools
    local tool
    PATH=$PATH:/usr/sbin:/sbin
    for tool; do
        command -v "$tool" >/dev/null || skip "there is no $tool here"
    done
}

if [ "${FAULT_INSIDE:-}" != 1 ]; then
    [ -x "${FAULTLOAD:-}" ] || { echo "FAULTLOAD must name the program" >&2; exit 1; }
    [ "$(id -u)" -eq 0 ] || skip "only root may mount"
    need unshare mount umount losetup
    unshare --mount --pid --fork true 2>/dev/null || skip "no namespaces of one's own here"
    FAULT_WORK=$(mktemp -d "${TMPDIR:-/var/tmp}/goblin-fault.XXXXXX") || exit 1
    export FAULT_WORK FAULT_INSIDE=1
    unshare --mount --propagation private --pid --fork --kill-child --mount-proc bash "$0" "$@"
    status=$?
    rm -rf --one-file-system "$FAULT_WORK"
    for group in "/sys/fs/cgroup"{,/memory}*/"${FAULT_WORK##*/}"; do
        [ ! -d "$group" ] || rmdir "$group"
    done
    exit "$status"
fi

# In RAM, so that what is tested is no slower than it must be; on disk where that is refused, and
# for scripts that set FAULT_ON_DISK.
work=$FAULT_WORK
[ -n "${FAULT_ON_DISK:-}" ] || mount -t tmpfs -o size=2G,mode=700 fault "$work" 2>/dev/null
cd "$work" || exit 1
failures=0
checks=0

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
    [ ! -e "$work/said" ] || tail -n 5 "$work/said"
}

pass() { # command...
    checks=$((checks + 1))
    "$@" || fail "$*"
}

finish() {
    echo "$checks checks, $failures failed"
    [ "$failures" -eq 0 ]
    exit
}

# ---- a store ---------------------------------------------------------------------------------

answer=
patience=120 # seconds, for one
load_pid=

# Starts faultload with a log of its own; what the store logs gathers in `said`.
load_start() { # log, prefix...
    local log=$1
    shift
    rm -f to from
    mkfifo to from
    "$@" "$FAULTLOAD" "$work/$log" <to >from 2>>said &
    load_pid=$!
    exec 7>to 8<from
}

# One command; `answer` is what came back.
tell() {
    answer=
    echo "$*" >&7
    if ! read -r -t "$patience" answer <&8; then
        fail "no answer to '$*'"
        answer="none rc=-999 failed=999 missing=999 wrong=999 stale=999"
        return 1
    fi
    echo "  $* -> $answer"
}

field() { # name: its value in the answer
    local value=${answer#* "$1"=}
    [ "$value" != "$answer" ] || value=-999
    echo "${value%% *}"
}

# The answer must hold name=value, or with another operator than = compare as a number.
holds() { # name, operator, value
    local got
    got=$(field "$1")
    checks=$((checks + 1))
    [ "$got" "$2" "$3" ] || fail "'$answer': $1 must be $2 $3"
}

ok() { # command that must succeed
    tell "$@" && holds rc -ge 0
}

# Bytes are never other bytes, nothing comes back that was not there, and nothing that was
# acknowledged has gone unless the caller looks at `missing` itself.
sound() {
    holds wrong -eq 0
    holds stale -eq 0
}

whole() {
    sound
    holds missing -eq 0
    holds failed -eq 0
}

said() { # text that the store must have logged
    checks=$((checks + 1))
    grep -qF -- "$1" said || fail "the store did not log '$1'"
}

alive() {
    checks=$((checks + 1))
    kill -0 "$load_pid" 2>/dev/null || fail "the process has died"
}

load_end() { # ends it as at the end of its input: nothing is closed
    exec 7>&- 8<&-
    wait "$load_pid"
    local status=$?
    checks=$((checks + 1))
    [ "$status" -eq 0 ] || fail "faultload ended with $status"
    load_pid=
}

load_kill() {
    kill -KILL "$load_pid" 2>/dev/null
    wait "$load_pid" 2>/dev/null
    exec 7>&- 8<&-
    load_pid=
}

# ---- block devices -----------------------------------------------------------------------------

# Binds a file to a loop device that goes when its last user goes.
loop_of() { # file, losetup options... ; prints the device
    local file=$1
    shift
    losetup --find --show "$@" "$file"
}

# A file system on a sparse file, mounted at DIR; the loop device goes with the mount.
mounted_file() { # dir, size, losetup options or '', mkfs...
    local dir=$1 size=$2 options=$3 device
    shift 3
    truncate -s "$size" "$dir.image" || return 1
    # shellcheck disable=SC2086 # options are words
    device=$(loop_of "$dir.image" $options) || return 1
    mkdir -p "$dir"
    if ! "$@" "$device" >"$dir.mkfs" 2>&1 || ! mount "$device" "$dir" 2>>"$dir.mkfs"; then
        cat "$dir.mkfs"
        losetup --detach "$device"
        return 1
    fi
    losetup --detach "$device" # once it is unmounted
}

await() { # command that will succeed soon
    local i
    for ((i = 0; i < 200; i++)); do
        ! "$@" || return 0
        sleep 0.05
    done
    fail "waited for: $*"
    return 1
}
