#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0 OR GPL-3.0-or-later
# Apache License 2.0 (see LICENSE) or, as modules of Ansible have to be, at your choice
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
"""The one seam between a machine with systemd and one without."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: daemon
short_description: Runs a daemon, under systemd or by hand
version_added: 0.1.0
author:
  - The VCRecovery authors (@vcrecovery)
description:
  - On a machine with systemd it enables and starts the unit.
  - On one without, such as a test machine, it starts the command itself, in a session of its own, and remembers its
    process so that only that one is ever stopped.
options:
  name:
    description: What the daemon is called. The unit is C(NAME.service) unless O(unit) says otherwise.
    type: str
    required: true
  argv:
    description: The command that runs in the foreground or the background, for a machine without systemd.
    type: list
    elements: str
    required: true
  unit:
    description: The systemd unit.
    type: str
  supervisor:
    description: Who runs it.
    type: str
    choices: [systemd, process]
    required: true
  state:
    description:
      - What is wanted. V(restarted), for handlers, restarts what runs and starts nothing.
      - V(reloaded) sends what runs SIGHUP, for daemons that read their configuration then.
    type: str
    choices: [started, restarted, reloaded, stopped]
    default: started
  meanwhile:
    description:
      - A command that runs while the daemon is stopped, for one that writes its files when it ends. With V(started) only.
      - The daemon runs again afterwards, also when the command has failed, which is an error then.
    type: list
    elements: str
    default: []
  reads:
    description:
      - Files, or folders of such, that the daemon reads when it starts only. With V(started) it is restarted when one of them is
        newer than what runs, as after a run that was cut off between the two.
      - A folder is as old as the last file that was put into it. What is not there counts as unchanged, and so does what is
        from the future.
    type: list
    elements: path
    default: []
  endpoint:
    description:
      - A unix socket (a path) or V(ADDRESS:PORT) that answers when the daemon is ready. It is waited for.
      - Without systemd, a daemon whose endpoint answers already but that was not started here is left alone.
    type: str
  environment:
    description: Variables for the command.
    type: dict
    default: {}
  timeout:
    description: Seconds to wait for the endpoint.
    type: int
    default: 30
  run_dir:
    description: Where processes are remembered.
    type: path
    default: /run/vcrecovery/daemons
  log_dir:
    description: Where their output goes.
    type: path
    default: /var/log/vcrecovery
attributes:
  check_mode:
    description: Can run in check mode.
    support: full
"""

EXAMPLES = r"""
- name: Run the watcher
  vcrecovery.standby.daemon:
    name: vcrecovery-watch
    argv: [/opt/vcrecovery/bin/vcrecovery, watch]
    supervisor: "{{ 'systemd' if ansible_facts.service_mgr == 'systemd' else 'process' }}"
"""

RETURN = r"""
started:
  description: Whether it was started or restarted. It has read its newest configuration then.
  type: bool
  returned: under systemd
pid:
  description: The process, where there is no systemd.
  type: int
  returned: when started by hand
"""

import json
import os
import signal
import socket
import time
from subprocess import DEVNULL, Popen

from ansible.module_utils.basic import AnsibleModule


def answers(endpoint):
    """Whether somebody accepts connections there."""
    try:
        if endpoint.startswith("/"):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                sock.settimeout(2)
                sock.connect(endpoint)
        else:
            host, _colon, port = endpoint.rpartition(":")
            socket.create_connection((host, int(port)), timeout=2).close()
        return True
    except OSError:
        return False


