"""A CRIU that knows this machine's kernel: Debian's next one, unpacked with its own C library and kept; not installed.

Debian 12's (3.17) knows no vDSO of kernels from 6.14 on, and 4.1 asks for socket options that 6.16 refuses.
"""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from pathlib import Path

from .mirror import debian_mirror, proxy_environment
from .run import run

CACHE = Path("/var/cache/vcrecovery-lab-criu")
_RELEASE = "forky"
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_TIMEOUT = 300.0
_STARTER = """\
#!/bin/sh
here={root}
exec $here/usr/lib64/ld-linux-x86-64.so.2 --library-path $here/usr/lib/x86_64-linux-gnu $here/usr/sbin/criu "$@"
"""


def criu_folder() -> Path:
    """A folder with a program `criu`. apt proves whose packages they are. Raises LabError when they cannot be had."""
    CACHE.mkdir(exist_ok=True)
    CACHE.chmod(0o755)
    wanted = CACHE / _RELEASE
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not wanted.exists():
            scratch = Path(tempfile.mkdtemp(dir=CACHE, prefix=".unfinished-"))
            try:
                _unpack(scratch / "debs", scratch / "made", wanted)
                (scratch / "made").rename(wanted)
            finally:
                shutil.rmtree(scratch)
    return wanted / "bin"


def _unpack(debs: Path, made: Path, in_the_end: Path) -> None:
    for folder in (debs / "lists/partial", debs / "archives/partial", made / "root", made / "bin"):
        folder.mkdir(parents=True)
    made.chmod(0o755)
    (debs / "status").touch()
    (debs / "sources.list").write_text(f"deb [signed-by={_KEYRING}] {debian_mirror()} {_RELEASE} main\n")
    settings = {
        "Dir::Etc::sourcelist": debs / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State::status": debs / "status",
        "Dir::State::lists": debs / "lists",
        "Dir::Cache": debs,
        "Acquire::Languages": "none",
        "APT::Update::Error-Mode": "any",
        "Acquire::Retries": "4",
        "APT::Sandbox::User": "root",
        # Nothing of the machine is changed: another apt may be at work.
        "Debug::NoLocking": "1",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    environment = {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **proxy_environment()}

    def apt(*words: str) -> str:
        start = ["env", f"--chdir={debs}", "apt-get", "-qq", *options]
        return run([*start, *words], timeout=_TIMEOUT, env=environment).stdout

    apt("update")
    found = apt("install", "--yes", "--no-install-recommends", "--print-uris", "criu")
    apt("download", *[line.split()[1].partition("_")[0] for line in found.splitlines() if line.startswith("'")])
    for deb in debs.glob("*.deb"):
        run(["dpkg-deb", "--extract", deb, made / "root"], timeout=120)
    starter = made / "bin/criu"
    starter.write_text(_STARTER.format(root=in_the_end / "root"))
    starter.chmod(0o755)
