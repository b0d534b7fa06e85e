#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0 OR GPL-3.0-or-later
# Apache License 2.0 (see LICENSE) or, as modules of Ansible have to be, at your choice
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
"""The VM of a secondary, on the libvirt host that this runs on."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: secondary_vm
short_description: Makes the VM of a secondary from a cloud image
version_added: 0.1.0
author:
  - The VCRecovery authors (@vcrecovery)
description:
  - Copies a cloud image, gives it a seed for cloud-init, defines the VM in libvirt and starts it. One that is there gets
    what has changed; cores, memory, cards and the seed take effect at its next boot, which is the operator's to choose.
  - A domain of the same name that this module has not made is never touched, nor is a disk of that name.
options:
  domain:
    description: Its name in libvirt.
    type: str
    required: true
  owner:
    description: Whose it is, which makes its UUID another one than that of others of the same name.
    type: str
    required: true
  cores:
    description: Its CPUs.
    type: int
    required: true
  memory:
    description: Bytes.
    type: int
    required: true
  disk:
    description: Bytes. A disk that is smaller grows; none shrinks.
    type: int
    required: true
  standbys_disk:
    description: Bytes of a disk of the standbys' own, with an ext4 file system; 0 for none. Only for a new VM, which keeps it.
    type: int
    default: 0
  image:
    description: The cloud image, qcow2 or raw.
    type: path
    required: true
  network:
    description: The bridge that its card is on.
    type: str
    required: true
  standbys_network:
    description: The bridge of a second card; empty for none.
    type: str
    default: ""
  address:
    description: Its own, in CIDR notation.
    type: str
    required: true
  gateway:
    description: Its gateway; empty for none.
    type: str
    default: ""
  name_servers:
    description: Its name servers.
    type: list
    elements: str
    default: []
  root_keys:
    description: Public SSH keys that may log in as root.
    type: list
    elements: str
    required: true
  folder:
    description: Where its disks lie.
    type: path
    default: /var/lib/libvirt/images
  accelerator:
    description: V(auto) is V(kvm) where the host has it, else V(qemu), which emulates.
    type: str
    choices: [auto, kvm, qemu]
    default: auto
  autostart:
    description: Whether libvirt starts it with the host.
    type: bool
    default: true
attributes:
  check_mode:
    description: Can run in check mode.
    support: full
"""

EXAMPLES = r"""
- name: Make the VM of sec1
  vcrecovery.standby.secondary_vm:
    domain: sec1
    owner: hv2
    cores: 2
    memory: 4294967296
    disk: 42949672960
    image: /var/lib/libvirt/images/debian-12-genericcloud-amd64.qcow2
    network: br0
    address: 192.0.2.20/24
    root_keys: ["{{ lookup('file', '~/.ssh/id_ed25519.pub') }}"]
"""

RETURN = r"""
host_key:
  description: The public key that its SSH server shows. Missing in check mode, before there is one.
  type: str
  returned: when there is one
done:
  description: What was done, or in check mode would be.
  type: list
  elements: str
  returned: always
next_boot:
  description: What it still has otherwise, until its next boot.
  type: list
  elements: str
  returned: always
"""

import dataclasses
import json
import os
import shutil
import tempfile
import xml.etree.ElementTree as ET

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.vcrecovery.standby.plugins.module_utils.machines.definition import definition, signature_in
from ansible_collections.vcrecovery.standby.plugins.module_utils.machines.machine import STANDBYS_CARD, Machine
from ansible_collections.vcrecovery.standby.plugins.module_utils.machines.seed import Seed, seed_disk, seed_files

#: Seconds for a question to libvirt, and for the copy of an image.
_QUESTION = 60
_COPY = 3600
#: libvirt's memory is counted in units of this.
_KIB = 1024


def size(count):
    return f"{count / (1 << 30):g} GiB"


def disks_in(xml):
    """The files of a definition's disks."""
    return [source.get("file") for source in ET.fromstring(xml).findall("devices/disk/source")] if xml else []