def wait(condition, timeout):
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def start_time(pid):
    """When the process began, in the kernel's ticks; None when there is none. A number can come again, this cannot."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def by_the_clock_of_files(clock, seconds):
    """When that was, as far as is known now: the clock of files may have been set since, the other one is not."""
    return time.time() - (time.clock_gettime(clock) - seconds)


def modified(path):
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None


class WhatItReads:
    """The files that a daemon reads when it starts, or when it is sent SIGHUP."""

    def __init__(self, options):
        self.files = options["reads"]
        self.mark = os.path.join(options["run_dir"], options["name"] + ".reloaded")

    def note_reload(self):
        os.makedirs(os.path.dirname(self.mark), mode=0o755, exist_ok=True)
        with open(self.mark, "ab"):
            os.utime(self.mark)

    def changed_since(self, start):
        """What is from the future has not changed: it would be newer than the daemon after each restart, too."""
        now, reload = time.time(), modified(self.mark)
        read = reload if reload is not None and start < reload <= now else start
        return any(read < found <= now for found in map(modified, self.files) if found is not None)


def judged(module, done, result):
    """`result`, if the command `meanwhile` has ended well."""
    code, out, err = done
    if code:
        module.fail_json(msg=f"what was to be done meanwhile has failed: {(out + err).strip()}", **result)
    return result


class ByHand:
    """A daemon as a process of its own."""

    def __init__(self, module):
        self.module = module
        self.options = module.params
        self.record = os.path.join(self.options["run_dir"], self.options["name"] + ".json")
        self.reads = WhatItReads(self.options)

    def remembered(self):
        """What was started here and still runs."""
        try:
            with open(self.record, encoding="utf-8") as file:
                entry = json.load(file)
        except (OSError, ValueError):
            return None
        return entry if start_time(entry["pid"]) == entry["started"] else None

    def is_current(self, entry):
        """Whether it is the wanted command, and has read its files as they are."""
        start = by_the_clock_of_files(time.CLOCK_BOOTTIME, int(entry["started"]) / os.sysconf("SC_CLK_TCK"))
        return entry["argv"] == self.options["argv"] and not self.reads.changed_since(start)

    def stop(self):
        entry = self.remembered()
        if entry is not None:
            os.kill(entry["pid"], signal.SIGTERM)
            if not wait(lambda: start_time(entry["pid"]) != entry["started"], 20):
                os.kill(entry["pid"], signal.SIGKILL)
                wait(lambda: start_time(entry["pid"]) != entry["started"], 5)
        if os.path.exists(self.record):
            os.unlink(self.record)

    def start(self):
        name, argv = self.options["name"], self.options["argv"]
        os.makedirs(self.options["run_dir"], mode=0o755, exist_ok=True)
        os.makedirs(self.options["log_dir"], mode=0o755, exist_ok=True)
        log_path = os.path.join(self.options["log_dir"], name + ".log")
        environment = dict(os.environ, **{k: str(v) for k, v in self.options["environment"].items()})
        with open(log_path, "ab") as log:
            # Ansible's own run_command waits for the end of what it starts.
            process = Popen(  # pylint: disable=consider-using-with
                argv, stdin=DEVNULL, stdout=log, stderr=log, cwd="/", env=environment, start_new_session=True
            )
        entry = {"name": name, "pid": process.pid, "started": start_time(process.pid), "argv": argv}
        with open(self.record, "w", encoding="utf-8") as file:
            json.dump(entry, file)
        endpoint = self.options["endpoint"]
        if endpoint:
            ready = wait(lambda: answers(endpoint) or process.poll() is not None, self.options["timeout"])
            if not ready or not answers(endpoint):
                self.module.fail_json(msg=f"{name} does not answer on {endpoint}; see {log_path}")
        elif wait(lambda: process.poll() is not None, 0.5):
            self.module.fail_json(msg=f"{name} ended at once with status {process.returncode}; see {log_path}")
        return process.pid

    def ensure(self):
        state, entry = self.options["state"], self.remembered()
        endpoint = self.options["endpoint"]
        if state == "stopped":
            if entry is not None and not self.module.check_mode:
                self.stop()
            return {"changed": entry is not None}
        if entry is None and state in ("restarted", "reloaded"):
            return {"changed": False, "msg": "it does not run yet"}
        if state == "reloaded":
            if not self.module.check_mode:
                self.reads.note_reload()
                os.kill(entry["pid"], signal.SIGHUP)
            return {"changed": True, "pid": entry["pid"]}
        if self.options["meanwhile"]:
            if self.module.check_mode:
                return {"changed": True}
            self.stop()
            done = self.module.run_command(self.options["meanwhile"])
            return judged(self.module, done, {"changed": True, "pid": self.start()})
        if entry is None and endpoint and answers(endpoint):
            return {"changed": False, "msg": "another supervisor runs it"}
        if entry is not None and state == "started" and self.is_current(entry):
            return {"changed": False, "pid": entry["pid"]}
        if self.module.check_mode:
            return {"changed": True}
        self.stop()
        return {"changed": True, "pid": self.start()}


class UnderSystemd:
    """A daemon as a unit."""

    def __init__(self, module):
        self.module = module
        self.options = module.params
        self.unit = self.options["unit"] or self.options["name"] + ".service"
        self.reads = WhatItReads(self.options)

    def systemctl(self, *words):
        code, out, err = self.module.run_command(["systemctl", *words])
        return code == 0, (out + err).strip()

    def must(self, *words):
        done, said = self.systemctl(*words)
        if not done:
            self.module.fail_json(msg=f"systemctl {' '.join(words)}: {said or 'failed'}; see journalctl -u {self.unit}")

    def present(self):
        """Whether the unit runs, whether it is enabled, and whether its file, or one of what it reads, has changed since."""
        wanted = "--property=ActiveState,UnitFileState,NeedDaemonReload,ExecMainStartTimestampMonotonic"
        done, said = self.systemctl("show", wanted, self.unit)
        if not done:
            self.module.fail_json(msg=f"systemctl show {self.unit}: {said}")
        found = dict(line.partition("=")[::2] for line in said.splitlines())
        active = found.get("ActiveState") in ("active", "reloading")
        enabled = found.get("UnitFileState") in ("enabled", "static", "indirect", "generated")
        # Microseconds; 0 where there is no process.
        start = int(found.get("ExecMainStartTimestampMonotonic") or 0) / 1000000
        stale = found.get("NeedDaemonReload") == "yes" or (
            start > 0 and self.reads.changed_since(by_the_clock_of_files(time.CLOCK_MONOTONIC, start))
        )
        return active, enabled, stale

    def ensure(self):
        state = self.options["state"]
        active, enabled, stale = self.present()
        if state == "stopped":
            changed = active or enabled
            if changed and not self.module.check_mode:
                self.must("disable", "--now", self.unit)
            return {"changed": changed}
        if state in ("restarted", "reloaded") and not active:
            return {"changed": False, "started": False}
        if state == "reloaded":
            if not self.module.check_mode:
                self.reads.note_reload()
                self.must("kill", "--kill-who=main", "--signal=HUP", self.unit)
            return {"changed": True, "started": False}
        if self.options["meanwhile"]:
            if not self.module.check_mode:
                self.must("daemon-reload")
                self.must("stop", self.unit)
                done = self.module.run_command(self.options["meanwhile"])
                self.must("enable", "--now", self.unit)
                self.wait_for_endpoint()
                judged(self.module, done, {})
            return {"changed": True, "started": True}
        restart = active and (state == "restarted" or stale)
        changed = restart or not active or not enabled
        if changed and not self.module.check_mode:
            # Before a restart always: what the unit wants may have changed, which its own file does not show.
            if stale or restart:
                self.must("daemon-reload")
            # This reads the units anew when it enables one.
            self.must("enable", "--now", self.unit)
            if restart:
                self.must("restart", self.unit)
            self.wait_for_endpoint()
        return {"changed": changed, "started": restart or not active}

    def wait_for_endpoint(self):
        endpoint = self.options["endpoint"]
        if endpoint and not wait(lambda: answers(endpoint), self.options["timeout"]):
            self.module.fail_json(msg=f"{self.unit} does not answer on {endpoint}; see journalctl -u {self.unit}")


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "argv": {"type": "list", "elements": "str", "required": True},
            "unit": {"type": "str"},
            "supervisor": {"type": "str", "choices": ["systemd", "process"], "required": True},
            "state": {"type": "str", "choices": ["started", "restarted", "reloaded", "stopped"], "default": "started"},
            "meanwhile": {"type": "list", "elements": "str", "default": []},
            "reads": {"type": "list", "elements": "path", "default": []},
            "endpoint": {"type": "str"},
            "environment": {"type": "dict", "default": {}},
            "timeout": {"type": "int", "default": 30},
            "run_dir": {"type": "path", "default": "/run/vcrecovery/daemons"},
            "log_dir": {"type": "path", "default": "/var/log/vcrecovery"},
        },
        supports_check_mode=True,
    )
    kind = UnderSystemd if module.params["supervisor"] == "systemd" else ByHand
    module.exit_json(**kind(module).ensure())


if __name__ == "__main__":
    main()
