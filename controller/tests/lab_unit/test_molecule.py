"""What `make molecule` says of a scenario, by what Molecule has printed."""

from vcrecovery_lab.molecule import changed_in_last_check, last_fault

FIRST = """\
INFO     [dns > check] Executing

TASK [Install BIND] ************************************************************
changed: [ns1]

INFO     [dns > check] Executed: Successful
"""
SECOND = """\
INFO     [dns > check] Executing

TASK [Install BIND] ************************************************************
ok: [ns1]

TASK [Describe the zones] ******************************************************
ok: [ns1]
changed: [ns2]

RUNNING HANDLER [Restart BIND] *************************************************
changed: [ns2]

INFO     [dns > check] Executed: Successful
INFO     [dns > side_effect] Executing

TASK [Move the name] ***********************************************************
changed: [localhost]
"""


def test_a_first_rehearsal_may_change_something_and_the_last_nothing() -> None:
    assert changed_in_last_check(FIRST + SECOND) == ["Describe the zones", "Restart BIND"]
    assert changed_in_last_check(SECOND + FIRST.replace("changed", "ok")) == []


def test_a_fault_is_that_of_the_task_that_failed() -> None:
    text = """\
TASK [Look] ********************************************************************
ok: [ns1]

TASK [Check that it does] ******************************************************
[ERROR]: Task failed: Action failed.
fatal: [ns1]: FAILED! =>
    msg: it does not
CRITICAL Ansible return code was 2
"""
    assert last_fault(text) == "task 'Check that it does'"
    assert last_fault("Failed to validate molecule.yml\n\nno such key\n") == "no such key"
    text = "CRITICAL Idempotence test failed because of the following tasks:\n*  => Run libvirt\nERROR    more\n"
    assert last_fault(text) == "Idempotence test failed because of the following tasks: *  => Run libvirt"
