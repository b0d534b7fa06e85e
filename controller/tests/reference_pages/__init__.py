"""The reference pages under `docs/`, made of the code that they describe. `make docs` writes them, a test compares."""
