"""What an exclude list costs: to make, to rsync and to lsyncd; against the naive list and the paper's algorithm."""
