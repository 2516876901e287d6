#!/usr/bin/env bash
# scripts/check-includes lets the rooms' arrows pass and no others.
# shellcheck source=tests/checks/lib.sh
. "$(dirname "$0")/lib.sh"
check=("$house/scripts/check-includes" "$root")

says() { # room, header with its quotes
    fresh include/goblin "src/$1"
    printf '#include %s\n' "$2" >"$root/src/$1/f.c"
}
allows() {
    says "$@"
    passes "$1 includes $2" "${check[@]}"
}
forbids() {
    says "$@"
    refuses "$1 includes $2" "$1 may not include" "${check[@]}"
}

allows base '<stdio.h>'
allows base '<sys/mman.h>'
allows engine '"base/bits.h"'
allows engine '<goblin/error.h>'
allows engine '<urcu/urcu-bp.h>'
allows server '"proto/memcached.h"'
allows cluster '"server/backend.h"'
allows bench '"proto/http.h"'
allows cli '"cluster/cluster.h"'

forbids base '"engine/item.h"'
forbids base '<goblin/error.h>'
forbids base '<liburing.h>'
forbids engine '"server/backend.h"'
forbids engine '<uv.h>'
forbids engine '<raft.h>'
forbids proto '<goblin/goblin.h>'
forbids proto '<uv.h>'
forbids server '"engine/item.h"'
forbids server '"cluster/cluster.h"'
forbids server '<raft.h>'
forbids cluster '"server/loop.h"'
forbids cluster '"engine/item.h"'
forbids bench '"engine/item.h"'
forbids bench '<engine/item.h>'
forbids bench '"server/backend.h"'
forbids cli '"engine/item.h"'
forbids cli '<a-library-nobody-named.h>'

says engine '"../server/backend.h"'
refuses 'a way round the rooms' 'name the room' "${check[@]}"
says engine '"item.h"'
refuses 'a header without its room' 'may not include item.h' "${check[@]}"
says engine 'HEADER'
refuses 'an include by macro' 'cannot be read' "${check[@]}"
says attic '<stdio.h>'
refuses 'a room without a rule' 'no rule for the room attic' "${check[@]}"

fresh include/goblin
printf '#include "base/bits.h"\n' >"$root/include/goblin/f.h"
refuses 'a public header that needs an internal one' 'include may not include' "${check[@]}"
