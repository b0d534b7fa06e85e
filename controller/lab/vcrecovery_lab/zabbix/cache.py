"""What a stack is started from: programs unpacked, and a database with Zabbix's schema and data; made once and kept."""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from vcrecovery_lab.progress import Progress
from vcrecovery_lab.run import LabError, run

from . import packages
from .database import Database
from .process import USER

#: Not below the image's cache: that is emptied for each new image.
DEFAULT_CACHE = Path("/var/cache/vcrecovery-lab-zabbix")
_PROGRAMS = tuple(Path(__file__).with_name(name) for name in ("cache.py", "packages.py", "database.py"))
_UNFINISHED = ".unfinished-"
_IN_USE = "in-use"
_CONFIGURED = "const CONFIG_FILE_PATH = '/etc/zabbix/zabbix.conf.php';"
#: The page's and the API's settings. The place of the database comes with the process.
_SETTINGS = """<?php
$DB['TYPE'] = 'POSTGRESQL';
$DB['SERVER'] = getenv('VCRLAB_DATABASE');
$DB['PORT'] = '5432';
$DB['DATABASE'] = 'zabbix';
$DB['USER'] = 'zabbix';
$DB['PASSWORD'] = '';
$DB['SCHEMA'] = '';
$DB['ENCRYPTION'] = false;
$DB['DOUBLE_IEEE754'] = true;
$ZBX_SERVER = '127.0.0.1';
$ZBX_SERVER_PORT = getenv('VCRLAB_TRAPPER');
$ZBX_SERVER_NAME = 'lab';
$IMAGE_FORMAT_DEFAULT = IMAGE_FORMAT_PNG;
"""


@dataclass(frozen=True)
class Installation:
    """A version of Zabbix in the cache; nothing in it is ever changed."""

    version: str
    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def data(self) -> Path:
        """The database's folder, to be copied."""
        return self.folder / "data"

    @property
    def pages(self) -> Path:
        """The PHP application: the API, too."""
        return self.root / "usr/share/zabbix"

    def program(self, name: str) -> Path:
        """LabError when no package brought it."""
        for folder in ("usr/bin", "usr/sbin", "usr/lib/postgresql/15/bin"):
            if (self.root / folder / name).exists():
                return self.root / folder / name
        raise LabError(f"Zabbix {self.version}: the packages hold no {name} (remove {self.folder} to fetch them anew)")

    @property
    def env(self) -> dict[str, str]:
        """What its programs need to find its libraries."""
        folders = sorted(map(str, (*self.root.glob("usr/lib/*-linux-gnu"), *self.root.glob("lib/*-linux-gnu"))))
        return {"LD_LIBRARY_PATH": ":".join(folders)}

    @property
    def locales(self) -> Path:
        return self.folder / "locales"

    @property
    def php(self) -> list[str | Path]:
        """The interpreter with the extensions that the application needs."""
        (extensions,) = (file.parent for file in self.root.glob("usr/lib/php/*/pgsql.so"))
        loaded = (
            "sockets", "ctype", "gettext", "pgsql", "gd", "mbstring", "bcmath", "dom", "simplexml", "xmlreader",
            "xmlwriter",
        )  # fmt: skip
        settings = [f"extension_dir={extensions}", "zend_extension=opcache", "opcache.enable_cli=1"]
        settings += [f"extension={name}" for name in loaded if (extensions / f"{name}.so").exists()]
        return [self.program("php8.2"), "-n", *(word for setting in settings for word in ("-d", setting))]


@contextmanager
def installation(version: str, progress: Progress, cache: Path = DEFAULT_CACHE) -> Iterator[Installation]:
    """From the cache, or made now: about 20 s. One process at a time makes it; the others wait.

    It is not removed while the block runs. Raises LabError when it cannot be made.
    """
    if version not in packages.RELEASES:
        raise LabError(f"Zabbix {version}: there is none; {' and '.join(packages.RELEASES)} are there")
    if os.geteuid() != 0:
        raise LabError(f"Zabbix {version}: run as root: its programs run as {USER}")
    cache.mkdir(parents=True, exist_ok=True)
    recipe = hashlib.sha256(b"\0".join(program.read_bytes() for program in _PROGRAMS)).hexdigest()[:12]
    folder = cache / f"{version}-{recipe}"
    with ExitStack() as use:
        with _locked(cache / f"{version}.lock", version, progress):
            if not folder.exists():
                _remove_unused(cache, version)
                _make(version, folder, progress)
            fcntl.flock(use.enter_context((folder / _IN_USE).open()), fcntl.LOCK_SH)
        yield Installation(version, folder)


def _remove_unused(cache: Path, version: str) -> None:
    """What other recipes made, and what was left unfinished."""
    for folder in (*cache.glob(f"{_UNFINISHED}{version}-*"), *cache.glob(f"{version}-*")):
        with contextlib.suppress(BlockingIOError), (folder / _IN_USE).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)


def _make(version: str, folder: Path, progress: Progress) -> None:
    build = Path(tempfile.mkdtemp(prefix=f"{_UNFINISHED}{version}-", dir=folder.parent))
    build.chmod(0o755)
    try:
        _build(Installation(version, build), folder, progress)
    except BaseException:
        shutil.rmtree(build, ignore_errors=True)
        raise
    (build / _IN_USE).touch()
    build.rename(folder)


def _build(made: Installation, destination: Path, progress: Progress) -> None:
    packages.unpack(made.version, made.folder, progress)
    shutil.rmtree(made.folder / "debs")
    (made.folder / "settings.php").write_text(_SETTINGS)
    config = made.pages / "include/classes/core/CConfigFile.php"
    text = config.read_text()
    if _CONFIGURED not in text:
        raise LabError(f"Zabbix {made.version}: {config.name} reads its settings from another place than known")
    config.write_text(text.replace("/etc/zabbix/zabbix.conf.php", str(destination / "settings.php")))
    # Without it each page and each part of it complains.
    made.locales.mkdir()
    run(["localedef", "-i", "en_US", "-f", "UTF-8", made.locales / "en_US.UTF-8"], timeout=120)
    run_folder = made.folder / "run"
    run_folder.mkdir()
    shutil.chown(run_folder, USER)
    database = Database(made.program("postgres").parent, made.env, made.data, run_folder)
    with progress(f"Zabbix {made.version}: the database's schema and data (about 15 s)"):
        database.create()
        database.start()
        try:
            database.ask("create role zabbix login; create database zabbix owner zabbix", database="postgres")
            for name in ("schema", "images", "data"):
                with gzip.open(made.root / f"usr/share/zabbix-server-pgsql/{name}.sql.gz", "rt") as statements:
                    database.ask(statements.read(), user="zabbix", timeout=600)
            # The stock host asks an agent that is not ours. Without statistics each new trigger takes half a second.
            database.ask("update hosts set status = 1 where host = 'Zabbix server'; analyze; checkpoint")
        finally:
            database.stop()
    shutil.rmtree(run_folder)


@contextmanager
def _locked(file: Path, version: str, progress: Progress) -> Iterator[None]:
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress(f"Zabbix {version}: waiting for another process that prepares it"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield
