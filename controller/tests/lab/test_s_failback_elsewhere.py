"""A failback, and a rollback, whose controller is on another machine than LXD: that is real, over HTTPS with a
certificate that it restricts, as are the sshd with the receiver beside it, and rsync. The VM is a process that runs the
real program.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd.resources import RECEIVER_KEY
from vcrecovery.errors import ExitCode
from vcrecovery.plan.load import load_plan
from vcrecovery.standby.container import KEEPING_KEY, ROLE_KEY, STANDBY, apply
from vcrecovery.transfer.failback_orders import ORDER_KEY
from vcrecovery.transfer.sessions import ENDED_BY_THEMSELVES
from vcrecovery_lab.busybox_tree import give_away, plant
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.pair import process
from vcrecovery_lab.pair.primary import Primary
from vcrecovery_lab.pair.receiver import Receiver, known_host
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.run import run
from vcrecovery_lab.secondary_vm.certificate import make_certificate

from .process_vm import BOOT, ProcessVm
from .small_site import INIT, PORT, SERVE, SmallSite, page_at, started
from .waiting import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

WEB = "web"
OF_THE_STANDBY, OF_THE_VM = "written by the standby", "written by the VM"
WANTS = "etc/systemd/system/basic.target.wants"


class ElsewhereSite(SmallSite):
    """`state` is the controller's; what is on the secondary's disk, such as `there`, it never sees."""

    def __init__(self, folder: Path) -> None:
        # A control socket of ssh has a short path, and nobody else may write where its keys are.
        self.place = Path(tempfile.mkdtemp(prefix="vcre-", dir="/run"))
        self.there, self.vm, self.tree = folder / "there", self.place / "vm", self.place / "tree"
        self.port = free_port()
        self.certificate, self.key = make_certificate(folder, "vcrt-elsewhere")
        super().__init__(folder, [WEB])
        for part in (self.place / "sec1", self.vm, self.vm / "bin", self.there):
            part.mkdir(parents=True)
        self.receiver = Receiver(self.place / "sec1", self.there, self.vm / "sync_key", WEB)
        self._lay_out_the_vm()
        self.host = ProcessVm(self.vm)

    def write_plan(self, **services: dict[str, Any]) -> None:
        super().write_plan(**services)
        del self.data["hypervisors"]["hv1"]["fence"]
        self.data["secondaries"]["sec1"]["lxd"] = {
            "url": f"https://127.0.0.1:{self.port}",
            "certificate": str(self.certificate),
            "key": str(self.key),
            "server_certificate": str(self.lxd.folder / "server.crt"),
        }
        self.save_plan()

    def _lay_out_the_vm(self) -> None:
        plant(self.tree, {"sbin/init": INIT.format(serve=SERVE)}, ["www", WANTS])
        (self.tree / "www/index.html").write_text(f"{OF_THE_VM}\n")
        (self.tree / WANTS / "vcrecovery-who-serves.service").symlink_to("/etc/systemd/system/is-not-there")
        Primary(self.vm, self.tree, self.receiver.port, 0.5, 1.0)
        (self.vm / "known_hosts").write_text(known_host(self.receiver))
        address = f"{self.primary(WEB)}:{PORT}"
        boot = BOOT.format(folder=self.vm, source=CHECKOUT / "controller/src", address=address, tree=self.tree)
        for path, text in ((self.vm / "boot", boot), (self.vm / "bin/systemctl", "#!/bin/sh\n")):
            path.write_text(text)
            path.chmod(0o755)

    def start(self) -> None:
        super().start()
        self.lxd.lxc("config", "set", "core.https_address", f"127.0.0.1:{self.port}")
        self.trust()
        self.receiver.start()

    def trust(self) -> None:
        self.lxd.trust(self.certificate, "vcrt-elsewhere")

    def make_standbys(self) -> None:
        self.apply()
        self.fill(WEB)

    def apply(self) -> list[str]:
        """As the role does it on the secondary, whose plan names LXD's socket; what that changed."""
        sec1 = {**self.data["secondaries"]["sec1"], "lxd": str(self.lxd.socket)}
        plan = self.folder / "there.yml"
        plan.write_text(yaml.safe_dump(self.data | {"state_dir": str(self.there), "secondaries": {"sec1": sec1}}))
        return apply(load_plan(plan), WEB, self.lxd.server, SystemClock()).made

    def fill(self, name: str, serve: str = SERVE) -> None:
        super().fill(name, serve)
        top = self.rootfs(name)
        (top / WANTS).mkdir(parents=True, exist_ok=True)
        unit = top / WANTS / "vcrecovery-who-serves.service"
        if not unit.is_symlink():
            unit.symlink_to("/etc/systemd/system/is-not-there")
        give_away(top)

    def calls(self, *words: str, seen: str = "-") -> subprocess.CompletedProcess[str]:
        """What the controller's `vcrecovery` says."""
        program = [sys.executable, str(Path(__file__).with_name("elsewhere_program.py")), str(self.vm), seen]
        return run([*program, *words, "--plan", str(self.plan)], timeout=150, check=False)

    def goes_on_although_killed(self, *words: str) -> list[str]:
        """Whoever calls is killed at each place that there is, once. What the places were."""
        seen = self.folder / f"seen-{words[0]}"
        seen.unlink(missing_ok=True)
        for _ in range(100):
            done = self.calls(*words, seen=str(seen))
            assert len(self.serving) <= 1, self.serving
            if done.returncode != -9:
                break
            self.writes_if_it_runs(seen)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return seen.read_text().splitlines()

    def writes_if_it_runs(self, seen: Path) -> None:
        """The standby, after each kill: all of that is to be in the VM in the end."""
        if self.instance(WEB).running:
            line = seen.read_text().splitlines()[-1].replace("'", "")
            self.lxd.lxc("exec", WEB, "--", "/bin/busybox", "sh", "-c", f"echo '{line}' >>/www/log")
            with (self.folder / "written").open("a") as written:
                written.write(f"{line}\n")

    def is_served_by_its_standby(self) -> None:
        done = self.calls("failover", WEB, "--force")
        assert done.returncode == 0, (done.stdout, done.stderr)
        self.lxd.lxc("exec", WEB, "--", "/bin/busybox", "sh", "-c", f"echo {OF_THE_STANDBY} >/www/index.html")
        assert self.page(WEB) == OF_THE_STANDBY

    @property
    def serving(self) -> list[str]:
        """The sides that answer at this moment."""
        sides = {"vm": self.primary(WEB), "standby": self.address(WEB)}
        return [side for side, address in sides.items() if page_at(address) is not None]

    @property
    def config(self) -> Mapping[str, str]:
        return self.instance(WEB).config

    def back(self) -> None:
        self.host.destroy("")
        super().back()
        for name in self.lxd.server.snapshots(WEB):
            self.lxd.server.delete_snapshot(WEB, name, 60)

    def close(self) -> None:
        try:
            self.host.destroy("")
            self.receiver.stop()
            wait_for(lambda: not process.kill(process.having(self.place)), "the end of the sessions")
        finally:
            shutil.rmtree(self.place, ignore_errors=True)
            super().close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ElsewhereSite]:
    with started(ElsewhereSite(tmp_path_factory.mktemp("elsewhere"))) as site:
        yield site


