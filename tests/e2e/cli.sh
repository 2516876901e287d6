#!/usr/bin/env bash
# Every verb of goblin on real stores, and what it says and answers when something is wrong.
# GOBLIN_E2E_IO=uring|sync chooses the I/O path (auto).
set -uo pipefail
work=$(mktemp -d "${TMPDIR:-/var/tmp}/goblin-cli.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
[ -x "${GOBLIN:-}" ] || { echo "GOBLIN must name the program" >&2; exit 1; }
failures=0
checks=0

goblin() {
    "$GOBLIN" --io "${GOBLIN_E2E_IO:-auto}" --log error "$@"
}

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
}

# Runs a command; out and err hold what it printed.
expect() { # exit code, text that standard error must hold ('' for silence), command...
    local code=$1 text=$2 got
    shift 2
    checks=$((checks + 1))
    "$@" >out 2>err </dev/null
    got=$?
    [ "$got" -eq "$code" ] || fail "'$*' ended with $got, not $code: $(cat err)"
    if [ -z "$text" ]; then
        [ ! -s err ] || fail "'$*' complained: $(cat err)"
    else
        grep -qF -- "$text" err || fail "'$*' said '$(cat err)', not '$text'"
        grep -qvE '^(goblin: |usage: )|^  |^$|^DIR|^Exit' err && fail "'$*' said '$(cat err)'"
    fi
    return 0
}

prints() { # line that standard output must hold
    checks=$((checks + 1))
    grep -qxF -- "$1" out || fail "printed '$(head -c 1000 out)', not '$1'"
}

same() { # file, file
    checks=$((checks + 1))
    cmp -- "$1" "$2" || fail "$1 and $2 differ"
}

make_file() { # name, bytes
    head -c "$2" /dev/urandom >"$1"
}

# ---- usage ---------------------------------------------------------------------------------------
expect 2 'usage: goblin VERB' goblin
expect 2 'gte: no such verb; goblin help lists them' goblin gte
expect 2 '--nonsense: no such option' goblin --nonsense
expect 2 'put: too few operands; usage: goblin put DIR KEY FILE|-' goblin put store key
expect 2 'get: too many operands' goblin get store key more
expect 2 '--memory 1M: at least 8M' goblin get store key --memory 1M
expect 2 '--io fast: give one of auto|uring|sync' goblin get store key --io fast
expect 2 '--caching none: give one of direct|buffered' goblin get store key --caching none
expect 2 '--admit never: give one of all|second' goblin get store key --admit never
expect 2 '--write-budget 10K: at least 1M' goblin get store key --write-budget 10K
expect 2 "'store,': a directory's name is empty" goblin get store, key
expect 0 '' goblin help
expect 0 '' goblin help put
expect 0 '' goblin put --help
expect 2 'nothing: no such verb' goblin help nothing
expect 0 '' goblin version
[[ $(cat out) =~ ^goblin\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "version prints '$(cat out)'"

# ---- init: a typing error must never erase anything ---------------------------------------------
expect 2 'say how much disk the store may use' goblin init store
expect 2 '--size huge: give a size such as 64M or 1.5G' goblin init store --size huge
expect 2 '--segment 1K: at least 1M' goblin init store --size 64M --segment 1K
expect 2 '--lanes 17: at most 16' goblin init store --size 64M --lanes 17
expect 2 '--mode both: give one of cache|store' goblin init store --size 64M --mode both
expect 2 'segment' goblin init store --size 64M --segment 3M
[ ! -e store ] || fail 'a refused init left something'
mkdir mine && echo precious >mine/file
expect 3 'neither empty nor a Goblin store; nothing was touched: check' goblin init mine --size 64M
expect 3 'neither empty nor a Goblin store' goblin put mine key mine/file
expect 3 'neither empty nor a Goblin store' goblin clear mine --yes
[ "$(ls mine) $(cat mine/file)" = 'file precious' ] || fail 'a directory was touched'
expect 3 'no store here; make one first: goblin init' goblin put absent key mine/file
expect 3 'no store here; make one first: goblin init' goblin ls absent
[ ! -e absent ] || fail 'put made a directory'
expect 0 '' goblin init store --size 1G --segment 4M --lanes 2 --memory 32M
expect 3 'there is a store already' goblin init store --size 1G
mkdir empty
expect 0 '' goblin init empty --size 64M
expect 0 '' goblin ls empty
[ ! -s out ] || fail 'an empty store lists something'

# ---- put and get ---------------------------------------------------------------------------------
for bytes in 0 1 511 4095 4096 4097 8191 8192 16384 16385 65537 1048575 1048576 1048577 5000000; do
    make_file value $bytes
    expect 0 '' goblin put store "size/$bytes" value
    expect 0 '' goblin get store "size/$bytes"
    same out value
    goblin put store "pipe/$bytes" - < <(cat value) || fail "put of $bytes bytes from a pipe"
    goblin get store "pipe/$bytes" | cmp - value || fail "get of $bytes bytes into a pipe"
done
make_file value 3000000
expect 0 '' goblin put store file value --durability synced
expect 0 '' goblin get store file -o copy
same copy value
expect 0 '' goblin put store file value --caching buffered
expect 0 '' goblin get store file -o copy --caching direct
same copy value
expect 0 '' goblin get store file -o copy --caching buffered
same copy value
expect 1 "'nothing': no such object" goblin get store nothing -o copy
same copy value
expect 3 'absent/copy: No such file or directory' goblin get store file -o absent/copy
expect 3 'standard output: No space left on device' bash -c "'$GOBLIN' get store file >/dev/full"
expect 0 '' bash -c "set -o pipefail; '$GOBLIN' get store file | head -c 10"
[ "$(wc -c <out)" -eq 10 ] || fail 'a partial pipe is cut short'
expect 1 "'nothing': no such object" goblin get store nothing
expect 3 'lost: No such file or directory' goblin put store key lost
expect 3 'mine: Is a directory' goblin put store key mine
expect 2 'a key is 1 to 4096 bytes' goblin put store '' value
expect 2 'this one has 4097' goblin get store "$(printf '%04097d' 0)"
expect 0 '' goblin put store -- -dash value
expect 0 '' goblin get store -- -dash
same out value

# ---- ranges --------------------------------------------------------------------------------------
range() { # range, skip, count
    expect 0 '' goblin get store file --range "$1"
    tail -c +$(($2 + 1)) value | head -c "$3" >wanted
    same out wanted
}
range 0-0 0 1
range 10-19 10 10
range 8191-8192 8191 2
range 100000-299999 100000 200000
range 1M- 1048576 3000000
range -100 2999900 100
range 2999999- 2999999 1
range 2999990-9999999999 2999990 10
range -1G 0 3000000
expect 1 'has 3000000 bytes, the range starts at 3000000' goblin get store file --range 3000000-
expect 2 'ends before it starts' goblin get store file --range 9-5
expect 2 'give A-B, A- or -N' goblin get store file --range 9
expect 1 'no such object' goblin get store nothing --range -5

# ---- keys of any bytes ---------------------------------------------------------------------------
expect 0 '' goblin put store 000aff5c value --hex
expect 0 '' goblin get store 000AFF5C --hex
same out value
expect 0 '' goblin ls store
prints '\x00\x0a\xff\x5c'
prints 'size/4097'
expect 0 '' goblin ls store --hex
prints 000aff5c
expect 0 '' goblin ls store --json
grep -qF '"key_hex":"000aff5c"' out || fail "ls --json printed '$(head -c 500 out)'"
expect 0 '' goblin stat store 000aff5c --hex
prints 'key       \x00\x0a\xff\x5c'
expect 2 'hex needs two digits per byte' goblin get store abc --hex
expect 2 'not hex' goblin rm store 00 xy --hex
expect 0 '' goblin rm store 000aff5c --hex
expect 1 'no such object' goblin get store 000aff5c --hex

# ---- stat, flags, metadata -----------------------------------------------------------------------
expect 0 '' goblin put store meta value --flags 7 --meta 'text/plain; q=1' --json
grep -qF '"answer": "stored"' out || fail "put --json printed '$(cat out)'"
expect 0 '' goblin stat store meta
prints 'size      3000000'
prints 'flags     7'
prints 'metadata  15'
prints 'marks     0'
prints 'expires   never'
expect 0 '' goblin stat store meta file --json
[ "$(grep -c '"size": 3000000' out)" -eq 2 ] || fail "stat --json printed '$(cat out)'"
expect 1 "'nothing': no such object" goblin stat store nothing meta
prints 'flags     7'
expect 0 '' goblin get store meta --meta
[ "$(cat out)" = 'text/plain; q=1' ] || fail "get --meta printed '$(cat out)'"
expect 0 '' goblin get store meta
same out value
expect 0 '' goblin get store file --meta
[ ! -s out ] || fail 'an object without metadata has some'
expect 2 '--flags 4294967296: at most 4294967295' goblin put store meta value --flags 4294967296
expect 2 '--meta has 4097 bytes, at most 4096' \
    goblin put store meta value --meta "$(printf '%04097d' 0)"
expect 2 'give it without --meta' goblin get store meta --meta --range 0-1

# ---- conditions ----------------------------------------------------------------------------------
version_of() {
    goblin stat store "$1" --json | sed -n 's/.*"version": \([0-9]*\).*/\1/p'
}
expect 1 'there is one already' goblin put store meta mine/file --if-absent
expect 1 'there is no such object' goblin put store nothing mine/file --if-present
expect 1 'there is no such object' goblin put store nothing mine/file --if-version 1
expect 0 '' goblin put store fresh mine/file --if-absent
expect 0 '' goblin put store fresh mine/file --if-present
version=$(version_of fresh)
expect 1 "its version is $version, not $((version + 1000))" \
    goblin put store fresh value --if-version $((version + 1000))
expect 0 '' goblin put store fresh value --if-version "$version"
expect 1 "not $version" goblin put store fresh value --if-version "$version"
expect 2 'give one of --if-absent' goblin put store fresh value --if-absent --if-present
expect 0 '' goblin get store fresh
same out value

# ---- rm, touch, expiry ---------------------------------------------------------------------------
expect 0 '' goblin put store brief mine/file --ttl 1ms
expect 1 'no such object' goblin get store brief
expect 0 '' goblin put store brief mine/file --ttl 1h
expect 0 '' goblin stat store brief
grep -qE '^expires   20[0-9]{2}-' out || fail "no expiry: $(cat out)"
expect 0 '' goblin touch store brief --forever
expect 0 '' goblin stat store brief
prints 'expires   never'
expect 0 '' goblin touch store brief fresh --ttl 1ms --durability written
expect 1 'no such object' goblin stat store brief
expect 1 "'fresh': no such object" goblin get store fresh
expect 1 "'fresh': no such object" goblin touch store fresh --ttl 1h
expect 2 'give one of --ttl TIME and --forever' goblin touch store meta
expect 2 'give one of --ttl TIME and --forever' goblin touch store meta --ttl 1h --forever
expect 1 "'nothing': no such object" goblin rm store nothing meta
expect 1 "'meta': no such object" goblin get store meta
expect 0 '' goblin rm store pipe/0 pipe/1 --durability synced
expect 1 'no such object' goblin stat store pipe/0

# ---- ls and stats --------------------------------------------------------------------------------
expect 0 '' goblin ls store
objects=$(wc -l <out)
[ "$objects" -eq 30 ] || fail "ls lists $objects objects: $(cat out)"
LC_ALL=C sort -c out || fail 'ls does not list in order'
cp out all
listed() { # lines of standard output, which the options of ls must give
    goblin ls store "$@" >out || fail "ls $*"
    same out wanted
}
tac all >wanted && listed --reverse
grep '^size/' all >wanted && listed --prefix size/
tac wanted >wanted.r && mv wanted.r wanted && listed --prefix size/ -r
LC_ALL=C awk '$0 >= "pipe/5" && $0 < "size/2"' all >wanted && listed --from pipe/5 --to size/2
[ -s wanted ] || fail 'the range holds nothing'
tail -n 2 wanted | tac >wanted.r && mv wanted.r wanted && listed --from pipe/5 --to size/2 -r --limit 2
expect 0 '' goblin ls store --prefix 73697a652f --to 73697a6530 --hex
prints 73697a652f30
[ "$(wc -l <out)" -eq "$(grep -c '^size/' all)" ] || fail 'ls --prefix --hex lists another number'
goblin ls store -U | LC_ALL=C sort | cmp - all || fail 'ls --unsorted lists others'
goblin ls store -U --prefix size/ --from size/4 --to size/5 | LC_ALL=C sort >out
grep '^size/4' all >wanted && same out wanted
expect 2 '--reverse and --unsorted exclude each other' goblin ls store -U -r
expect 2 'ls: ' goblin ls store --from 0g --hex
expect 2 'ls: ' goblin ls store --prefix ''
expect 0 '' goblin ls store --from zzz
[ ! -s out ] || fail 'an empty range lists something'
expect 0 '' goblin ls store --limit 3
[ "$(wc -l <out)" -eq 3 ] || fail 'ls --limit 3 lists another number'
expect 0 '' goblin ls store -l
grep -qE '^ +5000000 .* size/5000000$' out || fail "ls -l printed '$(cat out)'"
expect 0 '' bash -c "set -o pipefail; '$GOBLIN' ls store | head -n 1"
expect 3 'standard output: No space left on device' bash -c "'$GOBLIN' ls store >/dev/full"
expect 0 '' goblin stats store
all="($objects|$((objects + 1)))" # one has expired and may still wait to be swept
grep -qE "^objects +$all  objects in the index" out || fail "stats printed '$(cat out)'"
expect 0 '' goblin stats store --json
grep -qE "\"objects\": $all," out || fail "stats --json printed '$(cat out)'"

# ---- a value that is larger than the memory ------------------------------------------------------
make_file big 120000000
expect 0 '' goblin put store big big --memory 32M
expect 0 '' goblin get store big --memory 32M -o copy
same copy big
goblin put store big - --memory 32M < <(cat big) || fail 'put of a large pipe'
goblin get store big --memory 32M | cmp - big || fail 'get of a large value into a pipe'
expect 0 '' goblin rm store big
rm big

# ---- one process at a time -----------------------------------------------------------------------
mkfifo hold
goblin put store held - <hold &
holder=$!
exec 9>hold
# More than a pipe holds: when it is written, put has begun to read, so it has the store open.
head -c 300000 value >&9
for verb in 'put store other value' 'get store file' 'ls store' 'rm store file' 'stats store'; do
    read -ra words <<<"$verb"
    expect 3 'the store is open in another process; stop that one' goblin "${words[@]}"
done
exec 9>&-
wait $holder || fail 'the holder failed'
expect 0 '' goblin get store held
head -c 300000 value >wanted
same out wanted
expect 0 '' goblin get store file

# ---- load ----------------------------------------------------------------------------------------
mkdir -p tree/a/b 'tree/with space'
for i in $(seq 200); do echo "file $i" >"tree/a/$i"; done
: >tree/empty
make_file tree/a/b/large 7000000
make_file tree/a/b/one 1048576
echo spaced >'tree/with space/x y'
ln -s empty tree/link
expect 0 '' goblin load store tree --workers 3 --prefix t/ --memory 32M
grep -qE '^loaded 204 objects, 7.68 MiB .*; 0 were there, 1 are no regular files, 0 failed$' out ||
    fail "load printed '$(cat out)'"
(cd tree && find . -type f -printf '%P\n') >names
while read -r name; do
    expect 0 '' goblin get store "t/$name"
    same out "tree/$name"
done < <(grep -v '^a/[0-9]' names && echo a/1 && echo a/200)
expect 0 '' goblin load store tree --prefix t/ --if-absent --json
grep -qF '"present": 204' out || fail "load --if-absent printed '$(cat out)'"
expect 3 'a key is 1 to 4096 bytes' goblin load store tree --prefix "$(printf '%04090d' 0)"
grep -qF ' failed' out || fail 'load prints no summary after failures'
expect 3 'absent: No such file or directory' goblin load store absent
expect 3 'value: Not a directory' goblin load store value
mkdir outer && cp value outer/value && expect 0 '' goblin init outer/store --size 64M
expect 0 '' goblin load outer/store outer
grep -qF 'loaded 1 objects' out || fail "a store was loaded into itself: $(cat out)"

# ---- check ---------------------------------------------------------------------------------------
expect 0 '' goblin check store --memory 32M
grep -qE '^0 bad, 0 of them removed; .* 0 checksum errors, 0 read errors$' out ||
    fail "check printed '$(cat out)'"
expect 0 '' goblin check store --json --workers 1
grep -qF '"bad_objects": 0' out || fail "check --json printed '$(cat out)'"
seq -f '%012.0f victim' 30000 >pattern
expect 0 '' goblin init damaged --size 64M --segment 4M --memory 16M
expect 0 '' goblin put damaged good mine/file
expect 0 '' goblin put damaged victim pattern
echo 'a small victim' >small
expect 0 '' goblin put damaged small small
hit=0
while IFS=: read -r file at _; do
    printf 'XXXXXXXX' | dd of="$file" bs=1 seek="$at" conv=notrunc status=none
    hit=$((hit + 1))
done < <(grep -robUa --include='*.seg' '000000015000 victim\|a small victim' damaged)
[ "$hit" -eq 2 ] || fail "$hit of the places to damage were found"
expect 1 'stored bytes do not match' goblin check damaged --memory 16M
prints 'bad: victim: stored bytes do not match their checksum'
grep -qE '^bad: small: ' out || fail "check found '$(cat out)'"
expect 1 'stored bytes do not match' goblin check damaged --json
grep -qF '"bad_objects": 2' out || fail "check --json found '$(cat out)'"
expect 3 'see what is damaged with goblin check' goblin get damaged victim -o copy2
[ ! -e copy2 ] || fail 'a damaged object was written to a file'
expect 1 'stored bytes do not match' goblin check damaged --repair
grep -qE '^2 bad, 2 of them removed' out || fail "check --repair printed '$(cat out)'"
expect 0 '' goblin check damaged
expect 1 'no such object' goblin get damaged victim
expect 0 '' goblin get damaged good
same out mine/file

# ---- a full store --------------------------------------------------------------------------------
expect 0 '' goblin init full --size 32M --segment 1M --mode store --memory 16M
make_file tenth 3000000
said=no
for i in $(seq 20); do
    goblin put full "$i" tenth >out 2>err || {
        grep -qF 'the store is full' err && said=yes
        break
    }
done
[ $said = yes ] || fail "a full store said '$(cat err)'"
expect 0 '' goblin get full 1
same out tenth
expect 2 'only for a cache' goblin put full 1 tenth --admit second

# ---- a thrifty cache: ten minutes of its budget are gone with the first value --------------------
expect 0 '' goblin init thrifty --size 64M
make_file large 4000000
mkdir many
for i in $(seq 12); do ln large "many/$i"; done
expect 3 'the write budget of the day is spent' goblin load thrifty many --write-budget 64M
expect 0 '' goblin load thrifty many
expect 0 '' goblin put thrifty small "$GOBLIN_SOURCE/README.md" --admit second
expect 1 'no such object' goblin get thrifty small

# ---- several drives, clear -----------------------------------------------------------------------
mkdir d1 d2
expect 0 '' goblin init d1,d2 --size 128M
expect 0 '' goblin put d1,d2 file value
expect 0 '' goblin get d1,d2 file
same out value
goblin get d1 file >out 2>err && fail 'one drive of two opened'
expect 2 'add --yes to do it' goblin clear store
expect 0 '' goblin get store file
expect 0 '' goblin clear store --yes
expect 0 '' goblin ls store
[ ! -s out ] || fail 'a cleared store lists something'

echo "$checks checks, $failures failed"
[ $failures -eq 0 ]
