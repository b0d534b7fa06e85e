"""`python -m vcrecovery_lab.molecule [SCENARIO...]`: Molecule's scenarios, on a LXD of their own; nothing is left.

The machines have the system that MOLECULE_SYSTEM names.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from vcrecovery.errors import VCRecoveryError

from .containers import MachineImage, ensure_machine_image
from .layout import CHECKOUT
from .private_lxd import PrivateLxd
from .progress import stderr_progress
from .recipe import KEPT_BYTECODE
from .run import LabError
from .systems import SYSTEMS, System

SCENARIOS, LOGS = CHECKOUT / "molecule", CHECKOUT / ".cache/molecule"
#: Seconds for all of one scenario.
PATIENCE = 1800.0


def main() -> int:
    """The exit status: 1 if a scenario failed."""
    parser = argparse.ArgumentParser(prog="vcrecovery_lab.molecule", description=__doc__)
    system = SYSTEMS.get(os.environ.get("MOLECULE_SYSTEM") or next(iter(SYSTEMS)))
    if system is None:
        parser.error(f"MOLECULE_SYSTEM names none of {', '.join(SYSTEMS)}")
    names = sorted({path.parent.name for path in SCENARIOS.glob("*/molecule.yml")} - system.not_played)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"{', '.join(names)} (all)")
    wanted = parser.parse_args().scenarios or names
    if unknown := sorted(set(wanted) - set(names)):
        parser.error(f"no scenario {', '.join(unknown)} for {system.name}; there are {', '.join(names)}")
    if os.geteuid() != 0:
        sys.stderr.write("molecule: run this as root: it makes containers and a bridge\n")
        return 1
    # Whichever way it is ended, nothing is left.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        return play(wanted, system)
    except (LabError, VCRecoveryError) as error:
        sys.stderr.write(f"molecule: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("molecule: interrupted\n")
        return 130


def play(scenarios: Sequence[str], system: System) -> int:
    failed = False
    with place_for_machines(system) as (lxd, image):
        (LOGS / system.name).mkdir(parents=True, exist_ok=True)
        for name in scenarios:
            with stderr_progress(f"molecule: {name} on {system.name}"):
                fault = fault_of(name, lxd, image, system)
            if fault is not None:
                failed = True
                sys.stderr.write(f"molecule: {name} failed: {fault}; all of it is in {log_of(name, system)}\n")
    return int(failed)


@contextmanager
def place_for_machines(system: System) -> Iterator[tuple[PrivateLxd, MachineImage]]:
    """A LXD with a pool, a bridge and images for machines, and that of `system`; nothing is left of it."""
    # The first is for machines that only help, such as the secondary of a primary under test.
    images = {one.name: ensure_machine_image(one, stderr_progress) for one in {next(iter(SYSTEMS.values())), system}}
    lxd = PrivateLxd(system.bridge)
    # Another run's machines have the same addresses.
    with Path(f"/run/lock/{system.bridge}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            lxd.start()
            lxd.lxc("storage", "create", system.bridge, "dir")
            own = (f"ipv4.address={system.gateway}/24", "ipv4.nat=true", "ipv6.address=none")
            lxd.lxc("network", "create", system.bridge, *own)
            for alias, one in images.items():
                lxd.lxc("image", "import", str(one.archive), "--alias", alias)
            yield lxd, images[system.name]
        finally:
            lxd.close()


def log_of(name: str, system: System) -> Path:
    return LOGS / system.name / f"{name}.log"


def fault_of(name: str, lxd: PrivateLxd, image: MachineImage, system: System) -> str | None:
    """Plays one scenario. None: it went well."""
    command = ["molecule", "--base-config", str(SCENARIOS / "base.yml"), "test", "--no-command-borders"]
    log = log_of(name, system)
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--scenario-name", name],
            cwd=CHECKOUT,
            env={**os.environ, **environment(lxd, image, system, name)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # What Molecule has started ends with it.
            start_new_session=True,
        )
        try:
            status = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return f"no end after {PATIENCE:.0f} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
    text = log.read_text()
    if status:
        return last_fault(text)
    if tasks := changed_in_last_check(text):
        return f"the rehearsal after the run would change something: {', '.join(tasks)}"
    return None


def last_fault(text: str) -> str:
    """What Ansible says of the first task that failed, or Molecule of a second run or at its end."""
    if found := re.search(r"^CRITICAL (Idempotence.*(?:\n\*.*)+)", text, re.MULTILINE):
        return found[1].replace("\n", " ")
    found = re.search(r"^TASK \[(.*)\].*\n(?:(?!TASK ).*\n)*?(?:fatal|failed): .*", text, re.MULTILINE)
    return f"task {found[1]!r}" if found else text.rstrip().rpartition("\n")[2]


def changed_in_last_check(text: str) -> list[str]:
    """Molecule looks at that of the second run only."""
    *_, last = re.split(r"> check\] Executing$", text, flags=re.MULTILINE)
    played, _, _ = last.partition("> check] Executed")
    tasks = re.split(r"^(?:TASK|RUNNING HANDLER) \[(.*)\].*$", played, flags=re.MULTILINE)
    return [task for task, output in zip(tasks[1::2], tasks[2::2], strict=True) if "\nchanged: " in output]


def environment(lxd: PrivateLxd, image: MachineImage, system: System, name: str) -> Mapping[str, str]:
    return {
        **lxd.environment(),
        "VCRECOVERY_MOLECULE": system.bridge,
        "VCRECOVERY_MOLECULE_NETWORK": system.prefix,
        "VCRECOVERY_MOLECULE_SYSTEM": system.name,
        "ANSIBLE_PRIVATE_KEY_FILE": str(image.ssh_key),
        # Of this run alone: the next one's containers have the same addresses.
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(lxd.folder / "ssh"),
        "PYTHONPATH": str(KEPT_BYTECODE),
        "PYTHONPYCACHEPREFIX": str(CHECKOUT / ".cache/bytecode"),
        "ANSIBLE_NOCOLOR": "1",
        "NO_COLOR": "1",
        "ANSIBLE_HOME": str(CHECKOUT / ".cache/molecule/ansible"),
        "PATH": f"{CHECKOUT}/.venv/bin:{os.environ['PATH']}",
        "MOLECULE_EPHEMERAL_DIRECTORY": str(lxd.folder / "molecule" / name),
        "MOLECULE_GLOB": str(SCENARIOS / "*/molecule.yml"),
    }


if __name__ == "__main__":
    sys.exit(main())
