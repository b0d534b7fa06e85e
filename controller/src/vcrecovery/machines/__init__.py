"""What a VM that holds standbys is made of: its definition for libvirt, and what cloud-init finds at its first boot.

Standard library only, and relative imports: an Ansible module on the hypervisor runs it too.
"""
