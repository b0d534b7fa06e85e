"""What needs environments of its own: `make matrix`, `make sbom` and `make audit`.

The matrix is the versions of Python and of Ansible that are said to work, beside the locked ones. An interpreter that
this machine lacks is skipped, and named.
"""

from __future__ import annotations

import json
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ("unit", "ansible")

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
#: The oldest first, with the oldest Python that it has in common with the others; 2.19 is the locked one's.
CORES = {"2.17": "3.11", "2.18": "3.11", "2.19": "3.11", "2.20": "3.12", "2.21": "3.12"}
LOCK = "requirements-dev.lock"
#: What the roles install on a controller: always, and where the plan asks for it.
INSTALLED = tuple(f"controller/requirements{part}.lock" for part in ("", "-notify", "-report"))
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


@nox.session
@nox.parametrize("python,core", [(python, core) for core, python in CORES.items()])
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


@nox.session
def sbom(session: nox.Session) -> None:
    """What is installed on a controller, with its licences, as CycloneDX."""
    session.install("--quiet", "cyclonedx-bom==7.5.0")
    bill, inner = Path("dist/sbom.cdx.json"), Path(session.create_tmp()).resolve() / "installed"
    bill.parent.mkdir(exist_ok=True)
    # Without pip: it is not part of what is installed.
    session.run("python", "-m", "venv", "--clear", "--without-pip", str(inner), silent=True)
    python = str(inner / "bin/python")
    locks = [word for lock in INSTALLED for word in ("-r", lock)]
    session.run("pip", "--python", python, "install", "--quiet", "--require-hashes", *locks)
    session.run(
        *("cyclonedx-py", "environment", "--pyproject", "controller/pyproject.toml"),
        *("--output-reproducible", "-o", str(bill), python),
        silent=True,
    )
    session.log(f"{bill}: {len(json.loads(bill.read_text())['components'])} packages")


@nox.session
def audit(session: nox.Session) -> None:
    """Known vulnerabilities of the locked versions, as PyPI has them. What it says nothing of is not audited."""
    session.install("--quiet", "pip-audit==2.10.1")
    found, wrong = Path(session.create_tmp()).resolve() / "audit.json", []
    for lock in (*INSTALLED, "controller/requirements-build.lock"):
        found.unlink(missing_ok=True)
        words = ("pip-audit", "--disable-pip", "--require-hashes", "--progress-spinner=off", "-f", "json")
        session.run(*words, "-o", str(found), "-r", lock, silent=True, success_codes=(0, 1))
        packages = json.loads(found.read_text())["dependencies"] if found.exists() else []
        unknown = [package["name"] for package in packages if "skip_reason" in package]
        known = {p["name"]: [v["id"] for v in p["vulns"]] for p in packages if p.get("vulns")}
        wrong += [f"{lock}: {name}: {', '.join(ids)}" for name, ids in known.items()]
        if unknown or not packages:
            few = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
            wrong.append(f"{lock}: not audited: {len(unknown)} of {len(packages)} packages ({few or 'no answer'})")
    if wrong:
        session.error("\n".join(["", *wrong]))
    session.log("no known vulnerability in what is installed")
