"""Programs of another of Debian's releases, unpacked into a cache; not installed. apt proves whose they are."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from .mirror import debian_mirror, proxy_environment
from .run import run

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_TIMEOUT = 300.0


def unpacked(
    cache: Path,
    release: str,
    packages: Sequence[str],
    *,
    with_all: bool,
    add: Callable[[Path, Path], None] = lambda _made, _in_the_end: None,
) -> Path:
    """A folder with `root`, in which their files are; it is made once.

    `with_all`: also those of what they need, the C library among it. `add` puts more into the folder, told where it
    is and where it will be. Raises LabError when they cannot be had.
    """
    cache.mkdir(exist_ok=True)
    cache.chmod(0o755)
    wanted = cache / release
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not wanted.exists():
            scratch = Path(tempfile.mkdtemp(dir=cache, prefix=".unfinished-"))
            try:
                _unpack(release, packages, with_all, scratch / "debs", scratch / "made")
                add(scratch / "made", wanted)
                (scratch / "made").rename(wanted)
            finally:
                shutil.rmtree(scratch)
    return wanted


def _unpack(release: str, packages: Sequence[str], with_all: bool, debs: Path, made: Path) -> None:
    for folder in (debs / "lists/partial", debs / "archives/partial", made / "root"):
        folder.mkdir(parents=True)
    made.chmod(0o755)
    (debs / "status").touch()
    (debs / "sources.list").write_text(f"deb [signed-by={_KEYRING}] {debian_mirror()} {release} main\n")
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
    if with_all:
        found = apt("install", "--yes", "--no-install-recommends", "--print-uris", *packages)
        packages = [line.split()[1].partition("_")[0] for line in found.splitlines() if line.startswith("'")]
    apt("download", *packages)
    for deb in debs.glob("*.deb"):
        run(["dpkg-deb", "--extract", deb, made / "root"], timeout=120)
