"""Zabbix, PostgreSQL and PHP out of Debian's packages, unpacked into a folder.

Nothing is installed: no service starts, and what this machine has or will have of them stays as it is. apt resolves
the dependencies with lists of its own, so that backports need not be among this machine's sources, and as if nothing
was installed, so that what is unpacked hangs on nothing that is removed later. Only the C library is this machine's.
"""

from __future__ import annotations

from pathlib import Path

from vcrecovery_lab.mirror import debian_mirror, proxy_environment
from vcrecovery_lab.progress import Progress
from vcrecovery_lab.run import LabError, run

#: The release that holds each version.
RELEASES = {"7.0": "bookworm-backports", "6.0": "bookworm"}
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_ZABBIX = ("zabbix-server-pgsql", "zabbix-agent")
_OTHERS = (
    "postgresql-15", "postgresql-client-15",
    "php8.2-cli", "php8.2-common", "php8.2-pgsql", "php8.2-gd", "php8.2-mbstring", "php8.2-bcmath", "php8.2-xml",
    "php8.2-opcache", "libevent-extra-2.1-7", "libevent-pthreads-2.1-7",
)  # fmt: skip
#: Never loaded here: PostgreSQL's compiler of queries (25 MB), and Perl.
_UNUSED = ("libllvm14", "libz3-4", "libperl5.36")
#: They belong to the loader, which is this machine's in any case: others next to it do not start.
_OF_THE_MACHINE = ("libc6", "libc-bin", "libc-l10n")
_DOWNLOAD_TIMEOUT = 600.0
#: Of each file; apt waits longer from one to the next.
RETRIES = 4


def unpack(version: str, folder: Path, progress: Progress) -> None:
    """The packages of a version of Zabbix and all libraries that they need, but for the C library, below `folder`.

    Raises LabError when the archive cannot be reached, or this machine is no Debian 12.
    """
    debs, root = folder / "debs", folder / "root"
    try:
        with progress(f"Zabbix {version}: download (about 10 s)"):
            _download(version, debs)
    except LabError as error:
        raise LabError(
            f"the packages of Zabbix {version} were not downloaded: {error} (a Debian 12 with its archive in reach?)"
        ) from error
    root.mkdir()
    with progress(f"Zabbix {version}: unpack (about 4 s)"):
        for deb in sorted(debs.glob("*.deb")):
            run(["dpkg-deb", "--extract", deb, root], timeout=120)


def _download(version: str, debs: Path) -> None:
    apt = _Apt(debs)
    release = RELEASES[version]
    apt.run("apt-get", "update", "-qq")
    zabbix = [apt.exact(name, release) for name in _ZABBIX]
    options = ("-qq", "--yes", "--no-install-recommends", "--print-uris")
    uris = apt.run("apt-get", "install", *options, *zabbix, *_OTHERS)
    names = [line.split()[1].partition("_") for line in uris.splitlines() if line.startswith("'")]
    wanted = {*_ZABBIX, *_OTHERS}
    resolved = [f"{name}={_version(rest)}" for name, _, rest in names if name in wanted or _is_library(name)]
    # Without its dependencies, which are web servers.
    apt.run("apt-get", "download", "-qq", *resolved, apt.exact("zabbix-frontend-php", release))


def _is_library(name: str) -> bool:
    return name.startswith(("lib", "zlib")) and not name.endswith("-perl") and name not in (*_UNUSED, *_OF_THE_MACHINE)


def _version(rest: str) -> str:
    """Of `1%3a6.0.14+dfsg-1+b1_amd64.deb`: the colon is written so in file names."""
    return rest.rpartition("_")[0].replace("%3a", ":")


class _Apt:
    """apt with folders of its own below `folder`, this machine's mirror and proxy, and no package installed."""

    def __init__(self, folder: Path) -> None:
        for name in ("lists/partial", "archives/partial"):
            (folder / name).mkdir(parents=True)
        sources, status = folder / "sources.list", folder / "status"
        status.touch()
        sources.write_text("".join(f"deb [signed-by={_KEYRING}] {source} main\n" for source in _sources()))
        settings = {
            "Dir::Etc::sourcelist": sources,
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::State::status": status,
            "Dir::State::lists": folder / "lists",
            "Dir::Cache": folder,
            "Dir::Cache::pkgcache": "",
            "Dir::Cache::srcpkgcache": "",
            "Acquire::Languages": "none",
            "APT::Update::Error-Mode": "any",
            "Acquire::Retries": str(RETRIES),
            "Acquire::http::Timeout": "30",
            "Acquire::https::Timeout": "30",
            "APT::Sandbox::User": "root",
            # Nothing of the machine is changed: another apt may be at work.
            "Debug::NoLocking": "1",
        }
        options = (word for name, value in settings.items() for word in ("-o", f"{name}={value}"))
        self._folder, self._options = folder, tuple(options)

    def run(self, program: str, command: str, *words: str) -> str:
        env = {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **proxy_environment()}
        start = ("env", f"--chdir={self._folder}", program, command, *self._options)
        return run([*start, *words], timeout=_DOWNLOAD_TIMEOUT, env=env).stdout

    def exact(self, name: str, release: str) -> str:
        """`name=version` of that release. `name/release` would take the dependencies from there, older or not."""
        for line in self.run("apt-cache", "madison", name).splitlines():
            _, version, source = (word.strip() for word in line.split("|"))
            if f" {release}/main " in source:
                return f"{name}={version}"
        raise LabError(f"{release} holds no {name}")


def _sources() -> list[str]:
    """This machine's archives of Debian, and its mirror's backports."""
    fields = "$(ORIGIN)|$(COMPONENT)|$(REPO_URI)|$(CODENAME)"
    targets = run(["apt-get", "indextargets", "--format", fields, "Created-By: Packages"], timeout=30).stdout
    found = {f"{debian_mirror()} bookworm": None, f"{debian_mirror()} bookworm-backports": None}
    for line in targets.splitlines():
        origin, component, address, codename = line.split("|")
        if (origin, component) == ("Debian", "main") and codename.startswith("bookworm"):
            found[f"{address.rstrip('/')} {codename}"] = None
    return list(found)
