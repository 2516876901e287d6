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
    case $verb in
    memcached) row='^-., --[a-z-]+' ;; # as memcached's own help looks
    *) row='^  (    |-[a-z], )--[a-z-]+' ;;
    esac
    options=$("$GOBLIN" help "$verb" | grep -oE -- "$row" | sed 's/.*--//')
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

# goblin-bench: every flag of every command stands in its section, and the other way round.
if [ -n "${GOBLIN_BENCH:-}" ]; then
    for command in $("$GOBLIN_BENCH" --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p'); do
        "$GOBLIN_BENCH" "$command" --help | grep -oE '^  --[a-z-]+' | sed 's/.*--//' |
            grep -vx help | sort -u >"$work/shown"
        sed -n "/^\.Ss $command\$/,/^\.S[sh] /p" "$man/goblin-bench.1" |
            sed -n 's/^\.It Fl -\([a-z-]*\).*/\1/p' | sort -u >"$work/explained"
        diff "$work/shown" "$work/explained" ||
            complain "goblin-bench.1 (>) and goblin-bench $command --help (<) differ"
    done
fi

# Completion, as bash would call it.
# shellcheck source=/dev/null
. "$GOBLIN_SOURCE/completions/bash/goblin"
# shellcheck source=/dev/null
. "$GOBLIN_SOURCE/completions/bash/goblin-bench"
completes() { # what must be offered, words...
    local wanted=$1
    shift
    COMP_WORDS=("$program" "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    $function || true # its status is nobody's business
    grep -qxF -- "$wanted" <<<"$(printf '%s\n' "${COMPREPLY[@]}")" ||
        complain "completion of '$*' offers '${COMPREPLY[*]}', not '$wanted'"
}
program=$GOBLIN function=_goblin
completes init in
completes stats --memory 64M st
completes --memory get store key --m
completes --if-absent put store key file --if
completes uring put --io ''
completes buffered serve --caching bu
completes synced put --durability = s
completes "$GOBLIN_SOURCE/docs" get "$GOBLIN_SOURCE/do"
completes "$GOBLIN_SOURCE/LICENSE" put store key "$GOBLIN_SOURCE/LIC"
completes "$GOBLIN_SOURCE/LICENSE" get store key -o "$GOBLIN_SOURCE/LIC"
completes clear help cl
completes --once top 127.0.0.1:8080 --on
completes --server get --ser
if [ -n "${GOBLIN_BENCH:-}" ]; then
    program=$GOBLIN_BENCH function=_goblin_bench
    completes study st
    completes --engines study --en
    completes debian study --corpus de
    completes iodir kv --workload iod
    completes "$GOBLIN_SOURCE/docs" study --out "$GOBLIN_SOURCE/do"
fi
exit "$status"
