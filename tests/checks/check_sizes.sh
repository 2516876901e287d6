#!/usr/bin/env bash
# scripts/check-sizes holds files, headers, lines, functions and parameter lists to their limits, each of
# which is tried at the limit and one beyond.
# shellcheck source=tests/checks/lib.sh
. "$(dirname "$0")/lib.sh"
check=("$house/scripts/check-sizes" "$root")

lines() { # count
    seq -f '/* %.0f */' "$1"
}
function_of() { # lines in all
    printf 'int f(void)\n{\n'
    seq -f '    g(%.0f);' $(($1 - 3))
    printf '}\n'
}

fresh src/base include/goblin tests/unit
lines 800 >"$root/src/base/f.c"
lines 300 >"$root/include/goblin/f.h"
passes 'files at their limits' "${check[@]}"
lines 801 >"$root/src/base/f.c"
refuses 'a file of 801 lines' 'f.c:801: the file has 801 lines' "${check[@]}"
lines 1 >"$root/src/base/f.c"
lines 301 >"$root/include/goblin/f.h"
refuses 'a header of 301 lines' 'f.h:301: the file has 301 lines' "${check[@]}"

fresh src/base
printf '/* %s%s */\n' "$(printf 'x%.0s' {1..84})" '……………' >"$root/src/base/f.c"
passes 'a line of 95 columns in 105 bytes' "${check[@]}"
printf '/* %s */\n' "$(printf 'x%.0s' {1..94})" >"$root/src/base/f.c"
passes 'a line of 100 columns' "${check[@]}"
printf '/* %s */\n' "$(printf 'x%.0s' {1..95})" >"$root/src/base/f.c"
refuses 'a line of 101 columns' 'f.c:1: the line has 101 columns' "${check[@]}"

fresh src/base tests/unit
function_of 60 >"$root/src/base/f.c"
passes 'a function of 60 lines' "${check[@]}"
passes 'and it was seen' grep -q '^1 functions' <("${check[@]}")
function_of 61 >"$root/src/base/f.c"
refuses 'a function of 61 lines' 'f.c:1: the function has 61 lines' "${check[@]}"
mv "$root/src/base/f.c" "$root/tests/unit/test_f.c"
refuses 'a test of 61 lines' 'test_f.c:1: the function has 61 lines' "${check[@]}"

fresh src/base
six='int a, int (*b)(int, int), int c, int d, int e, int f'
printf 'struct s {\n    int a;\n};\n\nstatic int f(%s)\n{\n}\n' "$six" >"$root/src/base/f.c"
passes 'six parameters, one a function' "${check[@]}"
printf 'struct s {\n    int a;\n};\n\nstatic int f(%s,\n             int g)\n{\n}\n' "$six" \
    >"$root/src/base/f.c"
refuses 'seven parameters' 'f.c:5: the function has 7 parameters' "${check[@]}"
printf 'extern "C" {\n\nstatic inline int f(%s, int g)\n{\n}\n\n}\n' "$six" >"$root/src/base/f.h"
refuses 'seven parameters inside extern "C"' 'f.h:3: the function has 7' "${check[@]}"
rm "$root/src/base/f.c"
excuse='/* NOLINTNEXTLINE(readability-function-size): the signature is a library'"'"'s */'
printf '%s\nstatic int f(%s, int g)\n{\n}\n' "$excuse" "$six" >"$root/src/base/f.h"
passes 'seven parameters that a library dictates' "${check[@]}"
printf '%s\nint i;\nstatic int f(%s, int g)\n{\n}\n' "$excuse" "$six" >"$root/src/base/f.h"
refuses 'an excuse that stands elsewhere' 'f.h:3: the function has 7' "${check[@]}"
