"""`vcrecovery relay`: what LIBVIRT-MIB agents tell and answer becomes values of Zabbix trapper items.

    receiver   datagrams of agents -> guard (is it genuine?) -> notification (what does it say?)
    poller     every agent's table, every `snmp.poll` seconds -> hearing (does the agent know anything?)
    guests     both of these -> the state and the utilisation of each guest of one hypervisor; pure
    outbox     what waits for Zabbix; pure
    trapper    the way to Zabbix
    relay      all of them together, in one event loop

How the agents are asked was decided by measurement, for one agent with 20 guests (85 variables, SHA-256 and AES-128):
pysnmp 6 ms of CPU, one `snmpbulkget` of net-snmp 9.5 ms, fork included. pysnmp also keeps passphrases out of command
lines and configuration files, so it is pysnmp, in this process. A notification costs it 3 ms, too much for a storm,
and it takes what is unauthenticated or replayed: hence the guard in front of it.
"""
