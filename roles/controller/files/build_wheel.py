"""build_wheel.py SOURCE CACHE: builds the program's wheel once for each content of SOURCE, and prints where it is.

Runs where Ansible runs, whose Python may have no pip, and where the collection may be read-only: everything is made in
a temporary folder beside the wheels of CACHE. The build backend is the one locked in SOURCE/requirements-build.lock.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

#: Seconds for each of the commands below, of which one downloads about 1 MB.
TIMEOUT = 300
LOCK = "requirements-build.lock"


def main() -> None:
    source, cache = Path(sys.argv[1]), Path(sys.argv[2])
    kept = cache / fingerprint(source)
    if not kept.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            made = build(source, Path(scratch))
            try:
                made.rename(kept)
            except OSError:  # another run was quicker
                if not kept.is_dir():
                    raise
    (wheel,) = kept.glob("*.whl")
    sys.stdout.write(f"{wheel}\n")


def fingerprint(source: Path) -> str:
    """Of all that the wheel is made of, and by which backend."""
    parts = [source / name for name in ("LICENSE", "README.md", "man/vcrecovery.1", "pyproject.toml", LOCK)]
    parts += sorted(path for path in (source / "src").rglob("*") if path.is_file() and path.suffix != ".pyc")
    found = hashlib.sha256()
    for path in parts:
        content = path.read_bytes()
        found.update(f"{path.relative_to(source)} {len(content)}\n".encode() + content)
    return found.hexdigest()[:16]


def build(source: Path, scratch: Path) -> Path:
    backend, wheels = scratch / "backend", scratch / "wheels"
    wanted = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(source / LOCK)]
    run([*pip(scratch), "install", "--quiet", "--disable-pip-version-check", "--target", str(backend), *wanted])
    # By its module: hooks of the installation that runs Ansible are none of its business.
    run(
        [sys.executable, "-B", "-m", "hatchling", "build", "--target", "wheel", "--directory", str(wheels)],
        cwd=source,
        env={**os.environ, "PYTHONPATH": str(backend)},
    )
    return wheels


def pip(scratch: Path) -> list[str]:
    """pip of this Python, else of an environment of its own."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if importlib.util.find_spec("ensurepip"):
        run([sys.executable, "-m", "venv", str(scratch / "venv")])
        return [str(scratch / "venv/bin/python"), "-m", "pip"]
    raise BuildError(
        f"{sys.executable} has neither pip nor ensurepip to fetch the build backend with: install either (Debian: "
        "python3-venv), or let controller_package name a wheel of the program"
    )


class BuildError(Exception):
    """One line for whoever runs Ansible."""


def run(argv: list[str], **options: object) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT, check=False, **options)
    except subprocess.TimeoutExpired:
        raise BuildError(f"{' '.join(argv[:4])} took over {TIMEOUT} s") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
        raise BuildError(f"{' '.join(argv[:4])}: {' / '.join(said)}")


if __name__ == "__main__":
    try:
        main()
    except (BuildError, OSError) as error:
        sys.exit(f"build_wheel.py: {error}")
