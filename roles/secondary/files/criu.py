"""criu as LXD 5.0 needs it: liblxc cannot bring back what it has had CRIU write down of a container.

LXD finds this one first; it goes on as the real one, which is the next on the PATH. Of a dump it hides the console from
liblxc, which has none to restore it on. For a restore it makes one, and has the container's routes lead out here.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

#: What liblxc writes of the console, and what this makes of it.
TTY, KEPT = "tty.info", "vcrecovery-tty"
#: For our other self, which criu calls while it restores.
CONFIG = "VCRECOVERY_LXC_CONF"
#: Seconds for each of what is done for the network after a restore.
WITHIN = 5.0


def main(words: list[str]) -> None:
    # liblxc calls it without a standard input: what is opened next must not become one.
    while (file := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(file, True)
    os.close(file)
    if os.environ.get("CRTOOLS_SCRIPT_ACTION"):
        leads_out()
        return
    if words[:1] == ["announce"]:
        announce(words[1], words[2])
        return
    if words[:1] == ["dump"]:
        hide_console(state_of(words))
    if words[:1] == ["restore"]:
        words = restorable(words, state_of(words))
    real = real_one()
    os.execv(real, [real, *words])


def real_one() -> str:
    here = Path(__file__).resolve()
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        found = Path(folder, "criu")
        if os.access(found, os.X_OK) and found.resolve() != here:
            return str(found)
    sys.exit("criu is not installed")


def state_of(words: list[str]) -> Path:
    """Where LXD keeps what CRIU writes: LXD's folder, containers, the container, state."""
    return Path(words[words.index("-D") + 1])


def hide_console(state: Path) -> None:
    if (state / TTY).exists():
        (state / TTY).rename(state / KEPT)


def restorable(words: list[str], state: Path) -> list[str]:
    # A process in a user namespace whose map is not written yet reads the first of the images.
    state.chmod(0o711)
    config = settings_of(state)
    os.environ[CONFIG] = str(config)
    words = without(words, "--ext-mount-map", "console:")
    if not Path("/sys/kernel/security/apparmor").exists():
        words = without(words, "--lsm-profile", "apparmor:")
    if (state / KEPT).exists():
        console, path = new_console(state.parent.name, *root_of(config))
        tty = (state / KEPT).read_text().strip()
        words += ["--ext-mount-map", f"console:{path}", "--inherit-fd", f"fd[{console}]:{tty}"]
    return [*words, "--action-script", str(Path(__file__).resolve())]


def without(words: list[str], option: str, value: str) -> list[str]:
    """Without an option whose value begins so."""
    gone = {at for at, word in enumerate(words[:-1]) if word == option and words[at + 1].startswith(value)}
    return [word for at, word in enumerate(words) if not {at, at - 1} & gone]


def settings_of(state: Path) -> Path:
    """The file by which LXD has told liblxc of the container."""
    name = state.parent.name
    for logs in (state.parents[2] / "logs", Path("/var/log/lxd")):
        if (file := logs / name / "lxc.conf").exists():
            return file
    sys.exit(f"no lxc.conf of {name} was found")


def values(config: Path, key: str) -> list[str]:
    lines = (line.partition("=") for line in config.read_text().splitlines())
    return [value.strip() for name, _rest, value in lines if name.strip() == key]


def root_of(config: Path) -> tuple[int, int]:
    """User and group on this machine that are root in the container: criu passes a console on as those."""
    found = {"u": 0, "g": 0}
    for line in values(config, "lxc.idmap"):
        kind, inside, here, _rest = line.split()
        if inside == "0":
            found[kind] = int(here)
    return found["u"], found["g"]


def new_console(name: str, user: int, group: int) -> tuple[int, str]:
    """A console, and its path. Who reads it, so that nobody waits for that, ends when the container has closed it."""
    reader, console = os.openpty()
    os.fchown(console, user, group)
    if (child := os.fork()) == 0:
        # Not liblxc's child: that waits for its own.
        if os.fork() == 0:
            os.setsid()
            os.dup2(reader, 0)
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            os.execv("/bin/cat", [f"vcrecovery-console of {name}"])
        os._exit(0)
    os.waitpid(child, 0)
    os.close(reader)
    os.set_inheritable(console, True)
    return console, os.ttyname(console)


def leads_out() -> None:
    """Where it came from, the way out led over another secondary; and switches have to learn where it is now."""
    if os.environ["CRTOOLS_SCRIPT_ACTION"] != "post-restore":
        return
    config = Path(os.environ[CONFIG])
    within = ["nsenter", f"--net=/proc/{os.environ['CRTOOLS_INIT_PID']}/ns/net"]
    for version, family in (("ipv4", "-4"), ("ipv6", "-6")):
        for gateway in values(config, f"lxc.net.0.{version}.gateway"):
            run([*within, "ip", family, "route", "replace", "default", "via", gateway])
    for card in values(config, "lxc.net.0.name"):
        for address in values(config, "lxc.net.0.ipv4.address"):
            run([*within, sys.executable, "-I", __file__, "announce", card, address.partition("/")[0]])


def run(command: list[str]) -> None:
    # What fails here, or takes too long, is no reason to give the container up.
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(command, env={**os.environ, "CRTOOLS_SCRIPT_ACTION": ""}, timeout=WITHIN, check=False)


def announce(card: str, address: str) -> None:
    """A gratuitous ARP (RFC 5227, section 3)."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind((card, 0))
        mac, ip, all_of_them = wire.getsockname()[4], socket.inet_aton(address), b"\xff" * 6
        asks = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + mac + ip + b"\0" * 6 + ip
        wire.send(all_of_them + mac + struct.pack("!H", 0x0806) + asks)


if __name__ == "__main__":
    main(sys.argv[1:])
