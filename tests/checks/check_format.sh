#!/usr/bin/env bash
# scripts/check-format refuses what clang-format would change, and --fix changes it.
# shellcheck source=tests/checks/lib.sh
. "$(dirname "$0")/lib.sh"

fresh src/base
printf 'int f(void)\n{\n    return 1;\n}\n' >"$root/src/base/f.c"
passes 'a formatted file' "$house/scripts/check-format" "$root"

printf 'int f(void) {\n  return 1;\n}\n' >"$root/src/base/f.c"
refuses 'a brace on the wrong line' 'clang-format' "$house/scripts/check-format" "$root"

passes 'repairing it' "$house/scripts/check-format" --fix "$root"
passes 'the repaired file' "$house/scripts/check-format" "$root"

printf '/* ---- heading %s */\n' "$(printf -- '-%.0s' {1..100})" >"$root/src/base/f.c"
refuses 'a ruler that is too long' '100' "$house/scripts/check-sizes" "$root"
passes 'cutting it' "$house/scripts/check-format" --fix "$root"
passes 'the cut ruler' "$house/scripts/check-sizes" "$root"
passes 'which has 100 columns' grep -qE '^.{100}$' "$root/src/base/f.c"
