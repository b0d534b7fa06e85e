"""The paper's way from a VM's end to its recovery, all of it real: libvirt, SNMP, relay, Zabbix, controller."""
