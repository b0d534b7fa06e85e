"""What is done inside a standby that runs: masks, units that start, units that are restarted since they are stale.

A file that rsync has replaced stays what it was for a process that had it open. And what a process has read at its
start (settings, scripts) may have changed since. So two things are looked for: processes that map or hold open files
that are gone, whose units are restarted; and settings, programs of the operator's own or packages that have changed
since the processes started, for which all services are.

A failover may come in between: from its mark on, what the keeper began changes nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from vcrecovery.errors import ExternalError
from vcrecovery.standby.modes import Level

#: Seconds beyond those for its parts that the script is waited for.
_MARGIN = 30.0
#: Seconds: a file's time of change is that of the kernel's last tick.
_TICK = 0.1

#: What a refresh prints first, and how much of the rest is taken: lines, and letters of each.
_NOW = re.compile(r"now(?: (\d{1,12}(?:\.\d{1,9})?)?)?")
_LINES, _LENGTH = 20, 2000

#: Where the script leaves what a promotion did; one that found nothing to do leaves nothing.
_SAID = "/run/vcrecovery-promoted"
#: The exit status of a promotion that has left something there.
_HAS_SAID = 10

#: Arguments: refresh or promote, since, level, masked units, warm units, seconds for each wait.
#: A refresh prints a line `now SECONDS` (or `now`) at first.
_BEGIN = r"""
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
export PATH LC_ALL
what=$1 since=$2 level=$3 masked=$4 units=$5 patience=$6
if [ "$what" = refresh ]; then
  now=$(date +%s.%N 2>/dev/null)
  case $now in *[!0-9.]*) now=$(date +%s) ;; esac
  echo "now $now"
fi
# The file, not the process: right after its start the process is still another.
[ /sbin/init -ef /lib/systemd/systemd ] || [ /sbin/init -ef /usr/lib/systemd/systemd ] || exit 0
"""

#: Prints `restarted UNIT...`, `started ...` or `failed ...`, a line each.
#: A promotion is waited for, and to start a program takes long on a busy machine: what the shell can do, it does.
_REST = r"""
masks=/run/systemd/system.control
if [ "$what" = refresh ]; then
  left=$((patience * 5))
  while [ $left -gt 0 ]; do
    case $(systemctl is-system-running 2>/dev/null) in running|degraded|maintenance|stopping) break ;; esac
    sleep 0.2
    left=$((left - 1))
  done
  exec 9>/run/vcrecovery-lock
  if command -v flock >/dev/null; then flock -w "$patience" 9 || exit 1; fi
  trap 'rm -f /run/vcrecovery-refreshes' EXIT
  : >/run/vcrecovery-refreshes
  [ -e /run/vcrecovery-serves ] && exit 0
  new=
  for unit in $masked; do
    [ -L "$masks/$unit" ] && continue
    mkdir -p $masks && ln -s /dev/null "$masks/$unit" && new="$new $unit"
  done
  if [ -n "$new" ]; then
    systemctl daemon-reload
    systemctl stop $new 2>/dev/null
  fi
else
  : >/run/vcrecovery-serves
  if [ -e /run/vcrecovery-refreshes ]; then
    exec 9>/run/vcrecovery-lock
    flock -w "$patience" 9 2>/dev/null
  fi
  # Written down first, so that a promotion that was cut short is finished by the next one.
  unmasked= links=
  [ ! -e /run/vcrecovery-unmasked ] || read -r unmasked </run/vcrecovery-unmasked
  for link in $masks/*; do
    [ -L "$link" ] && [ "$link" -ef /dev/null ] && links="$links $link" && unmasked="$unmasked ${link##*/}"
  done
  if [ -n "$links" ]; then
    echo "$unmasked" >/run/vcrecovery-unmasked
    rm -f $links
    systemctl daemon-reload
  fi
fi
stale=
if ! command -v find >/dev/null; then
  changed=unknown
else
  changed=$(find /etc /usr/local /opt /var/lib/dpkg/status /var/lib/rpm /usr/lib/sysimage/rpm -xdev \
    -newerct "@$since" -print -quit 2>/dev/null)
fi
if [ -n "$changed" ]; then
  systemctl daemon-reload
  stale=$(systemctl list-units --type=service --state=running --plain --no-legend | cut -d' ' -f1)
else
  found=$({
    find /proc/[0-9]*/fd -lname '/*(deleted)' ! -lname '/tmp/*' ! -lname '/var/tmp/*' ! -lname '/run/*' \
      ! -lname '/dev/*' ! -lname '/proc/*' ! -lname '/memfd:*'
    grep -lE ' /(usr|lib|lib64|bin|sbin|opt|etc|var|srv|home)/.* \(deleted\)$' /proc/[0-9]*/maps
  } 2>/dev/null)
  [ -z "$found" ] || stale=$(printf '%s\n' "$found" | cut -d/ -f3 | sort -u | while read -r pid; do
    sed -n 's#.*/\([^/]*\.service\)\(/.*\)\{0,1\}$#\1#p' "/proc/$pid/cgroup" 2>/dev/null
  done)
fi
[ -z "$stale" ] ||
  stale=$(printf '%s\n' $stale | grep -vE '^(systemd-|dbus|user@|[a-z]*-?getty[@.])' | sort -u | tr '\n' ' ')
if [ -n "${stale% }" ]; then
  if timeout "$patience" systemctl restart $stale; then
    echo "restarted ${stale% }"
  else
    echo "failed to restart ${stale% }"
  fi
