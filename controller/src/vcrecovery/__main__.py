"""`python -m vcrecovery` is the same as `vcrecovery`."""

from vcrecovery.cli.main import main

main()
