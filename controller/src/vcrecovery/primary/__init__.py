"""What runs in a protected VM beside lsyncd.

The role `primary` puts this package and `excludes` there: nothing but Python 3.8 and the two of them.
"""