class Vm:
    """One VM; what is done to it is remembered in `done`."""

    def __init__(self, module):
        self.module = module
        self.options = module.params
        self.machine = Machine(**{field.name: self.options[field.name] for field in dataclasses.fields(Machine)})
        self.done = []

    def ensure(self):
        if self.module.check_mode and shutil.which("virsh") is None:
            self.done.append("made")
            return
        old = self.ask(["virsh", "dumpxml", "--inactive", "--security-info", self.machine.domain], may_fail=True)
        self.refuse_what_is_not_ours(old)
        # First, so that disks without a domain are known as ours where an earlier run was cut off.
        texts = self.seed()
        self.disk()
        self.standbys(old)
        wanted = definition(self.machine, self.accelerator(), texts)
        if signature_in(old) != signature_in(wanted) or not os.path.exists(self.machine.seed_path):
            self.change("defined", lambda: self.write_seed_and_define(texts, wanted))
        self.autostart()
        if self.state() != "running":
            self.change("started", lambda: self.ask(["virsh", "start", self.machine.domain]))

    def refuse_what_is_not_ours(self, old):
        name = self.machine.domain
        if old and not signature_in(old):
            self.fail("this host has a domain of that name that was not made here", "say another name: vm.domain")
        if old or os.path.exists(self.key_path):
            return
        for path in (self.machine.disk_path, self.machine.standbys_path):
            if os.path.exists(path):
                self.fail(f"{path} is there, and was not made here", "move it away, or say another name: vm.domain")

    @property
    def key_path(self):
        """Of its SSH host key, the file of the private one."""
        return f"{self.machine.folder}/{self.machine.domain}-host-key"

    def disk(self):
        path = self.machine.disk_path
        if not os.path.exists(path):
            if self.state() == "running":
                self.fail(f"{path} is gone, and the VM runs", "save what it has, `virsh destroy` it, run this again")
            if not os.path.exists(self.options["image"]):
                self.fail(f"there is no image {self.options['image']}", "download a cloud image to it")
            self.change("disk copied from the image", self.copy_image)
            return
        found = json.loads(self.ask(["qemu-img", "info", "--force-share", "--output=json", path]))["virtual-size"]
        self.grow(path, "vda", found, "disk", "qcow2")

    def copy_image(self):
        unfinished = f"{self.machine.disk_path}.unfinished"
        self.ask(["qemu-img", "convert", "-O", "qcow2", self.options["image"], unfinished], within=_COPY)
        least = json.loads(self.ask(["qemu-img", "info", "--output=json", unfinished]))["virtual-size"]
        if least > self.options["disk"]:
            os.unlink(unfinished)
            self.fail(f"the image has {size(least)}, more than its disk ({size(self.options['disk'])})", "raise vm.disk")
        self.ask(["qemu-img", "resize", "-q", unfinished, str(self.options["disk"])])
        os.chmod(unfinished, 0o600)
        os.rename(unfinished, self.machine.disk_path)

    def standbys(self, old):
        wanted, path = self.options["standbys_disk"], self.machine.standbys_path
        if not wanted:
            if path in disks_in(old):
                # Without it LXD has no pool from its next boot on.
                self.fail(
                    "it has a disk of the standbys' own, and the plan has none",
                    "put vm.standbys_disk back, or remove the VM and its disks first",
                )
            return
        if not os.path.exists(path):
            if old:
                self.fail("vm.standbys_disk is for a new VM", "leave it out, or remove the VM and its disks first")
            self.change("disk of the standbys made", self.make_standbys)
            return
        self.grow(path, "vdb", os.stat(path).st_size, "standbys_disk", "raw")

    def make_standbys(self):
        unfinished = f"{self.machine.standbys_path}.unfinished"
        with open(unfinished, "wb") as file:
            os.truncate(file.fileno(), self.options["standbys_disk"])
        self.ask(["mkfs.ext4", "-q", "-F", "-m", "0", "-L", STANDBYS_CARD, unfinished], within=_COPY)
        os.chmod(unfinished, 0o600)
        os.rename(unfinished, self.machine.standbys_path)

    def grow(self, path, target, found, key, kind):
        wanted = self.options[key]
        if wanted < found:
            have = f"{found // (1 << 20)}MiB"
            self.fail(f"vm.{key} is {size(wanted)}, and {path} has {have}: a disk does not shrink", f"set it to {have}")
        if wanted == found:
            return
        if self.state() == "running":
            command = ["virsh", "blockresize", self.machine.domain, target, f"{wanted}B"]
        else:
            command = ["qemu-img", "resize", "-q", "-f", kind, path, str(wanted)]
        self.change(f"{key} grown to {size(wanted)}", lambda: self.ask(command))

    def seed(self):
        """The files for cloud-init, by the VM's host key."""
        private = self.key_path
        if not os.path.exists(private):
            if self.module.check_mode:
                return self.seed_files(("", ""))
            self.ask(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.machine.domain, "-f", private])
        with open(private, encoding="utf-8") as file, open(f"{private}.pub", encoding="utf-8") as public:
            return self.seed_files((file.read(), public.read().strip()))

    def seed_files(self, host_key):
        options = self.options
        return seed_files(
            self.machine,
            Seed(
                host_name=self.machine.domain,
                address=options["address"],
                gateway=options["gateway"],
                name_servers=tuple(options["name_servers"]),
                root_keys=tuple(options["root_keys"]),
                host_key=host_key,
            ),
        )

    def write_seed_and_define(self, texts, wanted):
        """In this order: what is defined is whole."""
        unfinished = f"{self.machine.seed_path}.unfinished"
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(seed_disk(texts))
        # A VM that runs keeps the old one open, and finds this one at its next boot.
        os.rename(unfinished, self.machine.seed_path)
        with tempfile.TemporaryDirectory(dir=self.module.tmpdir) as folder:
            xml = os.path.join(folder, "domain.xml")
            with open(xml, "w", encoding="utf-8") as file:
                file.write(wanted)
            self.ask(["virsh", "define", xml])

    def autostart(self):
        found = self.ask(["virsh", "dominfo", self.machine.domain], may_fail=True)
        is_on = any(line.split() == ["Autostart:", "enable"] for line in found.splitlines())
        wanted = self.options["autostart"]
        if is_on != wanted:
            words = ["virsh", "autostart", self.machine.domain, *([] if wanted else ["--disable"])]
            self.change("starts with the host" if wanted else "starts with the host no more", lambda: self.ask(words))

    def next_boot(self):
        """What a running one has otherwise than its definition."""
        if self.state() != "running":
            return []
        live = ET.fromstring(self.ask(["virsh", "dumpxml", self.machine.domain]))
        memory, cores = int(live.findtext("memory")) * _KIB, int(live.findtext("vcpu"))
        found = []
        if cores != self.options["cores"]:
            found.append(f"{self.options['cores']} cores instead of {cores}")
        if memory != self.options["memory"]:
            found.append(f"{size(self.options['memory'])} of memory instead of {size(memory)}")
        cards = len(live.findall("devices/interface"))
        if cards != len(self.machine.cards):
            found.append(f"{len(self.machine.cards)} cards instead of {cards}")
        return found

    def host_key(self):
        public = f"{self.key_path}.pub"
        if not os.path.exists(public):
            return {}
        with open(public, encoding="utf-8") as file:
            return {"host_key": " ".join(file.read().split()[:2])}

    def state(self):
        return self.ask(["virsh", "domstate", self.machine.domain], may_fail=True).strip()

    def accelerator(self):
        chosen = self.options["accelerator"]
        if chosen != "auto":
            return chosen
        return "kvm" if os.path.exists("/dev/kvm") else "qemu"

    def change(self, what, act):
        self.done.append(what)
        if not self.module.check_mode:
            act()

    def ask(self, command, within=_QUESTION, may_fail=False):
        words = ["timeout", "--kill-after=5", str(within), *command]
        environment = {"LC_ALL": "C", "LIBVIRT_DEFAULT_URI": "qemu:///system"}
        code, printed, errors = self.module.run_command(words, environ_update=environment)
        if code and not may_fail:
            why = f"did not end within {within} s" if code in (124, 137) else (errors or printed).strip()
            self.fail(f"`{' '.join(command[:2])}`: {why}", "see it there, and run this again")
        return "" if code else printed

    def fail(self, what, way_out):
        self.module.fail_json(msg=f"{self.machine.domain}: {what}; {way_out}", done=self.done)


def main():
    module = AnsibleModule(
        argument_spec={
            "domain": {"type": "str", "required": True},
            "owner": {"type": "str", "required": True},
            "cores": {"type": "int", "required": True},
            "memory": {"type": "int", "required": True},
            "disk": {"type": "int", "required": True},
            "standbys_disk": {"type": "int", "default": 0},
            "image": {"type": "path", "required": True},
            "network": {"type": "str", "required": True},
            "standbys_network": {"type": "str", "default": ""},
            "address": {"type": "str", "required": True},
            "gateway": {"type": "str", "default": ""},
            "name_servers": {"type": "list", "elements": "str", "default": []},
            "root_keys": {"type": "list", "elements": "str", "required": True, "no_log": False},
            "folder": {"type": "path", "default": "/var/lib/libvirt/images"},
            "accelerator": {"type": "str", "choices": ["auto", "kvm", "qemu"], "default": "auto"},
            "autostart": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    vm = Vm(module)
    vm.ensure()
    pending = vm.next_boot() if shutil.which("virsh") else []
    module.exit_json(changed=bool(vm.done), done=vm.done, next_boot=pending, **vm.host_key())


if __name__ == "__main__":
    main()
