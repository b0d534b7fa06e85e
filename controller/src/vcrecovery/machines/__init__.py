"""What a VM that holds standbys is made of: its definition for libvirt, and what cloud-init finds at its first boot.

Standard library only, and relative imports: an Ansible module on the hypervisor runs it too.
"""

from .definition import NAMESPACE, definition, signature_in
from .machine import STANDBYS_CARD, Card, Machine
from .seed import FILES, STANDBYS_MOUNT, Seed, seed_files

__all__ = [
    "FILES",
    "NAMESPACE",
    "STANDBYS_CARD",
    "STANDBYS_MOUNT",
    "Card",
    "Machine",
    "Seed",
    "definition",
    "seed_files",
    "signature_in",
]
