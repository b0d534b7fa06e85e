"""What each driver promises to the code above it: cases that the fake and the real thing must both pass.

A case is written once, against the driver's interface and a stage: the small Protocol of what a test can do to the
world behind that driver. The simulation has a stage of each kind (`unit/test_contracts.py`), and so has the lab
(`lab/test_v_contracts.py`). A fake that drifts from the real thing fails one of the two.
"""
