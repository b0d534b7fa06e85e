#!/usr/bin/env bash
# The tests with real parts, in two lanes: those of the lab, and those that make all they need. A test that failed runs
# once more, alone, on a new lab: that it then passes tells of a race or of what another test left, and excuses nothing.
set -uo pipefail
cd "$(dirname "$0")/.."
pytest=(../.venv/bin/pytest -q -m lab -n 2 --dist loadgroup --durations=60 --durations-min=15)

left_behind() {
  ip -brief link | grep vcrlab
  grep vcrlab /proc/mounts
  iptables-save 2>/dev/null | grep vcrlab
}

"${pytest[@]}" "$@"
code=$?
if left_behind; then
  echo "LEFT BEHIND by the tests: the links, mounts or rules above"
  ((code)) || code=1
fi
((code == 1)) || exit "$code" # 1: tests failed; all else (interrupted, no test found) is not for a second try
echo "ONCE MORE, the failed tests alone:"
"${pytest[@]}" --last-failed --last-failed-no-failures=none --maxfail=1 "$@" &&
  echo "FLAKY: what is named FAILED above has passed alone. Its first failure is a race, or another test's: find it."
exit 1
