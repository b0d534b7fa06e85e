"""How much the relay costs, against net-snmp's agents, and how soon Zabbix has a notification."""
