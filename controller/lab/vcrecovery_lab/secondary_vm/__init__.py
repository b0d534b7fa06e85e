"""A secondary that is a VM: LXD in it, reached over HTTPS, with standbys made of the image that the primaries have."""
