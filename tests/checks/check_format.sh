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
