"""What makes a machine itself, and what must not run in a standby.

The files below never come from the primary: each standby has its own. The units and generators of units below stay
masked: they belong to a machine with a kernel, disks or network settings of its own (a standby's address is set from
outside, before it boots; its users come from its primary), or, like lsyncd, would do harm. lsyncd above all: a standby
that ran it would send its files to itself. What does not run also leaves a cold standby's boot to its services;
systemd waits for all of its generators before it looks at a single unit.
"""

from __future__ import annotations

from typing import Tuple

#: Paths that hold a machine's identity, its kernel's file systems, or data that lives no longer than a boot.
NEVER_SYNCED = (
    "/dev",
    "/proc",
    "/sys",
    "/run",
    "/tmp",  # noqa: S108
    "/mnt",
    "/media",
    "/lost+found",
    "/swapfile",
    "/swap.img",
    "/etc/hostname",
    "/etc/machine-id",
    "/var/lib/dbus/machine-id",
    "/etc/fstab",
    "/etc/crypttab",
    "/etc/mtab",
    "/etc/resolv.conf",
    "/etc/network/interfaces",
    "/etc/network/interfaces.d",
    "/etc/netplan",
    "/etc/systemd/network",
    "/etc/NetworkManager/system-connections",
    "/etc/sysconfig/network-scripts",
    "/etc/udev/rules.d/70-persistent-net.rules",
    "/etc/vcrecovery",
    "/var/cache/apt/archives",
    "/var/lib/systemd/random-seed",
    "/var/lib/dhcp/dhclient*",  # a DHCP server keeps its leases beside them
)

#: What the name of a sync's btrfs snapshot begins with; a killed sync may leave one on the primary, anywhere.
SNAPSHOT_PREFIX = ".vcrecovery-snapshot-"
HOST_KEYS = "/etc/ssh/ssh_host_*"

MASKED_UNITS = (
    "lsyncd.service",
    "vcrecovery-sync.service",
    "vcrecovery-heartbeat.service",
    "vcrecovery-excludes.service",
    "vcrecovery-excludes.path",
    "vcrecovery-reconcile.service",
    "vcrecovery-reconcile.path",
    "vcrecovery-find-receiver.path",
    "vcrecovery-reconcile.timer",
    "vcrecovery-last-files.service",
    "vcrecovery-who-serves.service",
    "vcrecovery-superseded.service",
    "getty@tty1.service",
    "serial-getty@ttyS0.service",
    "systemd-udevd.service",
    "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket",
    "systemd-udev-trigger.service",
    "systemd-udev-settle.service",
    "systemd-modules-load.service",
    "systemd-timesyncd.service",
    "chrony.service",
    "ntp.service",
    "kdump-tools.service",
    "kexec-load.service",
    "kexec.service",
    "grub-common.service",
    "grub-initrd-fallback.service",
    "qemu-guest-agent.service",
    "fstrim.timer",
    "smartd.service",
    "smartmontools.service",
    "systemd-networkd-wait-online.service",
    "systemd-networkd.service",
    "systemd-networkd.socket",
    "systemd-network-generator.service",
    "NetworkManager-wait-online.service",
    "networking.service",
    "ifupdown-pre.service",
    "ifupdown-wait-online.service",
    "console-getty.service",
    "kmod-static-nodes.service",
    "modprobe@.service",
    "systemd-binfmt.service",
    "systemd-pstore.service",
    "systemd-remount-fs.service",
    "systemd-sysusers.service",
    "systemd-tmpfiles-setup-dev.service",
    "systemd-update-utmp.service",
    "systemd-update-utmp-runlevel.service",
    "proc-sys-fs-binfmt_misc.automount",
    "proc-sys-fs-binfmt_misc.mount",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
)

#: Of disks, consoles and offline updates. Those that make units of services (SysV, PostgreSQL, OpenVPN) are left.
MASKED_GENERATORS = (
    "systemd-bless-boot-generator",
    "systemd-cryptsetup-generator",
    "systemd-fstab-generator",
    "systemd-getty-generator",
    "systemd-gpt-auto-generator",
    "systemd-hibernate-resume-generator",
    "systemd-integritysetup-generator",
    "systemd-run-generator",
    "systemd-system-update-generator",
    "systemd-tpm2-generator",
    "systemd-veritysetup-generator",
    "cloud-init-generator",
    "friendly-recovery",
    "lvm2-activation-generator",
    "netplan",
    "selinux-autorelabel-generator.sh",
    "zfs-mount-generator",
)
#: Units of the standby's own, which start the rest of its boot: when the first units run, or without waiting for them.
REST_UNIT = "vcrecovery-rest.service"
REST_NOW_UNIT = "vcrecovery-rest-now.service"


def generator_path(name: str) -> str:
    return f"/etc/systemd/system-generators/{name}"


def unit_path(unit: str) -> str:
    return f"/etc/systemd/system/{unit}"


def kept_out(host_keys: str) -> Tuple[str, ...]:
    """Paths that are never synced, as rsync patterns without other special characters.

    `host_keys` is the plan's choice, `own` or `copied`.
    """
    masks = tuple(unit_path(unit) for unit in (*MASKED_UNITS, REST_UNIT, REST_NOW_UNIT))
    masks += tuple(generator_path(name) for name in MASKED_GENERATORS)
    return NEVER_SYNCED + (SNAPSHOT_PREFIX + "*",) + masks + ((HOST_KEYS,) if host_keys == "own" else ())
