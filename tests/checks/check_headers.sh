#!/usr/bin/env bash
# scripts/check-headers refuses headers that do not stand alone, in C or in C++.
# shellcheck source=tests/checks/lib.sh
. "$(dirname "$0")/lib.sh"
check=("$house/scripts/check-headers" "$root")

public() { # body
    fresh include/goblin src/base
    printf '#ifndef F_H\n#define F_H\n%s\n#endif\n' "$1" >"$root/include/goblin/f.h"
}

public $'#include <stddef.h>\nint f(size_t n);'
passes 'a header that stands alone' "${check[@]}"
public 'int f(size_t n);'
refuses 'a header that needs another first' 'goblin/f.h: does not compile alone' "${check[@]}"
public 'int f(int class);'
refuses 'a header that is C only' '-std=c++11' "${check[@]}"
public 'int f(void); /* and */ typedef long long __attribute__((vector_size(16))) v; int g(v (*)[0]);'
refuses 'a header that needs extensions' 'does not compile alone' "${check[@]}"

fresh include/goblin src/base
printf 'struct f {\n    int a;\n};\n' >"$root/src/base/f.h"
refuses 'an internal header without a guard' 'base/f.h: does not compile alone' "${check[@]}"
