"""What keeps the list on a primary current: the part that a hook of the package manager sets off."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from package_trees import STANZA, make_dpkg, make_file

from vcrecovery.excludes.errors import ExcludeError
from vcrecovery.excludes.selection import Selection
from vcrecovery.primary import package_runs
from vcrecovery.primary.__main__ import main
from vcrecovery.primary.refresh import refresh
from vcrecovery.primary.settings import Settings, read_settings

CHECKOUT = Path(__file__).resolve().parents[3]


class Primary:
    """A root, its settings, and how often the sync was told."""

    def __init__(self, folder: Path) -> None:
        self.root = make_dpkg(folder / "root", {"firmware-x": [b"/lib/firmware/x"], "bash": [b"/bin/bash", b"/lib/a"]})
        for path in (b"/lib/firmware/x", b"/bin/bash", b"/lib/a"):
            make_file(self.root, path)
        self.lists = {"rsync": str(folder / "exclude.rsync"), "lsyncd": str(folder / "exclude.lsyncd")}
        self.untold = str(folder / "untold")
        self.told = 0

    def refresh(self) -> list[str]:
        settings = Settings(Selection(profile="vm-to-container"), self.lists)
        return refresh(settings, self._tell, self.root, self.untold)

    def _tell(self) -> None:
        self.told += 1

    def lines(self, dialect: str) -> list[str]:
        return Path(self.lists[dialect]).read_text().splitlines()


@pytest.fixture
def primary(tmp_path: Path) -> Primary:
    return Primary(tmp_path)


def test_the_second_run_changes_nothing(primary: Primary) -> None:
    assert primary.refresh() == [primary.lists["lsyncd"], primary.lists["rsync"]]
    assert "/lib/firmware" in primary.lines("lsyncd")
    assert "/lib/firmware/" in primary.lines("rsync")
    assert primary.refresh() == []
    assert primary.told == 1


def test_a_package_that_is_installed_later_is_left_out(primary: Primary) -> None:
    primary.refresh()
    make_file(primary.root, b"/boot/grub/x.mod")
    with (primary.root / "var/lib/dpkg/status").open("a") as status:
        status.write(STANZA.format(name="grub-pc-bin", arch="amd64", state="installed", more=""))
    (primary.root / "var/lib/dpkg/info/grub-pc-bin.list").write_text("/.\n/boot\n/boot/grub\n/boot/grub/x.mod\n")
    assert len(primary.refresh()) == 2
    assert "/boot" in primary.lines("lsyncd")
    assert primary.told == 2


def test_a_file_that_an_administrator_adds_is_sent(primary: Primary) -> None:
    primary.refresh()
    make_file(primary.root, b"/lib/firmware/of-our-own")
    primary.refresh()
    assert "/lib/firmware" not in primary.lines("lsyncd")
    assert "/lib/firmware/x" in primary.lines("lsyncd")


def test_a_damaged_database_leaves_the_list_alone(primary: Primary) -> None:
    primary.refresh()
    before = primary.lines("lsyncd")
    status = primary.root / "var/lib/dpkg/status"
    status.write_bytes(status.read_bytes()[:-10])
    with pytest.raises(ExcludeError, match="truncated"):
        primary.refresh()
    assert primary.lines("lsyncd") == before
    assert primary.told == 1


def test_a_run_that_could_not_tell_the_sync_is_finished_by_the_next(
    primary: Primary, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise OSError("no systemd")

    with monkeypatch.context() as patch:
        patch.setattr(primary, "_tell", fails)
        with pytest.raises(OSError, match="no systemd"):
            primary.refresh()
    assert primary.refresh() == []
    assert primary.told == 1
    assert primary.refresh() == []
    assert primary.told == 1


def test_a_package_run_that_goes_on_is_waited_for(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    hold = (
        "import fcntl,sys; f=open(sys.argv[1],'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as dpkg:
        assert dpkg.stdin is not None
        assert dpkg.stdout is not None
        dpkg.stdout.readline()
        waited: list[float] = []

        def sleep(seconds: float) -> None:
            waited.append(seconds)
            if len(waited) == 3:
                assert dpkg.stdin is not None
                dpkg.stdin.close()
                dpkg.wait(timeout=20)

        clock = iter(range(100))
        assert package_runs.wait_until_idle(50, [str(lock)], lambda: next(clock), sleep)
        assert len(waited) == 3
    assert package_runs.wait_until_idle(0, [str(lock), str(tmp_path / "none")], lambda: 0, sleep)
    with lock.open("w") as mine:
        # One's own lock does not count; the kernel asks for others'.
        fcntl.lockf(mine, fcntl.LOCK_EX)
        assert package_runs.wait_until_idle(0, [str(lock)], lambda: 0, sleep)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "damaged"),
        ('{"exclude": {}}', "damaged"),
        ('{"exclude": {"package": []}, "lists": {}}', "there is no setting 'package'"),
        ('{"exclude": {"packages": "x"}, "lists": {}}', "packages has to be a list"),
        ('{"exclude": {"paths": ["etc"]}, "lists": {}}', "path 'etc' is not absolute"),
        ('{"exclude": {"host_keys": "new"}, "lists": {}}', "host_keys is own or copied"),
    ],
)
def test_damaged_settings_are_named(text: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "sync.json"
    file.write_text(text)
    with pytest.raises(ExcludeError, match=f"^{re.escape(str(file))}.*{re.escape(complaint)}"):
        read_settings(str(file))


def test_a_mistake_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refresh", "--settings", str(tmp_path / "none.json")]) == 1
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "none.json cannot be read (No such file or directory)" in printed


def test_real_dnf_sets_the_mark(tmp_path: Path) -> None:
    """With the hook as the role writes it, but for the place of the mark."""
    variables = yaml.safe_load((CHECKOUT / "roles/primary/vars/main.yml").read_text())
    hook = next(h for h in variables["primary_hooks"]["rpm"] if h["path"].endswith(".action"))
    mark = tmp_path / "mark"
    actions = tmp_path / "actions.d"
    actions.mkdir()
    (actions / "vcrecovery.action").write_text(hook["content"].replace(package_runs.CHANGED, str(mark)))
    (tmp_path / "post-transaction-actions.conf").write_text(f"[main]\nenabled=1\nactiondir={actions}/\n")
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    plugin = Path("/usr/lib/python3/dist-packages/dnf-plugins/post-transaction-actions.py")
    # Debian 12's plugin calls this function by the name that it had in an older libdnf than Debian 12's.
    shim = "import libdnf.conf\nlibdnf.conf.ConfigParser_substitute = libdnf.conf.ConfigParser.substitute\n"
    (plugins / plugin.name).write_text(shim + plugin.read_text())
    config = tmp_path / "dnf.conf"
    config.write_text(
        f"[main]\nplugins=1\npluginconfpath={tmp_path}\npluginpath={plugins}\n"
        f"cachedir={tmp_path}/cache\nlogdir={tmp_path}/log\npersistdir={tmp_path}/persist\nreposdir={tmp_path}/none\n"
    )
    spec = tmp_path / "x.spec"
    spec.write_text(
        "Name: tiny\nVersion: 1\nRelease: 1\nSummary: x\nLicense: MIT\nBuildArch: noarch\n%description\nx\n%files\n"
    )
    build = ["rpmbuild", "-bb", "--define", f"_topdir {tmp_path}/build", str(spec)]
    subprocess.run(build, check=True, capture_output=True, timeout=60)
    package = next((tmp_path / "build/RPMS").rglob("*.rpm"))
    words = ["dnf", "-q", "-y", "-c", str(config), f"--installroot={tmp_path}/root", "--releasever=9", "--nogpgcheck"]
    for verb in (["install", str(package)], ["remove", "tiny"]):
        mark.unlink(missing_ok=True)
        done = subprocess.run([*words, *verb], check=False, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        assert mark.exists()


def test_it_runs_from_the_files_that_the_role_puts_there(tmp_path: Path) -> None:
    """The program needs nothing but what the template of the role lists."""
    template = (CHECKOUT / "roles/primary/templates/program.json.j2").read_text()
    source = CHECKOUT / "controller/src/vcrecovery"
    patterns = re.findall(r"primary_source ~ '/([^']+)'", template)
    assert len(patterns) == 4
    for file in (file for pattern in patterns for file in source.glob(pattern)):
        copy = tmp_path / "vcrecovery" / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    settings = tmp_path / "sync.json"
    lists = {"lsyncd": str(tmp_path / "exclude.lsyncd")}
    settings.write_text(json.dumps({"exclude": {"paths": ["/srv/scratch"]}, "lists": lists}))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/systemctl").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/told\n')
    (tmp_path / "bin/systemctl").chmod(0o755)
    call = f"from vcrecovery.primary.__main__ import main; sys.exit(main(['refresh', '--settings', {str(settings)!r}]))"
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; {call}"],
        env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    assert (done.stderr, done.returncode) == ("", 0)
    assert "/srv/scratch\n" in Path(lists["lsyncd"]).read_text()
    assert "try-restart vcrecovery-sync.service" in (tmp_path / "told").read_text()
