#!/usr/bin/env bash
# The tests with real parts, in lanes beside each other: those of the lab, of which there is one; those of the small site, of
# which there is one in a network; and those that make all they need, once the lab's VM is off. Lanes with a network of their own
# help with the small sites, file by file: one of them from then on, another one after the lab's. A test that failed runs once
# more, alone, on a new lab, so that one sees whether it needed the others to fail. It is red in either case.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
words=("$@")
failed=1 none=5 # of pytest's exit statuses; the others (interrupted, wrong words) are not for a second try
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT

# Bash takes Ctrl-C from what runs in the background; pytest needs it to clean up.
lane() { # NAME MARKERS [COMMAND that runs pytest...]
  env --default-signal=INT "${@:3}" ../.venv/bin/pytest -q -m "lab and not at_length and $2" -o "cache_dir=.pytest_cache/$1" \
    -o "testpaths=tests/lab tests/benchmarks" --durations=40 --durations-min=15 "${words[@]}"
}
# There is no way out of it, so what fetches anything is elsewhere. A /sys shows the links of the network in which it was
# mounted; the control groups below it stay as they are.
mkdir "$said/cgroup"
# shellcheck disable=SC2016 # its own words
in_a_network_of_its_own=(unshare --net --mount sh -ec '
  ip link set lo up
  mount --rbind /sys/fs/cgroup "$0"
  mount -t sysfs sysfs /sys
  mount --move "$0" /sys/fs/cgroup
  exec "$@"' "$said/cgroup")
# shellcheck disable=SC2329 # they are called by their names
{
  of_the_lab() { lane lab of_the_lab; }
  of_the_small_site() { lane small of_a_small_site env VCRECOVERY_SHARED_IN="$shared"; }
  of_their_own() { lane own 'not of_the_lab and not of_a_small_site and not network_of_its_own'; }
  elsewhere() { lane "$1" "$2" env VCRECOVERY_SHARED_IN="$shared" "${in_a_network_of_its_own[@]}"; } # NAME MARKERS
  in_another_network() { elsewhere another_network 'of_a_small_site and not reaches_out'; }
  in_a_third_network() { elsewhere third_network '(of_a_small_site and not reaches_out) or network_of_its_own'; }
}

# Links, mounts and rules, by name: their states change. The card of a container is seen out here only where that is gone.
of_labs() {
  {
    ip -o link | grep -o 'vcrlab[^:@ ]*'
    ip -br link | awk '/^veth/ && $3 ~ /^(00:16:3e|10:66:6a):/ { print $1 }'
    cut -d ' ' -f 2 /proc/mounts | grep vcrlab
    iptables-save 2>/dev/null | grep vcrlab
  } | sort -u
}

# Each with its output and its status in files; those after one that was interrupted do not begin.
one_after_the_other() { # LANES...
  for name; do
    "$name" >"$said/$name" 2>&1
    echo $? >"$said/$name.status"
    was_not_interrupted "$name" || return
  done
}
was_not_interrupted() { [[ "$(<"$said/$1.status")" =~ ^(0|$failed|$none)$ ]]; } # LANE
# An emulated CPU and two lanes more are too much for two cores: each test takes more than twice as long.
export VCRECOVERY_NOTHING_IS_EMULATED=$said/nothing_is_emulated
once_nothing_is_emulated() { # LANES...
  until [[ -e $VCRECOVERY_NOTHING_IS_EMULATED || -e $said/of_the_lab.status ]]; do sleep 1; done
  one_after_the_other "$@"
}

shared=$said/shared
mkdir "$shared"
before=$(of_labs)
one_after_the_other of_the_small_site &
once_nothing_is_emulated of_their_own &
once_nothing_is_emulated in_another_network &
of_the_lab
echo $? >"$said/of_the_lab.status"
was_not_interrupted of_the_lab && one_after_the_other in_a_third_network
wait
declare -A codes=([of_the_lab]=$(<"$said/of_the_lab.status"))
for name in of_the_small_site of_their_own in_another_network in_a_third_network; do
  [[ -e $said/$name.status ]] || continue
  cat "$said/$name"
  codes[$name]=$(<"$said/$name.status")
done

red=() ran=
for name in "${!codes[@]}"; do
  case ${codes[$name]} in
    0) ran=1 ;;
    "$failed") red+=("$name") ;;
    "$none") ;;
    *) exit "${codes[$name]}" ;;
  esac
done
if ((${#red[@]} == 0)); then
  [[ $ran ]] || exit "$none"
  left=$(comm -13 <(echo "$before") <(of_labs))
  [[ -z $left ]] && exit 0
  printf 'LEFT BEHIND by the tests:\n%s\n' "$left"
  exit 1
fi

echo "ONCE MORE, the failed tests alone:"
shared= # each has its own ones to run
export PYTHONTRACEMALLOC=10 # whoever leaves a process or a file open is named by where it was opened
words+=(--last-failed --last-failed-no-failures=none --maxfail=1)
for name in "${red[@]}"; do
  "$name" && echo "FLAKY: what is named FAILED above has passed alone. Its first failure is a race, or another test's: find it."
done
exit 1
