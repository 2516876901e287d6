#!/usr/bin/env bash
# goblin serve, killed under load and rolled over: restarts.py says what must hold. A few of each;
# GOBLIN_KILLS and GOBLIN_SEED ask for more, and for the same again.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ -x "${GOBLIN:-}" ] || { echo "GOBLIN must name the program" >&2; exit 1; }
[ -x /usr/bin/python3 ] || { echo "skipped: there is no /usr/bin/python3"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/var/tmp}/goblin-restarts.XXXXXX")
trap 'rm -rf "$work"' EXIT
# In a group of its own: what a failure leaves running ends with it.
setsid /usr/bin/python3 "$here/restarts.py" "$GOBLIN" "$work" --kills "${GOBLIN_KILLS:-4}" --rolls 2 \
    ${GOBLIN_SEED:+--seed "$GOBLIN_SEED"} &
group=$!
wait "$group"
status=$?
kill -KILL -- "-$group" 2>/dev/null
exit "$status"