fi
[ "$level" = all ] || { [ -z "$units" ] || systemctl start $units || echo "failed to start $units"; exit 0; }
if [ "$what" = refresh ]; then
  if systemctl is-active --quiet default.target; then
    : >/run/vcrecovery-up
  elif timeout "$patience" systemctl start default.target; then
    : >/run/vcrecovery-up
    echo "started all services"
  else
    echo "failed to start all services"
  fi
elif [ ! -e /run/vcrecovery-up ] && ! systemctl is-active --quiet default.target; then
  # Its keeper may have been killed at the start of the boot, where systemd does not answer yet.
  if timeout "$patience" sh -c 'until systemctl start --no-block default.target; do sleep 0.2; done'; then
    echo "started all services"
  else
    echo "failed to start all services"
    exit 1
  fi
fi
for unit in $unmasked; do
  systemctl is-enabled --quiet "$unit" 2>/dev/null && systemctl start --no-block "$unit" && echo "started $unit"
done
exit 0
"""

_REFRESH = _BEGIN + _REST
#: What it has to say is left in a file, and fetched only if there is something: each answer of a server takes time.
_PROMOTE = f"""{_BEGIN}
( {_REST} ) >{_SAID}
status=$?
[ $status -ne 0 ] || [ ! -s {_SAID} ] || exit {_HAS_SAID}
exit $status
"""


#: Starts what a boot would start and does not run; prints `started UNIT...` and `failed ...`.
_START_WANTED = f"""{_BEGIN}
systemctl reset-failed
wanted=
for unit in $(systemctl show -p Wants -p Requires --value default.target multi-user.target); do
  case $unit in *.service|*.socket) ;; *) continue ;; esac
  systemctl is-active --quiet "$unit" || wanted="$wanted $unit"
done
for unit in $wanted; do
  # One that runs once has done so, and one that is masked is to stay off.
  case $(systemctl show -p LoadState -p Type "$unit") in
    *Type=oneshot*) continue ;;
    *LoadState=loaded*) ;;
    *) continue ;;
  esac
  if timeout "$patience" systemctl start "$unit"; then echo "started $unit"; else echo "failed to start $unit"; fi
done
exit 0
"""


class Containers(Protocol):
    """What is needed of LXD."""

    name: str

    @property
    def client(self) -> str: ...

    def ask(self, instance: str, command: Sequence[str], timeout: float) -> tuple[int, str]: ...

    def status_of(self, instance: str, command: Sequence[str], timeout: float) -> int: ...

    def file(self, instance: str, path: str) -> bytes | None: ...


@dataclass(frozen=True)
class Did:
    """What a refresh did: `at`, by the secondary's clock, is before anything of it; `words` is empty for nothing.

    `at` is None where the container has no clock that tells seconds.
    """

    at: float | None
    words: str


def refresh(
    lxd: Containers,
    instance: str,
    since: float,
    level: Level,
    masked: Sequence[str],
    units: Sequence[str],
    patience: float,
) -> Did:
    """Waits for the boot, then brings a standby to `level` and restarts what is older than its files.

    `since` is the time before which its processes have not started; `patience`, in seconds, holds for each wait.
    Raises ExternalError when it cannot be done.
    """
    arguments = ["refresh", since - _TICK, level, " ".join(masked), " ".join(units), _whole(patience)]
    status, printed = lxd.ask(instance, _command(_REFRESH, arguments), patience * 3 + _MARGIN)
    first, *lines = _lines(printed) or [""]
    if status or not (now := _NOW.fullmatch(first)):
        raise _failed(lxd, instance, status, lines)
    return Did(float(now[1]) if now[1] else None, "; ".join(lines))


def promote(lxd: Containers, instance: str, since: float, patience: float) -> str:
    """Takes the masks away, restarts what is older than its files, and has the rest start; what was done.

    Raises ExternalError.
    """
    arguments = ["promote", since - _TICK, Level.ALL, "", "", _whole(patience)]
    status = lxd.status_of(instance, _command(_PROMOTE, arguments), patience + _MARGIN)
    if status == 0:
        return ""
    lines = _lines((lxd.file(instance, _SAID) or b"").decode(errors="replace"))
    if status != _HAS_SAID:
        raise _failed(lxd, instance, status, lines)
    return "; ".join(lines)


def start_wanted(lxd: Containers, instance: str, patience: float) -> list[str]:
    """Starts the services of a boot that do not run in a container that does; what was done. Raises ExternalError."""
    arguments = ["start", 0, Level.ALL, "", "", _whole(patience)]
    status, printed = lxd.ask(instance, _command(_START_WANTED, arguments), patience * 3 + _MARGIN)
    if status:
        raise _failed(lxd, instance, status, _lines(printed))
    return _lines(printed)


def _lines(printed: str) -> list[str]:
    """The container's programs are its primary's, and print what they like."""
    lines = printed[: _LINES * _LENGTH].splitlines()[:_LINES]
    return ["".join(c if c.isprintable() else "?" for c in line[:_LENGTH]) for line in lines]


def _whole(seconds: float) -> int:
    return max(1, int(seconds))


def _command(script: str, arguments: Sequence[object]) -> list[str]:
    return ["/bin/sh", "-c", script, "vcrecovery", *(str(word) for word in arguments)]


def _failed(lxd: Containers, instance: str, status: int, lines: Sequence[str]) -> ExternalError:
    return ExternalError(
        f"the services in container {instance} of {lxd.name} could not be started: "
        f"{'; '.join(lines) or f'status {status}'}",
        f"look inside with `{lxd.client} exec {instance} -- systemctl --failed`, then run it again",
    )
