"""What a container in a VM loses against that VM: the paper's figures 12, 13 and 14."""
