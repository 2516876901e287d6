#!/usr/bin/env bash
# scripts/tally cannot be talked into success: not by failures, not by silence.
# shellcheck source=tests/checks/lib.sh
. "$(dirname "$0")/lib.sh"
export GOBLIN_RESULTS=$root/results
record=$house/scripts/record
tally=$house/scripts/tally

refuses 'a run without steps' '0 passed, 0 failed' "$tally" 0
"$record" checks 0 0
refuses 'a run in which nothing ran' '0 passed, 0 failed' "$tally" 0
"$record" checks 4 0
"$record" dev 30 0
passes 'a good run' "$tally" 0
passes 'its sum' grep -qx '34 passed, 0 failed' <("$tally" 0)
refuses 'a run that broke between steps' '34 passed, 1 failed' "$tally" 2
"$record" asan 29 1
refuses 'a run with a failure' '63 passed, 1 failed' "$tally" 0
"$record" dev 31 0
refuses 'a step noted twice counts once' '64 passed, 1 failed' "$tally" 0
