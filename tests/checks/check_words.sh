#!/usr/bin/env bash
# scripts/check-words refuses marks of unfinished work and paths of one machine. The bad words are
# put together here, so that this file holds none itself.
# shellcheck source=tests/checks/lib.sh
. "$(dirname "$0")/lib.sh"
check=("$house/scripts/check-words" "$root")

says() { # file, text in pieces
    fresh src/base docs
    local file=$1
    shift
    printf '%s' "$@" >"$root/$file"
}

# shellcheck disable=SC2016 # meant literally
says src/base/f.c '/* Copies to "$HOME", to /tmp and to mkstemp("aXXXXXX"). */' $'\n#if 01\n'
passes 'innocent text' "${check[@]}"
says src/base/f.c '/* TO' 'DO: the rest */'
refuses 'a to-do' 'unfinished work' "${check[@]}"
says src/base/f.c '/* FIX' 'ME */'
refuses 'a fix-me' 'unfinished work' "${check[@]}"
says src/base/f.c '#if ' $'0\nint f;\n#endif\n'
refuses 'code that is switched off' 'switched off' "${check[@]}"
says docs/f.md 'Look into /ho' 'me/someone/notes.'
refuses 'a home directory' 'one machine' "${check[@]}"

# A checkout in a place of its own: the place's name may not be in it.
inner=$root/somewhere/checkout
fresh somewhere/checkout/docs
printf 'See %s/elsewhere.\n' "$(dirname "$(cd "$inner" && pwd -P)")" >"$inner/docs/f.md"
refuses 'a path beside the checkout' 'this machine' "$house/scripts/check-words" "$inner"
printf 'See docs/somewhere/elsewhere.\n' >"$inner/docs/f.md"
passes 'a relative path' "$house/scripts/check-words" "$inner"
