"""What the sync costs and how fast it is: write to visible, first and later passes, memory and CPU time in the VM."""
