# shellcheck shell=bash
# Sourced by the scripts beside it: a scratch root for samples, and expectations of checkers.
set -euo pipefail
export house root
house=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# Empties the scratch root and makes the given directories in it.
fresh() {
    rm -rf "${root:?}"/*
    local dir
    for dir in "$@"; do
        mkdir -p "$root/$dir"
    done
}

passes() { # what, command...
    local what=$1 output
    shift
    if ! output=$("$@" 2>&1); then
        printf 'refused, but should not be: %s\n%s\n' "$what" "$output"
        exit 1
    fi
    echo "passes: $what"
}

refuses() { # what, text that must be in the complaint, command...
    local what=$1 text=$2 output
    shift 2
    if output=$("$@" 2>&1); then
        printf 'not refused: %s\n%s\n' "$what" "$output"
        exit 1
    fi
    case $output in
    *"$text"*) echo "refuses: $what" ;;
    *)
        printf 'refused, but not for the reason "%s": %s\n%s\n' "$text" "$what" "$output"
        exit 1
        ;;
    esac
}