@pytest.fixture
def site(made: ElsewhereSite) -> Iterator[ElsewhereSite]:
    """Its standby serves, since its VM is off."""
    made.is_served_by_its_standby()
    yield made
    made.back()


def test_there_and_back_and_back_again(site: ElsewhereSite) -> None:
    done = site.calls("failback", WEB)
    console = (site.vm / "console").read_text()
    assert done.returncode == 0, (done.stdout, done.stderr, console)
    assert "web: protected: its standby has everything" in done.stdout
    assert site.page(WEB) == OF_THE_STANDBY
    assert (site.serving, site.address_in_dns(WEB)) == (["vm"], [site.primary(WEB)])
    assert (site.config[ROLE_KEY], KEEPING_KEY in site.config, ORDER_KEY in site.config) == (STANDBY, False, False)
    assert "nothing to do: its primary serves" in site.calls("failback", WEB).stdout

    (site.tree / "www/index.html").write_text(f"{OF_THE_VM}\n")
    page = site.rootfs(WEB) / "www/index.html"
    wait_for(lambda: page.read_text() == f"{OF_THE_VM}\n", "the VM's file in its standby")
    refused = site.calls("rollback", WEB)
    assert refused.returncode == 3
    assert "what was written since is not counted: its secondary is another machine" in refused.stdout
    assert json.loads(site.calls("rollback", WEB, "--json").stdout)["changed"] is None
    begun = SystemClock().steady()
    done = site.calls("rollback", WEB, "--drop-new-writes", WEB)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert SystemClock().steady() - begun > ENDED_BY_THEMSELVES
    assert (site.serving, site.page(WEB)) == (["standby"], OF_THE_STANDBY)
    assert "removed" in site.calls("commit", WEB).stdout


