"""The versions of Python and of Ansible that are said to work, beside the locked ones: `make matrix`.

An interpreter that this machine lacks is skipped, and named.
"""

from __future__ import annotations

from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
#: The oldest first; the newest is the locked one's.
CORES = ("2.17", "2.18", "2.19")
LOCK = "requirements-dev.lock"
#: Those that play something, or read what Ansible makes of the collection.
OF_ANSIBLE = (
    "test_roles.py",
    "test_collection.py",
    "test_exclude_list_module.py",
    "test_archive.py",
)
#: Where the interpreter's own system keeps libvirt's binding, which fits the libvirt there; the roles link it, too.
_BINDING = "import libvirt, libvirtmod; print(libvirt.__file__, libvirtmod.__file__)"


def _install(session: nox.Session) -> None:
    """The locked versions, whose hashes hold for every Python."""
    session.install("--quiet", "--require-hashes", "-r", LOCK)
    session.install("--quiet", "--no-deps", "--no-build-isolation", "-e", ".")
    interpreter, binding = f"/usr/bin/python{session.python}", ""
    if Path(interpreter).exists():
        words = (interpreter, "-c", _BINDING)
        binding = str(session.run(*words, silent=True, external=True, success_codes=(0, 1)))
    if ".so" in binding:
        places = session.run(
            "python",
            "-c",
            "import sysconfig; print(sysconfig.get_path('purelib'))",
            silent=True,
        )
        for file in binding.split():
            link = Path(str(places).strip(), Path(file).name)
            link.unlink(missing_ok=True)
            link.symlink_to(file)
    else:
        session.install("--quiet", "libvirt-python")


@nox.session(python=PYTHONS)
def unit(session: nox.Session) -> None:
    """All unit tests on each Python."""
    session.chdir("controller")
    _install(session)
    session.run(
        "pytest",
        "-q",
        "-n",
        "2",
        "--dist",
        "worksteal",
        "-m",
        "not lab",
        *session.posargs,
    )


@nox.session(python=PYTHONS[0])
@nox.parametrize("core", CORES)
def ansible(session: nox.Session, core: str) -> None:
    """Every playbook's syntax, and what unit tests play, on each ansible-core."""
    session.chdir("controller")
    _install(session)
    session.install("--quiet", f"ansible-core=={core}.*")
    session.chdir("..")
    for playbook in (
        "site.yml",
        *sorted(str(path) for path in Path("playbooks").glob("*.yml")),
    ):
        session.run(
            "ansible-playbook",
            "--syntax-check",
            "-i",
            "inventory",
            playbook,
            silent=True,
        )
    session.chdir("controller")
    session.run("pytest", "-q", *(f"tests/unit/{name}" for name in OF_ANSIBLE), *session.posargs)
