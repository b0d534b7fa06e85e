#!/usr/bin/env bash
# The tests with real parts, in two lanes beside each other: those of the lab, of which there is one, and those that make
# all they need. A test that failed runs once more, alone, on a new lab: a machine that stalls for a minute reddens one of
# hundreds now and then, a fault of ours reddens it twice. It is named in either case, as a race to be found.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
words=("$@")
failed=1 none=5 # of pytest's exit statuses; the others (interrupted, wrong words) are not for a second try
others=$(mktemp)
trap 'rm -f "$others"' EXIT

# Bash takes Ctrl-C from what runs in the background; pytest needs it to clean up.
lane() { # NAME MARKERS WORDS...
  env --default-signal=INT ../.venv/bin/pytest -q -m "lab and $2" -o "cache_dir=.pytest_cache/$1" \
    --durations=40 --durations-min=15 "${@:3}" "${words[@]}"
}
of_the_lab() { lane lab of_the_lab "$@"; }
of_their_own() { lane own 'not of_the_lab' "$@"; }

# Links, mounts and rules, by name: their states change. The card of a container is seen out here only where that is gone.
of_labs() {
  {
    ip -o link | grep -o 'vcrlab[^:@ ]*'
    ip -br link | awk '/^veth/ && $3 ~ /^00:16:3e:/ { print $1 }'
    cut -d ' ' -f 2 /proc/mounts | grep vcrlab
    iptables-save 2>/dev/null | grep vcrlab
  } | sort -u
}

before=$(of_labs)
of_their_own >"$others" 2>&1 &
of_the_lab
codes=($?)
wait $!
codes+=($?)
cat "$others"

((codes[0] == none && codes[1] == none)) && exit "$none"
for code in "${codes[@]}"; do
  ((code == 0 || code == failed || code == none)) || exit "$code"
done
if ((codes[0] != failed && codes[1] != failed)); then
  left=$(comm -13 <(echo "$before") <(of_labs))
  [[ -z $left ]] && exit 0
  printf 'LEFT BEHIND by the tests:\n%s\n' "$left"
  exit 1
fi

echo "ONCE MORE, the failed tests alone:"
alone=(--last-failed --last-failed-no-failures=none --maxfail=1)
export PYTHONTRACEMALLOC=10 # whoever leaves a process or a file open is named by where it was opened
((codes[0] != failed)) || of_the_lab "${alone[@]}" || exit 1
((codes[1] != failed)) || of_their_own "${alone[@]}" || exit 1
echo "FLAKY: what is named FAILED above has passed alone. Its first failure is a race, or another test's: find it."
