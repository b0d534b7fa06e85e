"""Brings the lab up, and leaves nothing of it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.errors import VCRecoveryError
from vcrecovery.standby.container import ROLE_KEY

from .accelerator import accelerator
from .domain import Accelerator
from .image import DEFAULT_CACHE, Image, ensure_image
from .layout import BRIDGE, CHECKOUT, SERVICE, Layout
from .lxd_network import remove_pool_and_network
from .machine import create, destroy_and_undefine
from .network import ensure_bridge, remove_bridge
from .pair.waiting import wait_until
from .progress import stderr_progress
from .recipe import Recipe
from .run import LabError, run

#: In the order in which they may be ended: who uses comes before who is used.
_DAEMONS = ("vcrecovery-watch", "vcrecovery-receiver", "vcrecovery-named")
PLAYBOOK_TIMEOUT = 600
_LIBVIRT = Path("/run/libvirt/libvirt-sock")
#: setup.sh and the image have installed what these roles would: asking apt again takes 20 s.
_ROLES = ("hypervisor", "dns", "secondary", "controller", "primary")
_GROUND = ("lxd", "libvirtd", "virtlogd")
#: Commands that succeed when it answers.
_ANSWERS = {
    "lxd": ("lxd", "waitready", "--timeout", "5"),
    "libvirtd": ("virsh", "--quiet", "-c", "qemu:///system", "uri"),
    "virtlogd": ("virt-admin", "--quiet", "-c", "virtlogd:///system", "uri"),
}


def up(layout: Layout, contents: Recipe | None = None) -> Image:
    """The image (the lab's own, or by another recipe), the hypervisor, the VM, and then the layout by site.yml."""
    image, accel = ground(layout, contents)
    emulated = "" if accel == "kvm" else " (emulated: KVM boots no stock guest here)"
    sys.stderr.write(f"the primary VM{emulated} boots while the layout is made\n")
    # The VM is not needed before the layout comes to the primaries.
    with ThreadPoolExecutor(max_workers=1) as pool:
        booted = pool.submit(create, layout.primary(), image, accel, layout.machines)
        text = "the layout: ansible-playbook site.yml (about 60 s)"
        try:
            playbook(layout, "site.yml", text, *site_variables(image))
        finally:
            booted.result()
    return image


def ground(layout: Layout, contents: Recipe | None = None) -> tuple[Image, Accelerator]:
    """What an operator has before: a hypervisor with a network. The image is that of its VM."""
    # A cache keeps one image.
    cache = DEFAULT_CACHE.with_name(f"{DEFAULT_CACHE.name}-{contents.suite}") if contents else DEFAULT_CACHE
    layout.root.mkdir(mode=0o711, parents=True, exist_ok=True)
    layout.config_dir.mkdir(mode=0o755, exist_ok=True)
    image = ensure_image(cache, stderr_progress, contents)
    key = layout.config_dir / "lab_key"
    key.touch(mode=0o600)
    key.write_bytes(image.ssh_key.read_bytes())
    _hypervisor(layout)
    with stderr_progress("does KVM boot a stock guest? (about 2 s)"):
        accel = accelerator(image, cache)
    ensure_bridge(BRIDGE, f"{layout.gateway}/24")
    return image, accel


def site_variables(image: Image) -> tuple[str, str]:
    """Words for ansible-playbook: its packages are here already, and so are the VM's files."""
    packaged: dict[str, object] = {f"{role}_packages": [] for role in _ROLES}
    return "-e", json.dumps({"secondary_seeds": {SERVICE: str(image.rootfs)}, **packaged})


def _hypervisor(layout: Layout) -> None:
    packaged = json.dumps({"hypervisor_packages": []})
    playbook(layout, "controller/lab/hypervisor.yml", "the lab's hypervisor", "-e", packaged)


@contextmanager
def hypervisor(layout: Layout) -> Iterator[None]:
    """libvirt alone; a lab that is up already stays so."""
    if _LIBVIRT.exists():
        yield
        return
    layout.root.mkdir(mode=0o711, parents=True, exist_ok=True)
    try:
        _hypervisor(layout)
        yield
    finally:
        down(layout)


def playbook(layout: Layout, name: str, text: str, *words: str) -> str:
    """Runs a playbook as an operator would; what it printed."""
    log = layout.root / "ansible.log"
    command = [str(CHECKOUT / ".venv/bin/ansible-playbook"), name, *words]
    env = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg")}
    with log.open("a") as output, stderr_progress(text):
        begin = output.tell()
        try:
            status = subprocess.run(
                command,
                cwd=CHECKOUT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=PLAYBOOK_TIMEOUT,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired as error:
            raise LabError(f"ansible-playbook {name} did not end within {PLAYBOOK_TIMEOUT} s; see {log}") from error
    with log.open() as output:
        output.seek(begin)
        printed = output.read()
    if status:
        sys.stderr.write("\n".join(printed.splitlines()[-25:]) + "\n")
        raise LabError(f"ansible-playbook {name} failed; its whole output is in {log}")
    return printed


def down(layout: Layout) -> None:
    """Removes all that `up` made. Each part may be there or not."""
    for name in _DAEMONS:
        _end_daemon(layout, name)
    for name in reversed(_GROUND):
        _begin_again(layout, name)
    _remove_standbys(layout)
    vm = layout.primary()
    if _LIBVIRT.exists():
        destroy_and_undefine(vm, layout.machines)
    remove_bridge(BRIDGE)
    for name in _GROUND:
        _end_daemon(layout, name)
    for folder in (layout.root, layout.run_dir):
        shutil.rmtree(folder, ignore_errors=True)
    for folder in (Path("/run/vcrecovery/jail"), Path("/run/vcrecovery")):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _end_daemon(layout: Layout, name: str) -> None:
    """Ends what the lab started by hand, or its unit where systemd runs. Daemons of the system stay as they are."""
    record = layout.run_dir / "daemons" / f"{name}.json"
    if record.exists():
        entry = json.loads(record.read_text())
        # A session of the receiver outlives its server: its VM was killed without a word.
        sessions = _children(entry["pid"]) if name in _DAEMONS else []
        _end_process(entry["pid"], entry["started"], name)
        for pid, started in sessions:
            _end_process(pid, started, f"a session of {name}")
        record.unlink()
    unit = Path("/etc/systemd/system") / f"{name}.service"
    if name in _DAEMONS and unit.exists() and str(layout.root) in unit.read_text():
        run(["systemctl", "disable", "--now", unit.name], timeout=60, check=False)
        unit.unlink()


def _start_time(pid: int) -> str | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def _children(pid: int) -> list[tuple[int, str]]:
    """The processes below this one, with their start times."""
    found: list[tuple[int, str]] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            if (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1] == str(pid):
                started = _start_time(int(folder.name))
                if started is not None:
                    found += [(int(folder.name), started), *_children(int(folder.name))]
    return found


def _end_process(pid: int, started: str, name: str) -> None:
    for number, patience in ((signal.SIGTERM, 30.0), (signal.SIGKILL, 10.0)):
        if _start_time(pid) != started:
            return
        os.kill(pid, number)
        with contextlib.suppress(LabError):
            wait_until(lambda: _start_time(pid) != started, name, patience)
    if _start_time(pid) == started:
        raise LabError(f"{name} (process {pid}) does not end")


def _begin_again(layout: Layout, name: str) -> None:
    """Starts what the lab started by hand, if it was killed since: nobody else can remove what it has made."""
    record = layout.run_dir / "daemons" / f"{name}.json"
    if not record.exists():
        return
    entry = json.loads(record.read_text())
    if _start_time(entry["pid"]) == entry["started"]:
        return
    # It is nobody's child when this program ends, or waits for what it ended.
    begin = ["sh", "-c", '"$@" </dev/null >/dev/null 2>&1 & echo $!', "sh", *entry["argv"]]
    pid = int(run(begin, timeout=10).stdout)
    record.write_text(json.dumps({**entry, "pid": pid, "started": _start_time(pid)}))
    wait_until(lambda: run(_ANSWERS[name], timeout=30, check=False).returncode == 0, name, 60)


def _remove_standbys(layout: Layout) -> None:
    if not layout.lxd_socket.exists():
        return
    lxd = LxdServer("sec1", layout.lxd_socket, SystemClock())
    try:
        for service in layout.plan["services"]:
            instance = lxd.get(service)
            if instance is None or ROLE_KEY not in instance.config or instance.devices["root"]["pool"] != layout.pool:
                continue
            if instance.running:
                lxd.stop(service, timeout=30)
            # A pool of driver dir removes every file of each restore point.
            lxd.delete(service, timeout=600)
        remove_pool_and_network(lxd, layout.pool, layout.network)
    except VCRecoveryError as error:
        raise LabError(f"the standbys could not be removed: {error}") from error
