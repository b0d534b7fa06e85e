"""Makes the templates of Zabbix in `templates/zabbix`: a file for each version of its export's format.

`python -m monitoring_templates` writes them. One source, since each object repeats what the others have (its identity,
its tags, where a problem is looked at), and the versions know different widgets.
"""