@pytest.mark.at_length
def test_killed_at_each_place_the_same_words_go_on(site: ElsewhereSite) -> None:
    places = site.goes_on_although_killed("failback", WEB)
    for step in ("confirm", "boot", "copy", "stop", "last copy", "hand over", "probe", "switch", "verify", "keep"):
        assert {f"begun: {step}", f"done: {step}"} <= set(places), places
    assert any("'order': '2 last'" in place for place in places), places
    assert (site.serving, site.page(WEB)) == (["vm"], OF_THE_STANDBY)
    assert (site.tree / "www/log").read_text() == (site.folder / "written").read_text()
    assert (site.config[ROLE_KEY], KEEPING_KEY in site.config, ORDER_KEY in site.config) == (STANDBY, False, False)

    places = site.goes_on_although_killed("rollback", WEB, "--drop-new-writes", WEB)
    assert {"begun: restore", "done: restore", "begun: start", "done: start"} <= set(places), places
    assert any(place.startswith("before the restore of web from snapshot") for place in places), places
    assert (site.serving, site.page(WEB)) == (["standby"], OF_THE_STANDBY)


def another_system(site: ElsewhereSite) -> None:
    release = site.rootfs(WEB) / "usr/lib/os-release"
    release.parent.mkdir(parents=True)
    release.write_text('ID="rocky"\nVERSION_ID="9.4"\n')


def nobody_asks(site: ElsewhereSite) -> None:
    (site.rootfs(WEB) / WANTS / "vcrecovery-who-serves.service").unlink()


def an_older_receiver(site: ElsewhereSite) -> None:
    site.lxd.lxc("project", "unset", "default", RECEIVER_KEY)


def no_trust(site: ElsewhereSite) -> None:
    (trusted,) = json.loads(site.lxd.lxc("config", "trust", "list", "--format", "json"))
    site.lxd.lxc("config", "trust", "remove", trusted["fingerprint"])


def no_listener(site: ElsewhereSite) -> None:
    site.lxd.lxc("config", "unset", "core.https_address")


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (an_older_receiver, "the receiver on secondary sec1 is of an older version"),
        (no_trust, "does not know the certificate of this controller; add it there"),
        (no_listener, "does not answer: [Errno 111] Connection refused; start it"),
        (nobody_asks, "its VM does not ask at its boot who serves"),
        (another_system, "the VM of web runs debian 12 x86_64, its standby rocky 9.4 x86_64: nothing was copied"),
    ],
)
def test_what_is_wrong_is_one_line(site: ElsewhereSite, wrong: Callable[[ElsewhereSite], None], line: str) -> None:
    wrong(site)
    try:
        done = site.calls("failback", WEB)
        checked = site.calls("plan", "check", "--online")
    finally:
        site.lxd.lxc("config", "set", "core.https_address", f"127.0.0.1:{site.port}")
        if wrong is no_trust:
            site.trust()
        # Also beside a standby that serves.
        assert site.apply() == (
            ["controllers elsewhere told what the receiver can"] if wrong is an_older_receiver else []
        )
        shutil.rmtree(site.rootfs(WEB) / "usr/lib", ignore_errors=True)
    said = [text for text in (done.stdout + done.stderr).splitlines() if line in text]
    assert said, (done.stdout, done.stderr)
    # An LXD that does not answer is not what forbids it.
    assert done.returncode == (ExitCode.EXTERNAL if wrong in (no_trust, no_listener) else ExitCode.REFUSED), done
    assert "Traceback" not in done.stderr
    assert (line in checked.stdout + checked.stderr) == (wrong in (an_older_receiver, no_trust, no_listener)), checked
    assert site.serving == ["standby"]
    assert site.address_in_dns(WEB) == [site.address(WEB)]
