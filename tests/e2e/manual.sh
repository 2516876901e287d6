#!/usr/bin/env bash
# The manual pages are well-formed, and manual, help and completion know the same verbs and options.
set -euo pipefail
man=$GOBLIN_SOURCE/docs/man
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

complain() {
    echo "$*"
    status=1
}

if command -v groff >/dev/null; then
    for page in "$man"/*.1; do
        said=$(groff -ww -mdoc -Tutf8 -z "$page" 2>&1)
        [ -z "$said" ] || complain "$said"
    done
    # The check can fail.
    printf '.Dd today\n.Dt X 1\n.Os\n.Sh NAME\n.Nosuch macro\n' >"$work/bad.1"
    [ -n "$(groff -ww -mdoc -Tutf8 -z "$work/bad.1" 2>&1)" ] ||
        complain 'groff sees nothing wrong with a bad page'
fi

verbs=$("$GOBLIN" help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p')
[ "$(wc -w <<<"$verbs")" -ge 13 ] || complain "goblin help lists too few verbs: $verbs"
for verb in $verbs; do
    case $verb in
    help | version) continue ;;
    esac
    section=$(sed -n "/^\.Ss $verb\$/,/^\.S[sh] /p" "$man/goblin.1" &&
        sed -n '/^\.Sh OPTIONS OF THE STORE/,/^\.Sh VERBS/p' "$man/goblin.1")
    options=$("$GOBLIN" help "$verb" | grep -oE '^  (    |-[a-z], )--[a-z-]+' | sed 's/.*--//')
    for option in $options; do
        grep -qE -- "^\.It Fl (. , )?-?$option( |\$)|^\.It Fl . , -$option( |\$)" <<<"$section" ||
            complain "goblin.1 does not explain --$option under $verb"
    done
done
# The other way round: nothing in the manual that the program does not have.
sed -n 's/^\.It Fl \(. , \)\{0,1\}-\([a-z-]*\).*/\2/p' "$man/goblin.1" | sort -u >"$work/explained"
while read -r option; do
    found=no
    for verb in $verbs; do
        case $verb in
        help | version) continue ;;
        esac
        if "$GOBLIN" help "$verb" | grep -q -- "--$option\\b"; then
            found=yes
            break
        fi
    done
    [ "$found" = yes ] || complain "goblin.1 explains --$option, which no verb has"
done <"$work/explained"

# Completion, as bash would call it.
# shellcheck source=/dev/null
. "$GOBLIN_SOURCE/completions/bash/goblin"
completes() { # what must be offered, words...
    local wanted=$1
    shift
    COMP_WORDS=("$GOBLIN" "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _goblin || true # its status is nobody's business
    grep -qxF -- "$wanted" <<<"$(printf '%s\n' "${COMPREPLY[@]}")" ||
        complain "completion of '$*' offers '${COMPREPLY[*]}', not '$wanted'"
}
completes init in
completes stats --memory 64M st
completes --memory get store key --m
completes --if-absent put store key file --if
completes uring put --io ''
completes synced put --durability = s
completes "$GOBLIN_SOURCE/docs" get "$GOBLIN_SOURCE/do"
completes "$GOBLIN_SOURCE/LICENSE" put store key "$GOBLIN_SOURCE/LIC"
completes "$GOBLIN_SOURCE/LICENSE" get store key -o "$GOBLIN_SOURCE/LIC"
completes clear help cl
exit "$status"
